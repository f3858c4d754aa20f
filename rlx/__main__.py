"""`rlx`, and `python -m rlx`."""

from __future__ import annotations

import sys


def main() -> None:
    """The command line; Ctrl-C while that is still being imported is one line, as it is later."""
    try:
        from rlx import cli

        cli.main()
    except KeyboardInterrupt:
        print("rlx: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
