"""Reproduction of a paper's result from a file in scripts/reproduce/: its runs, their measurements and the report."""
