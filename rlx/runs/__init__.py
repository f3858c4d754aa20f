"""Runs, read in one place: which folders are runs, and the state and content of each."""
