"""How a run's processes are started."""
