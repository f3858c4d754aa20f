"""How fast a policy's weights reach a rollout server by HTTP, on this machine: `python benchmarks/bench_wire.py`.

The server is a process of its own around an engine that only copies what it is given. Wall time, the best of a few.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from rlx.protocol.automaton import Automaton
from rlx.rollout.engine import Counts
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import Link
from rlx.rollout.remote.server import RolloutServer

TOKEN = "bench"
NUM_TENSORS = 12


class Taker:
    """An engine that takes weights and does nothing else."""

    def __init__(self, num: int) -> None:
        self.weights = {f"w{i}": torch.ones(num) for i in range(NUM_TENSORS)}
        self.tick, self.version, self.counts = 0, -1, Counts()

    def use(self, automaton: Automaton | None) -> None:
        pass

    def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        for name, weight in weights.items():
            self.weights[name].copy_(weight)
        self.version = version

    def add(self, request: Any) -> None:
        raise NotImplementedError("nothing is sampled here")

    def step(self) -> list[Any]:
        return []

    def release(self, session: int) -> None:
        pass

    def rest(self, keep: bool = True) -> None:
        pass

    def close(self) -> None:
        pass


def serve(num: int) -> None:
    server = RolloutServer(Taker(num), token=TOKEN)
    print(server.address, flush=True)
    server.serve_forever()


def measure(megabytes: int, repeats: int) -> dict[str, Any]:
    num = megabytes * 2**20 // 4 // NUM_TENSORS
    words = [sys.executable, __file__, "--megabytes", str(megabytes), "--serve"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        assert server.stdout is not None
        engine = RemoteEngine([Link(address=server.stdout.readline().strip(), token=TOKEN, client="bench")])
        weights = {f"w{i}": torch.randn(num) for i in range(NUM_TENSORS)}
        times = []
        for version in range(repeats):
            begin = time.perf_counter()
            engine.load(weights, version)
            times.append(time.perf_counter() - begin)
    finally:
        server.terminate()
        server.wait()
    seconds = min(times)
    rate = round(4 * num * NUM_TENSORS / seconds / 1e9, 2)
    return {"bench": "wire", "megabytes": megabytes, "seconds": round(seconds, 4), "gb_per_s": rate}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[6, 768])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.megabytes[0] * 2**20 // 4 // NUM_TENSORS)
    else:
        for megabytes in options.megabytes:
            print(json.dumps(measure(megabytes, options.repeats)), flush=True)
