"""Calc-Bench (Yue et al. 2025): questions that a calculator helps with, each with one exact answer."""
