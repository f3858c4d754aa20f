"""Samplers, and what they are made of: fresh episodes, the expert's, stored ones, and forks of those played before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.base.limits import MANY, MistakeError, within
from rlx.base.stream import stream_of
from rlx.runs.store import StoreError, load, read
from rlx.types import Fork, Group, Start, Task, Trajectory

NumSamples = Annotated[int, "Episodes a task."]


class SamplerError(MistakeError):
    """A sampler asked for what cannot be played, or returned what is no group; the message is one line that says so."""


def group_by_task(tasks: Sequence[Task], trajectories: Sequence[Trajectory], num_samples: int) -> list[Group]:
    """Cut a flat list of episodes, task by task, into groups."""
    if len(trajectories) != len(tasks) * num_samples:
        raise ValueError(f"asked for {len(tasks) * num_samples} episodes, got {len(trajectories)}")
    return [
        Group(task=task, trajectories=tuple(trajectories[i * num_samples : (i + 1) * num_samples]))
        for i, task in enumerate(tasks)
    ]


def independent(num_samples: int) -> Sampler:
    """Every task afresh, `num_samples` times."""
    within(1, MANY, num_samples=num_samples)
    return Sampler(num_episodes=num_samples)


def demonstrations() -> Sampler:
    """The environment's own expert, once a task."""
    return Sampler(num_episodes=1, expert=True)


def leave(
    parent: Trajectory,
    *,
    sample: int,
    turn: int,
    token: int = 0,
    forced: Sequence[int] = (),
    learned: bool = False,
    watch: Sequence[int] = (),
) -> Start:
    """A fork: what `parent` said, up to `token` tokens into a turn, then what it is `forced` to say, then its own.
    Whether what is forced is `learned` from, the algorithm says."""
    try:
        within(0, len(parent.turns) - 1, turn=turn)
        within(0, len(parent.turns[turn].completion.token_ids), token=token)
    except ValueError as error:
        raise SamplerError(f"leave sample {parent.sample} of task {parent.task.id!r:.60}: {error}") from None
    return Start(
        task=parent.task,
        sample=sample,
        prefix=parent.turns[: turn + 1],
        fork=Fork(parent=parent.sample, turn=turn, token=token, forced=ids("forced", forced), learned=learned),
        watch=ids("watch", watch),
    )


def ids(name: str, token_ids: Sequence[int]) -> tuple[int, ...]:
    """Token ids as a sampler gives them; SamplerError for what is no list of them."""
    if not isinstance(token_ids, list | tuple) or not all(isinstance(token_id, int) for token_id in token_ids):
        raise SamplerError(f"{name}={token_ids!r:.60}: expected a list of token ids")
    return tuple(token_ids)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Groups of a trajectory file instead of new ones: a task's id says which, so that a resumed run meets the same."""

    path: str
    key: str
    """Name of the key that gives the path, for its refusal."""

    def check(self) -> None:
        """Refuse a file that is not there or holds no episodes."""
        try:
            next(read(self.place))
        except StopIteration:
            raise SamplerError(f"{self.key}={self.path:.200}: it holds no episodes") from None
        except (OSError, StoreError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SamplerError(f"{self.key}={self.path:.200}: {reason}; give a file of a run's trajectories") from None

    @property
    def place(self) -> Path:
        return Path(os.path.expanduser(self.path))

    @cached_property
    def groups(self) -> list[Group]:
        return load(self.place)

    def grow(self, context: SamplerContext) -> Growth:
        yield ()
        return self.groups[stable_index(context.task.id, len(self.groups))]


def stored(path: str, key: str) -> Sampler:
    """Return a sampler that plays nothing and reads a file of trajectories."""
    stored_file = Stored(path=path, key=key)
    return Sampler(num_episodes=0, grow=stored_file.grow, check=stored_file.check)


def stable_index(text: str, num: int) -> int:
    """A number below `num` that depends on the text alone."""
    return stream_of(text) % num
