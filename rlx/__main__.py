"""`rlx`, and `python -m rlx`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, and report Ctrl-C in one line from the first import on."""
    try:
        from rlx import cli

        cli.main()
    except KeyboardInterrupt:
        print("rlx: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
