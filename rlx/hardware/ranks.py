"""The processes of a run: the place of this process, and the messages between processes.

torchrun's or SLURM's variables give a process its place. Messages are JSON or tensors over gloo, never pickles. All
ranks must make every call below that is not a property, in the same order.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.profile import Hardware

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

MEETING = timedelta(minutes=10)
"""Time that the processes of a run wait for the last to start."""
PATIENCE = timedelta(days=7)
"""Time limit of torch's collectives. `rlx.hardware.pulse` finds a rank that hangs much sooner."""
LOST = (
    "gloo/transport",
    "application timeout caused pair closure",
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "nccl error",
    "ncclremoteerror",
)
"""Phrases of gloo's RuntimeErrors that mean the loss of another process."""
APART = (
    "connectfullmesh",
    "unable to find address for",
    "unable to find interface",
    "unable to resolve hostname",
    "no route to host",
    "network is unreachable",
    "no socket interface found",
)
"""Phrases of the errors that a wrong network interface causes while processes meet."""


EXIT_RANK_LOST = 75
"""Exit code after another rank is lost or hangs (EX_TEMPFAIL): a launcher starts the run again."""


class RanksError(RuntimeError):
    """Misfit, loss or failure of the run's processes; the message is one line."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Rank within its machine; after the processes have met, the index of its GPU."""


