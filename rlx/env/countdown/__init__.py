"""Countdown: environment, solver, verifier and demonstrations."""
