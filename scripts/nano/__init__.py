"""Training of the embedded model: `make nano`, or `python -m scripts.nano --help`."""
