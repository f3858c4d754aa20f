"""The configuration: the only place that knows Hydra."""
