"""Questions that one answer ends, with their sources and scorers."""
