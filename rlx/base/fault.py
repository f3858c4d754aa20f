"""Errors of code and services outside rlx, in one line."""

from __future__ import annotations

import sys
from traceback import walk_tb


class LostServiceError(RuntimeError):
    """A service that every episode needs is gone: the run stops, and no episode is counted as failed. The message is
    one line with the fault, its place and the remedy."""


def fault(error: BaseException) -> str:
    """Return an exception and its place in the environment's own code: `KeyError at /home/me/maze.py:12: 'left'`. Code
    of rlx and Python is skipped, and that of wandb, which replaces `sys.exit`."""
    skipped_packages = {"rlx", "wandb", *sys.stdlib_module_names}
    places = [
        f" at {frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in skipped_packages
    ]
    return f"{type(error).__name__}{places[-1] if places else ''}: {error}"
