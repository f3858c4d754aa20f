"""What went wrong in code that is not ours, in one line."""

from __future__ import annotations

import sys
from traceback import walk_tb


def fault(error: BaseException) -> str:
    """What was raised, and where in the environment's own code: `KeyError at /home/me/maze.py:12: 'left'`. Its own is
    what is neither rlx's nor Python's, nor of wandb, which puts a `sys.exit` of its own in the place of Python's."""
    known = {"rlx", "wandb", *sys.stdlib_module_names}
    places = [
        f" at {frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in known
    ]
    return f"{type(error).__name__}{places[-1] if places else ''}: {error}"
