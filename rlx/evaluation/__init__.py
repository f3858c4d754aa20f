"""Evaluation: pass@k with intervals, tool cost, tables, replay."""
