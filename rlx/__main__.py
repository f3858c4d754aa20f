"""`python -m rlx`."""

from rlx.cli import main

main()
