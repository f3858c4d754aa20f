"""Report of runs: curves over seeds, figures, costs, settings, and published values beside them, as one page."""
