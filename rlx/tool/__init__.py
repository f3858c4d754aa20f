"""What an environment lends the agent."""
