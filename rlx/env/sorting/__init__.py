"""Sorting hidden numbers: the environment, its episode and its experts."""
