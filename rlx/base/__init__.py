"""Ground floor of the package: limits, files, text, the terminal."""
