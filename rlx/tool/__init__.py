"""Tools that an environment offers to the agent."""
