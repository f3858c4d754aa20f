"""rlx trains and evaluates language-model agents by reinforcement learning."""

__version__ = "0.1.0"
