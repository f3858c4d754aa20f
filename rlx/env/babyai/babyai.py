"""BabyAI-Text: go to, pick up, open and put down things in a room that is described in text.

    go to the red ball                        You see a wall 5 steps forward
                                              You see a red ball 1 step right and 4 steps forward
    go forward
    ...

Rooms are drawn by rlx (rlx/env/babyai/layout.py) and played by minigrid (rlx/env/babyai/grid.py). The text follows
BabyAI-Text (Carta et al. 2023, arXiv:2302.02662; rlx/env/babyai/text.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from rlx.base.limits import LARGEST, MANY, near, refuse, within
from rlx.env.babyai.grid import ACTIONS, Room, expert_actions, level_class
from rlx.env.babyai.layout import LEVELS, Layout, Pair, draw_layout, layout_of
from rlx.env.babyai.text import find
from rlx.env.split import split_tasks
from rlx.environment import Environment, Episode
from rlx.types import Action, Move, Step, Task, Text, Verb

MOST_DISTRACTORS = 12
PHRASES = {name: name.replace("_", " ") for name in ACTIONS}


@dataclass(frozen=True, kw_only=True)
class BabyAI(Environment):
    """The reward is 1 - 0.9 t / max_steps for a mission fulfilled by step t, less the penalties of invalid turns."""

    actions: ClassVar = tuple(Verb(name=name, description=phrase, phrase=phrase) for name, phrase in PHRASES.items())
    pace: ClassVar = "inline"
    discount: ClassVar = 0.9
    reward_only_keys: ClassVar = ("num_test", "penalty", "max_penalty", "max_invalid")
    expert_only_keys: ClassVar = ("noise", "num_noisy")
    """Keys that change demonstrations alone. A plan uses the expert's values for a policy that imitates the expert."""

    level: str = "GoTo"
    """Missions: GoTo, PickUp, Open, PutNext, PickUpSeqGoTo, GoToRedBall, GoToRedBallGrey, GoToRedBlueBall, PickupDist
    or UnlockPickup."""
    test_pairs: bool = False
    """Use missions of the Test levels: these name only held-out pairs of colour and object, which other missions
    never name."""
    num_distractors: int = 3
    """Number of objects beside the mission's, 0 to 12; some may equal these (papers: 0, 3, 5 or 8)."""
    penalty: float = 1.0
    """Price of an invalid turn, which does not advance the environment."""
    max_penalty: float | None = 10.0
    """Largest sum of penalties of an episode; null: no limit, and an untrained agent may reach -33."""
    max_invalid: int = 5
    """Invalid turns in a row that end an episode."""
    noise: float = 0.0
    """Probability that an early move of the expert is random, so that demonstrations show how to recover."""
    num_noisy: int = 4
    """Moves of a demonstration that may be random."""
    num_test: int = 200
    """Test tasks, at most."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            refuse("level", self.level, f"a level of BabyAI-Text{near(self.level, LEVELS)}")
        if self.test_pairs and not LEVELS[self.level].has_test:
            refuse("test_pairs", self.test_pairs, f"false: missions of {self.level} name no held-out pairs")
        within(0, MOST_DISTRACTORS, num_distractors=self.num_distractors)
        within(0.0, LARGEST, penalty=self.penalty, max_penalty=self.max_penalty)
        within(1, MANY, max_invalid=self.max_invalid, num_test=self.num_test)
        within(0.0, 1.0, noise=self.noise)
        within(0, MANY, num_noisy=self.num_noisy)

    def check_inputs(self) -> None:
        """Refuse a machine without minigrid."""
        level_class()

    @property
    def max_turns(self) -> int:
        """Valid turns of an episode, which `rlx plan` counts with."""
        return LEVELS[self.level].max_steps

    @property
    def reward_range(self) -> tuple[float, float]:
        """Return the limits of an episode's reward; invalid turns in a row are limited, and so is their sum."""
        possible = self.penalty * (self.max_turns * (self.max_invalid - 1) + 1)
        return -(possible if self.max_penalty is None else min(possible, self.max_penalty)), 1.0

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks(f"babyai/{self.level}/{self.test_pairs}", self.draw, split, seed, self.num_test)

    def draw(self, rng: Random) -> Task:
        return describe(draw_layout(rng, self.level, self.num_distractors, self.test_pairs))

    def start(self, task: Task) -> BabyAIEpisode:
        return BabyAIEpisode(layout_of(task.data), self)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Yield the moves of minigrid's expert, each with a thought about where the wanted thing is. A room in which
        the expert fails is a ValueError before the first move."""
        layout, rng = layout_of(task.data), Random(f"babyai/demonstrate/{seed}/{task.id}")
        room, moves, was_carried = Room(layout), list[Move](), False
        try:
            for name in expert_actions(room, rng, self.noise, self.num_noisy):
                carrying = room.carrying
                was_carried |= carrying == layout.targets[0]
                thought = find(room.lines(), *find_wanted(layout, carrying, was_carried, room.is_locked))
                moves.append(Move(thought=thought, action=Action(kind="act", name=name, text="")))
        except ValueError as error:
            where = f"level {self.level}, seed {seed}, task {task.id:.200}"
            raise ValueError(f"env: minigrid's expert fails in {where}: {error}") from error
        yield from moves


def describe(layout: Layout) -> Task:
    """Return the task of a layout; `goal` in its data is the mission alone, for protocols that have their own words."""
    *first, last = PHRASES.values()
    prompt = (Text(f"Your goal is to {layout.mission}."), Text(f"You may {', '.join(first)} or {last}."))
    data = {**layout.as_json(), "goal": layout.mission, "max_steps": LEVELS[layout.level].max_steps}
    return Task(id=layout.id, prompt=prompt, data=data)


def find_wanted(layout: Layout, carrying: Pair | None, was_carried: bool, is_locked: bool) -> Pair:
    """Return the thing that the mission needs next: the key before its door, the door before what lies behind, and the
    first target before the second. A thing to put somewhere is needed again if it is dropped, a thing to pick up is
    not."""
    if layout.door is not None and (is_locked or layout.order == "open"):
        key = (layout.door[0], "key")
        return (layout.door[0], "door") if carrying == key else key
    first, *second = layout.targets
    is_done = carrying == first if layout.order == "put next" else was_carried
    return second[0] if second and is_done else first


class BabyAIEpisode(Episode):
    """An episode; the same actions always give the same steps."""

    def __init__(self, layout: Layout, env: BabyAI) -> None:
        self.env, self.room = env, Room(layout)
        self.num_invalid, self.paid, self.is_over = 0, 0.0, False

    def opening(self) -> Step:
        return Step(observation=(self.view(),))

    def step(self, action: Action) -> Step:
        if self.is_over:
            return Step(done=True, success=False)
        if action.kind != "act" or action.name not in PHRASES or action.text.strip():
            return self.reject(action)
        self.num_invalid = 0
        reward, ended, late = self.room.act(action.name)
        self.is_over = ended or late
        return Step(
            observation=(self.view(),),
            reward=reward,
            done=self.is_over,
            truncated=late and not ended,
            success=reward > 0 if self.is_over else None,
            metrics={"invalid": 0.0},
        )

    def reject(self, action: Action) -> Step:
        """Answer an invalid turn: it costs its penalty, up to the limit of their sum, and takes no time."""
        limit = LARGEST if self.env.max_penalty is None else self.env.max_penalty
        cost = min(self.env.penalty, limit - self.paid)
        self.paid += cost
        self.num_invalid += 1
        self.is_over = self.num_invalid >= self.env.max_invalid
        why = action.text if action.kind == "invalid" else f"not an action: {action.name or action.text}"
        return Step(
            observation=(Text(f"Error: {why:.200}"), self.view()),
            reward=-cost,
            done=self.is_over,
            success=False if self.is_over else None,
            invalid=True,
            metrics={"invalid": 1.0},
        )

    def view(self) -> Text:
        return Text("\n".join(self.room.lines()))

    def picture(self) -> str:
        """Return the whole grid as text, which the agent never sees."""
        return self.room.picture()
