"""BabyAI-Text: rooms of minigrid, described in text."""
