"""What every other room builds on: limits, files, text, the terminal."""
