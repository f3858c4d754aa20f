"""Protocols: how completions become actions and observations become text."""
