"""Trees made by hand, a process whose episodes branch, and a player that drives a sampler on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from rlx.algo.parts import Ask, Credited, PerRow, Sampler, SamplerContext
from rlx.algo.rows import Rows
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.types import Action, Completion, Group, Start, Task, Text, Trajectory, Turn

TASK = Task(id="t", prompt=(), data={})
EDGES = "acdbefgh"
"""s0 -a-> s1, s0 -b-> s2; s1 -c-> 1, s1 -d-> 0; s2 -e-> s3; s3 -f-> 1, -g-> 1, -h-> 0."""


def tree_by_hand() -> Rows:
    """Five leaves of one tree: `d` leaves the first episode, `b` its root, `g` and `h` leave the third."""
    return Rows(
        group=(0,) * 8,
        trajectory=(0, 0, 1, 2, 2, 2, 3, 4),
        turn=(0, 1, 1, 0, 1, 2, 2, 2),
        parent=(-1, 0, 0, -1, 3, 4, 4, 4),
        reward=(0, 1, 0, 0, 0, 1, 1, 0),
        num_tokens=(1,) * 8,
        success=(True, True, False, True, True, True, True, False),
        fork=(-1, -1, 1, 0, -1, -1, 5, 5),
        fork_token=(0,) * 8,
        state=(0, 1, 1, 0, 2, 3, 3, 3),
        logp=((-1.0,),) * 8,
    )


def steps_by_hand(reward: float = 1.0, failed: float = 0.0) -> Rows:
    """Two episodes: one observes o1, o2, o3 and succeeds, one observes o1, o2, o1, o4 and fails."""
    return Rows(
        group=(0,) * 7,
        trajectory=(0, 0, 0, 1, 1, 1, 1),
        turn=(0, 1, 2, 0, 1, 2, 3),
        parent=(-1, 0, 1, -1, 3, 4, 5),
        reward=(0, 0, reward, 0, 0, 0, failed),
        num_tokens=(1,) * 7,
        success=(True,) * 3 + (False,) * 4,
        observation=(0, 1, 2, 0, 1, 0, 3),
        invalid=(False,) * 7,
    )


def of_edges(found: Credited) -> dict[str, float]:
    """Name each advantage of the tree by its edge."""
    return dict(zip(EDGES, values_of(found), strict=True))


def values_of(found: Credited) -> list[float]:
    """The advantages, one a row."""
    assert isinstance(found.advantage, PerRow)
    return [float(value) for value in found.advantage.values]


def copies_of(found: Credited) -> list[float]:
    """The multiplicities, one a row."""
    assert isinstance(found.multiplicity, PerRow)
    return [float(value) for value in found.multiplicity.values]


def grow(sampler: Sampler, play: Callable[[Start], Trajectory], rng: Random | None = None) -> Group:
    """Drive a sampler's coroutine, as a stage does."""
    assert sampler.grow is not None
    growth = sampler.grow(SamplerContext(task=TASK, rng=rng or Random(0)))
    queue: list[Trajectory] = []
    asked: Any
    try:
        asked = next(growth)
        while True:
            starts = asked.starts if isinstance(asked, Ask) else asked
            queue += [play(start) for start in starts]
            wait = asked.wait if isinstance(asked, Ask) else len(queue)
            ended, queue = queue[:wait], queue[wait:]
            asked = growth.send(ended)
    except StopIteration as end:
        group: Group = end.value
        return group


def table(*groups: Group) -> Rows:
    """The rows that credit sees."""
    return rows(list(groups), collate(list(groups)))


class Process:
    """Episodes of `length` turns, or of random lengths up to it; each turn is of a few tokens by chance."""

    def __init__(self, seed: int, length: int = 4, tokens: int = 1, varied: bool = False) -> None:
        self.rng, self.length, self.tokens, self.varied = Random(seed), length, tokens, varied
        self.num_turns = 0
        """Turns sampled so far; the replayed ones are not."""

    def play(self, start: Start) -> Trajectory:
        fork = start.fork
        turns = list(start.prefix[: fork.turn]) if fork else []
        given = start.prefix[fork.turn].completion if fork and fork.token else None
        length = len(turns) + 1 + self.rng.randrange(self.length - len(turns)) if self.varied else self.length
        while len(turns) < length:
            turns.append(self.turn(turns, fork.token if fork and given else 0, given, is_last=len(turns) + 1 == length))
            given = None
        success = turns[-1].reward > 0
        return Trajectory(task=TASK, sample=start.sample, turns=tuple(turns), status="done", success=success, fork=fork)

    def turn(self, past: Sequence[Turn], num: int, given: Completion | None, *, is_last: bool) -> Turn:
        self.num_turns += 1
        said = tuple(self.rng.randrange(2) for _ in range(self.tokens - num))
        logprobs = tuple(-self.rng.random() for _ in said)
        done = Completion(
            token_ids=(given.token_ids[:num] if given else ()) + said,
            logprobs=(given.logprobs[:num] if given else ()) + logprobs,
            watched=((0.5,),) * self.tokens,
            stop="stop",
        )
        prompt = (9, *(token for turn in past for token in (*turn.completion.token_ids, 8)))
        reward = float(self.rng.random() < 0.5) if is_last else 0.25 * self.rng.randrange(2)
        action = Action(kind="answer" if is_last else "act", text="", name="" if is_last else "go")
        seen = () if is_last else (Text(str(self.rng.randrange(3))),)
        return Turn(prompt_ids=prompt, completion=done, action=action, observation=seen, reward=reward)


def shuffled(group: Group, seed: int) -> Group:
    """The same episodes in another order."""
    episodes = list(group.trajectories)
    Random(seed).shuffle(episodes)
    return replace(group, trajectories=tuple(episodes))


def by_place(group: Group, found: Credited, skip: int = 0) -> dict[tuple[int, int, int], float]:
    """Name the advantages of a group by sample, turn and token; `skip` rows come before its own."""
    episodes = [one for one in group.trajectories if one.status != "error" and one.turns]
    starts = {one.sample: len(one.turns) - len(one.new_turns) for one in episodes}
    places = [(one.sample, turn) for one in episodes for turn in range(starts[one.sample], len(one.turns))]
    values = found.advantage.values[skip : skip + len(places)]
    own = [value if isinstance(value, list) else [value] for value in values]
    return {(*place, i): float(x) for place, of in zip(places, own, strict=True) for i, x in enumerate(of)}
