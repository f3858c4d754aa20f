"""Messages on the control line between rlx and a server, which needs nothing but the standard library.

    rlx     HEADER (b"f", number, length) with an end of a line, and the body: fork a process for a request
            HEADER (b"k", number, 0): kill it
            HEADER (b"e", number, 0): kill it, and answer how it ended
    server  NUMBER: the process of that number is forked; or how it ended, as `os.waitpid` says it

No two processes of a box have one number, whichever server forked them. So a late order to kill a process of a server
that ended meets no process of the next. Numbers of the kernel begin again in each server.
"""

from __future__ import annotations

from struct import Struct

HEADER = Struct("!cqI")
NUMBER = Struct("!q")
FORK, KILL, END = b"f", b"k", b"e"
