"""Questions with a single answer, their sources and their scorers."""
