"""Rollout servers of a run: their assignment to the run's processes, and the start of those not named from outside.

`RLX_SERVERS=host:port,…` names existing servers, started with `rlx serve` and the same RLX_SERVER_TOKEN. The variable
describes the cluster and not the run, so it is no part of the configuration. Otherwise each server is a process on this
machine, with its own secret, its log in the run's `logs/server-N.log`, and a pipe from its parent. When the pipe is
closed, however the parent ended, the server ends too.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rlx.base.console import one_line
from rlx.base.regular import inside, open_to_append
from rlx.hardware.profile import Hardware
from rlx.hardware.ranks import ALONE, Ranks
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import Link, ServerError, link_all, token_here
from rlx.rollout.remote.server import TOKEN_VARIABLE
from rlx.run.run import Run
from rlx.runs.folder import LOGS, claim_config, make_folder
from rlx.runs.single_files import last_lines
from rlx.types import Metrics

SERVERS_VARIABLE = "RLX_SERVERS"
FAREWELL = 10.0
"""Seconds that a server may take to end."""
ADDRESS = re.compile(r"[\w.\-\[\]:]+:\d{1,5}")
WORDS = 3
"""Last lines of a log that an error quotes."""


def servers_of(hardware: Hardware, ranks: Ranks) -> list[int]:
    """Return the numbers of this process's servers."""
    players = hardware.players(ranks.size)
    if ranks.rank not in players:
        return []
    return list(range(players.index(ranks.rank), hardware.num_servers, len(players)))


def devices_of(hardware: Hardware, size: int, server: int) -> list[int]:
    """Return the GPU indices of a server on its machine: after the learner's, one server after another."""
    node = hardware.node_of(server, size)
    before = sum(hardware.node_of(other, size) == node for other in range(server))
    first = max(size // hardware.num_nodes, 1) + before * hardware.tensor_parallel
    return list(range(first, first + hardware.tensor_parallel))


@dataclass(slots=True, kw_only=True)
class Child:
    """A server started by this process."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    address: str = ""

    def wait(self) -> str:
        """Return the server's address: a ready server prints its address."""
        assert self.process.stdout is not None
        self.address = self.address or self.process.stdout.readline().decode().strip()
        if not self.address:
            self.process.wait()
            raise ServerError(f"rollout server {self.number} did not start; {self.log} ends: {last_words(self.log)}")
        return self.address

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(FAREWELL)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@dataclass(slots=True, kw_only=True)
class Fleet:
    """Servers of this process, without those of other processes."""

    children: list[Child] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    token: str = field(default="", repr=False)
    patience: float = 3600.0
    _engine: RemoteEngine | None = None

    def links(self) -> list[Link]:
        """Wait until all servers are ready, and return links to them."""
        logs = {child.wait(): child.log for child in self.children}
        return link_all(
            self.addresses or list(logs),
            self.token,
            last_words=lambda address: last_words(logs[address]) if address in logs else "",
            patience=self.patience,
        )

    def engine(self) -> RemoteEngine:
        """Return one engine over all servers, the same at every call."""
        self._engine = self._engine or RemoteEngine(self.links())
        return self._engine

    def measure(self, ranks: Ranks) -> Metrics:
        """Count the living servers of all processes, and the sessions moved away from dead ones."""
        moved, living = (0, 0) if self._engine is None else (self._engine.num_moved, self._engine.num_living)
        counts = ranks.gather([moved, living])
        return {"engine/moved": sum(m for m, _ in counts), "engine/servers": sum(num for _, num in counts)}

    def end(self) -> None:
        if self._engine is not None:
            self._engine.close()
        for child in self.children:
            with suppress(OSError):
                if child.process.stdin is not None:
                    child.process.stdin.close()
        for child in self.children:
            child.end()


@contextmanager
def open_fleet(run: Run, ranks: Ranks = ALONE) -> Iterator[Fleet | None]:
    """Start the servers of the run's hardware while the block lasts; yield None without servers."""
    hardware = run.hardware
    if not hardware.num_servers:
        yield None
        return
    mine, patience = servers_of(hardware, ranks), 60 * hardware.step_minutes
    addresses = given_addresses(hardware.num_servers)
    fleet = Fleet(
        addresses=[addresses[number] for number in mine] if addresses else [],
        token=token_here() if addresses else secrets.token_hex(32),
        patience=patience,
    )
    try:
        if mine and not addresses:
            place = inside(run.folder, LOGS, f"server-{mine[0]}")  # where `rlx serve run=DIR` looks for it
            make_folder(place)
            claim_config(place, run.config)
        for number in () if addresses else mine:
            fleet.children.append(start(run, number, devices_of(hardware, ranks.size, number), fleet.token, mine[0]))
        yield fleet
    finally:
        fleet.end()


def given_addresses(num_servers: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the addresses in RLX_SERVERS. Their number must equal the profile's number of servers."""
    addresses = [word.strip() for word in environ.get(SERVERS_VARIABLE, "").split(",") if word.strip()]
    for address in addresses:
        if not ADDRESS.fullmatch(address):
            raise ServerError(f"{SERVERS_VARIABLE}: {one_line(address, 80)!r} is not host:port")
    if addresses and len(addresses) != num_servers:
        raise ServerError(f"{SERVERS_VARIABLE} names {len(addresses)} servers; hardware.num_servers={num_servers}")
    return addresses


def start(run: Run, number: int, devices: Sequence[int], token: str, first: int) -> Child:
    """Start a server process, which loads its model in the background."""
    folder = inside(run.folder, LOGS)
    log = folder / f"server-{number}.log"
    environ = {**os.environ, TOKEN_VARIABLE: token}
    if run.hardware.device == "cuda":
        visible = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
        if visible and devices[-1] >= len(visible):
            raise ServerError(f"rollout server {number} needs GPU {devices[-1]}, but {len(visible)} are visible here")
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible[i] if visible else str(i) for i in devices)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environ.pop(name, None)
    with open_to_append(log) as file:
        process = subprocess.Popen(
            [*serve_command(run, folder / f"server-{first}"), "--child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env=environ,
            start_new_session=True,
        )
    return Child(number=number, process=process, log=log)


def serve_command(run: Run, place: Path) -> list[str]:
    """Return the command of a server, with the engine's share where the run has chosen it."""
    share = run.hardware.engine_memory
    chosen = [] if share is None else [f"hardware.engine_memory={share}"]
    return [sys.executable, "-m", "rlx", "serve", f"run={place}", *chosen]


def last_words(log: Path) -> str:
    """Return the end of a log on one line."""
    return one_line(" | ".join(map(str.strip, last_lines(log, num=WORDS))), 400) or "nothing"