@dataclass(frozen=True, kw_only=True)
class Ranks(Place):
    """This process among those of the run."""

    group: Any = None
    """CPU group of torch.distributed."""
    calls: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)
    """One number: the calls to the others so far. A rank that others wait for has made fewer."""

    @property
    def is_first(self) -> bool:
        """Flag of rank 0, which alone writes and prints."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this rank's share: item i belongs to rank i modulo size."""
        return list(items[self.rank :: self.size])

    def gather(self, value: Any) -> list[Any]:
        """Return all ranks' JSON values, in the order of ranks."""
        if self.size == 1:
            return [value]
        return [json.loads(text) for text in self._gather_bytes(json.dumps(value, separators=(",", ":")).encode())]

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's JSON value on every rank."""
        return self.gather(value if self.is_first else None)[0]

    def first(self, do: Callable[[], T]) -> T:
        """Call `do` on rank 0 and return its JSON result on every rank. An exception is raised on every rank too."""
        done: list[T] = []
        failure: Exception | None = None
        if self.is_first:
            try:
                done = [do()]
            except Exception as error:
                failure = error
        received = self.broadcast([done, None if failure is None else [str(failure), getattr(failure, "exit_code", 1)]])
        if failure is not None:
            raise failure
        if received[1] is not None:
            raise RanksError(*received[1])
        return received[0][0]

    def with_new_group(self) -> Ranks:
        """Return the same processes in a new group, whose messages do not mix with this one's: for a second thread."""
        if self.size == 1:
            return self
        import torch.distributed as dist

        return replace(self, group=dist.new_group(backend="gloo", timeout=PATIENCE))

    def most(self, number: float) -> float:
        """Return the largest of all ranks' numbers."""
        return max(self.gather(number))

    def add(self, x: Tensor) -> Tensor:
        """Sum a CPU tensor over all ranks, in place."""
        if self.size > 1:
            import torch.distributed as dist

            self.calls[0] += 1
            with report_lost_process(self):
                dist.all_reduce(x, group=self.group)
        return x

    def wait(self) -> None:
        """Block until every rank has called."""
        if self.size > 1:
            import torch.distributed as dist

            self.calls[0] += 1
            with report_lost_process(self):
                dist.barrier(group=self.group)

    def _gather_bytes(self, raw: bytes) -> list[bytes]:
        import torch
        import torch.distributed as dist

        self.calls[0] += 1
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with report_lost_process(self):
            dist.all_gather(lengths, torch.tensor([len(raw)]), group=self.group)
            longest = int(max(lengths))
            mine = torch.zeros(longest, dtype=torch.uint8)
            mine[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
            buffers = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(buffers, mine, group=self.group)
        return [bytes(x[: int(length)].numpy()) for x, length in zip(buffers, lengths, strict=True)]


ALONE = Ranks()


@contextmanager
def report_lost_process(place: Place) -> Iterator[None]:
    """Turn torch's error after the loss of another process into one line with the cause."""
    try:
        yield
    except RuntimeError as error:
        if not is_loss(error):
            raise
        gone = f"rank {place.rank} of {place.size} stops: another process of the run is gone"
        raise RanksError(f"{gone} ({cause_of(error)})", EXIT_RANK_LOST) from error


@contextmanager
def report_network_error(place: Place) -> Iterator[None]:
    """Turn the error of processes that cannot reach each other into one line. A second attempt would not help."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error, RanksError) or not says(error, APART) or says(error, LOST[2:5]):
            raise
        cannot = f"rank {place.rank} of {place.size} cannot reach the other processes ({cause_of(error)})"
        remedy = (
            "set GLOO_SOCKET_IFNAME, and on GPUs NCCL_SOCKET_IFNAME, to the network interface that all machines share"
        )
        raise RanksError(f"{cannot}: {remedy}; `ip -brief address` lists them") from error


def is_loss(error: RuntimeError) -> bool:
    """Return True if torch's communication failed. gloo's errors have no type, so their text decides."""
    import torch.distributed as dist

    return not isinstance(error, RanksError) and (isinstance(error, dist.DistError) or says(error, LOST))


def says(error: Exception, parts: Sequence[str]) -> bool:
    return any(part in str(error).lower() for part in parts)


def cause_of(error: Exception) -> str:
    """Return the first line of an error: printable, at most 200 characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "".join(char for char in lines[0] if char.isprintable())[:200]


def find_place(environ: Mapping[str, str] = os.environ, *, slurm: bool = True) -> Place:
    """Read the place from torchrun's variables, else from those of srun's tasks. A batch script has SLURM's variables
    too; `slurm=False` ignores them."""
    names = [("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    if slurm:
        names.append(("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"))
    for three in names:
        values = [environ.get(name, "") for name in three]
        if all(value.isdecimal() for value in values):
            return Place(rank=int(values[0]), size=int(values[1]), local_rank=int(values[2]))
    return Place()


def check_place(place: Place, hardware: Hardware) -> None:
    """Refuse a number of processes that differs from the profile's."""
    wanted = hardware.num_processes
    if place.size != wanted:
        many = f"`rlx launch` or `torchrun --nproc-per-node {wanted // hardware.num_nodes} -m rlx …`"
        remedy = f"start it with {many}" if wanted > 1 else f"choose a profile with num_processes={place.size}"
        raise RanksError(f"hardware.num_processes={wanted}, but {place.size} started: {remedy}", 2)


def meeting_point(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return MASTER_ADDR and MASTER_PORT as set, else derived from SLURM's job. The port lies below the range that
    Linux assigns."""
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return {name: environ[name] for name in ("MASTER_ADDR", "MASTER_PORT")}
    nodes, job = environ.get("SLURM_JOB_NODELIST"), environ.get("SLURM_JOB_ID", "")
    if not nodes or not job.isdecimal():
        raise RanksError("several processes, but no MASTER_ADDR and MASTER_PORT: start them with `rlx launch`")
    command = ["scontrol", "show", "hostnames", nodes]
    hosts = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    return {"MASTER_ADDR": hosts[0], "MASTER_PORT": str(20000 + int(job) % 12000)}


@contextmanager
def join(hardware: Hardware, *, exact: bool = True) -> Iterator[Ranks]:
    """Meet the other processes of the run, if any, while the block lasts. `exact` requires the profile's number of
    processes."""
    place = find_place(slurm=exact and hardware.num_processes > 1)
    if exact:
        check_place(place, hardware)
    if place.size == 1:
        yield ALONE
        return
    ranks = meet(place, hardware)
    with report_lost_process(place):
        try:
            yield ranks
        except InterruptedRunError:  # all know of it; a launcher that saw one leave would kill the others
            part_at_exit(ranks)
            raise
        part_at_exit(ranks)


def part_at_exit(ranks: Ranks) -> None:
    """Close this process's connections at its exit, after every rank has finished."""
    ranks.wait()
    atexit.register(part)


def part() -> None:
    """Release every process group. The threads of a group end with its last reference.

    A thread of gloo that releases a tensor needs the interpreter. Before Python 3.14, a thread that is too late aborts
    the finished process. DeepSpeed never releases its two groups, so their threads remain. Their last work is older
    than the ranks' last wait: an abort is unlikely there, not impossible.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
    gc.collect()


def device_index(local_rank: int, visible: int) -> int:
    """Return the index of this process's GPU among the visible ones: 0 if the site binds one GPU to each task."""
    if visible == 1:
        return 0
    if local_rank >= visible:
        raise RanksError(f"process {local_rank} of this machine sees {visible} GPUs: bind one to each task, or none", 2)
    return local_rank


def meet(place: Place, hardware: Hardware) -> Ranks:
    """Start torch.distributed, with a CPU group for all messages besides gradients."""
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    os.environ.update(meeting_point(), RANK=str(place.rank), WORLD_SIZE=str(place.size))
    if hardware.device == "cuda":
        place = replace(place, local_rank=device_index(place.local_rank, torch.cuda.device_count()))
        torch.cuda.set_device(place.local_rank)
    os.environ["LOCAL_RANK"] = str(place.local_rank)
    with report_lost_process(place), report_network_error(place):
        if not dist.is_initialized():
            store, rank, size = next(rendezvous("env://", timeout=MEETING))
            store.set_timeout(PATIENCE)
            backend = "nccl" if hardware.device == "cuda" else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
        group = dist.new_group(backend="gloo", timeout=PATIENCE)
    return Ranks(rank=place.rank, size=place.size, local_rank=place.local_rank, group=group)
