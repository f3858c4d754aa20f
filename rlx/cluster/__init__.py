"""Start of a run's processes, here or as SLURM jobs."""
