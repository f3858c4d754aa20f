"""`rlx serve`: a configuration's model and engine behind HTTP, until a signal stops it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import BinaryIO

from rlx.base.console import Screen
from rlx.hardware.profile import Hardware
from rlx.model.load import Model, load_base, load_tokenizer
from rlx.rollout.remote.link import token_here
from rlx.rollout.remote.server import RolloutServer
from rlx.run.trainee import build_engine

GRACE = 20.0
"""Seconds that a server may take to end after its parent's end, before it is killed."""


def serve(model: Model, hardware: Hardware, *, host: str = "127.0.0.1", port: int = 0, child: bool = False) -> None:
    """Serve until SIGINT, SIGTERM or, for a run's `child`, the end of standard input. The address goes to standard
    output, all other output to standard error."""
    token = token_here()
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        loaded = load_base(model, dtype=hardware.dtype, attention="sdpa")
        weights = dict(loaded.state_dict())
        engine = build_engine(hardware, model, loaded, weights, load_tokenizer(model))
        num_bytes = sum(tensor.numel() * 4 for tensor in weights.values())
        del loaded, weights
        server = RolloutServer(engine, token=token, host=host, port=port, largest_weights=2 * num_bytes + 2**24)
        if child:
            threading.Thread(target=outlive, args=(server, sys.stdin.buffer), daemon=True).start()
        else:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, lambda *_: stop(server))
        Screen().say(f"rollout server of {model.path} ({hardware.engine}) on {server.address}, process {os.getpid()}")
        tell(output, server.address)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
    if child:  # nothing of it is kept, and a busy machine takes seconds to take an interpreter apart
        os._exit(0)


def tell(output: BinaryIO, address: str) -> None:
    output.write(f"{address}\n".encode())
    output.flush()


def stop(server: RolloutServer) -> None:
    """Stop the server from another thread. A call from a request's thread would wait for itself."""
    threading.Thread(target=server.shutdown, daemon=True).start()


def outlive(server: RolloutServer, parent: BinaryIO) -> None:
    """End when the parent ends, which closes its side of the pipe."""
    parent.read()
    timer = threading.Timer(GRACE, os._exit, (1,))
    timer.daemon = True
    timer.start()
    server.shutdown()
