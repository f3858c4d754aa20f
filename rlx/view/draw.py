"""Module of the process that draws (rlx.tool.contain.server). It only imports: a fault names code by its module, and
the server gives this file another name than rlx's."""

from rlx.view.drawing import play, tasks

__all__ = ["play", "tasks"]
