"""Rooms of BabyAI as data: a start position, things, a door and a mission, drawn with Python's `Random` alone.

    {"level": "GoTo", "agent": [2, 5, 3], "things": [["red", "ball", 4, 1]], "door": None,
     "order": "go to", "targets": [["red", "ball"]]}

The distributions are those of BabyAI-Text (Carta et al. 2023, arXiv:2302.02662). Things may be alike, and a layout is
drawn again until each thing can be reached and the mission is of the right kind: a mission of the test levels names
held-out pairs of colour and object only, a mission of the other levels none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

COLOURS = ("blue", "green", "grey", "purple", "red", "yellow")
KINDS = ("ball", "box", "key")
HELD_OUT = frozenset({("yellow", "box"), ("red", "key"), ("red", "door"), ("green", "ball"), ("grey", "door")})
TRAIN_DOORS, TEST_DOORS = ("yellow", "green", "blue", "purple"), ("red", "grey")

SIZE = 8
"""Cells along a side of a room, with its walls."""
DOOR_X = SIZE - 1
"""Column of the wall between two rooms."""
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Steps in the directions 0 to 3: right, down, left, up; y grows downwards."""
PATIENCE = 20_000
"""Draws of a layout."""

Cell = tuple[int, int]
Pair = tuple[str, str]
"""A colour and a kind of object; an empty colour or kind is any."""

MISSIONS = {
    "go to": "go to {0}",
    "pick up": "pick up {0}",
    "open": "open {0}",
    "put next": "put {0} next to {1}",
    "then": "pick up {0}, then go to {1}",
    "after": "go to {1} after you pick up {0}",
}
"""Text of a mission by its order."""


@dataclass(frozen=True)
class Level:
    """A family of missions."""

    orders: tuple[str, ...]
    num_targets: int
    max_steps: int
    """8 * 8 for each room and each navigation of a mission."""
    has_door: bool = False
    has_test: bool = True
    """Test tasks may name held-out pairs alone (`test_pairs`)."""
    named: tuple[Pair, ...] = ()
    """Pairs of which a mission names one; empty: any."""
    colours: tuple[str, ...] = COLOURS
    """Colours of distractors."""
    is_alone: bool = False
    """No distractor is one of the named pairs."""
    is_partial: bool = False
    """A mission names a colour or a kind alone."""


LEVELS: Mapping[str, Level] = {
    "GoTo": Level(("go to",), 1, 64),
    "PickUp": Level(("pick up",), 1, 64),
    "Open": Level(("open",), 0, 128, has_door=True),
    "PutNext": Level(("put next",), 2, 128),
    "PickUpSeqGoTo": Level(("then", "after"), 2, 128),
    "GoToRedBall": Level(("go to",), 1, 64, has_test=False, named=(("red", "ball"),)),
    "GoToRedBallGrey": Level(("go to",), 1, 64, has_test=False, named=(("red", "ball"),), colours=("grey",)),
    "GoToRedBlueBall": Level(
        ("go to",), 1, 64, has_test=False, named=(("red", "ball"), ("blue", "ball")), is_alone=True
    ),
    "PickupDist": Level(("pick up",), 1, 64, has_test=False, is_partial=True),
    "UnlockPickup": Level(("pick up",), 1, 128, has_test=False, has_door=True),
}


@dataclass(frozen=True)
class Layout:
    """Start of an episode."""

    level: str
    agent: tuple[int, int, int]
    """x, y, direction."""
    objects: tuple[tuple[str, str, int, int], ...]
    """Colour, kind, x, y."""
    door: tuple[str, int, int] | None
    """Colour, x, y of a locked door; the agent and the key are in the same room, and so are all things but those that
    an unlocked door leads to."""
    order: str
    targets: tuple[Pair, ...]

    @property
    def id(self) -> str:
        """Return the whole layout in one line."""
        objects = " ".join(f"{colour}-{kind}-{x}-{y}" for colour, kind, x, y in self.objects)
        door = "" if self.door is None else "/door-{}-{}-{}".format(*self.door)
        names = ",".join("-".join(filter(None, pair)) for pair in self.targets)
        return f"{self.level}/{self.order}:{names}/{'-'.join(map(str, self.agent))}/{objects}{door}"

    @property
    def mission(self) -> str:
        """Return the goal: `a` where several things match a description, else `the`."""
        pairs = [placement[:2] for placement in self.objects] + ([(self.door[0], "door")] if self.door else [])
        return MISSIONS[self.order].format(*(noun(target, pairs) for target in self.targets))

    def as_json(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "agent": list(self.agent),
            "things": [list(placement) for placement in self.objects],
            "door": None if self.door is None else list(self.door),
            "order": self.order,
            "targets": [list(pair) for pair in self.targets],
        }


def layout_of(data: Mapping[str, Any]) -> Layout:
    """Return the layout of a task's data."""
    return Layout(
        level=data["level"],
        agent=tuple(data["agent"]),
        objects=tuple(tuple(placement) for placement in data["things"]),
        door=None if data["door"] is None else tuple(data["door"]),
        order=data["order"],
        targets=tuple(tuple(pair) for pair in data["targets"]),
    )


def matches(target: Pair, pair: Pair) -> bool:
    """Tell whether a description fits a thing."""
    return target[0] in ("", pair[0]) and target[1] in ("", pair[1])


def noun(target: Pair, pairs: Collection[Pair]) -> str:
    article = "a" if sum(matches(target, pair) for pair in pairs) > 1 else "the"
    return " ".join(filter(None, (article, target[0], target[1] or "object")))


def draw_layout(rng: Random, level: str, num_distractors: int, is_test: bool) -> Layout:
    """Draw layouts until one is acceptable; ValueError if none of `PATIENCE` draws is."""
    family = LEVELS[level]
    for _ in range(PATIENCE):
        if family.named:
            layout = draw_named(rng, level, family, num_distractors)
        elif family.is_partial:
            layout = name_in_part(rng, draw_room(rng, level, family, num_distractors, is_test))
        elif family.has_door and family.num_targets:
            layout = draw_behind_door(rng, level, num_distractors)
        elif family.has_door:
            layout = draw_two_rooms(rng, level, num_distractors, is_test)
        else:
            layout = draw_room(rng, level, family, num_distractors, is_test)
        if layout is not None and is_solvable(layout):
            return layout
    raise ValueError(f"env: no layout of {level} has room for num_distractors={num_distractors}: ask for fewer")


def draw_room(rng: Random, level: str, family: Level, num_distractors: int, is_test: bool) -> Layout | None:
    """Draw things, of which any may be a target, then their places, at least two steps from the agent."""
    pairs = [(rng.choice(COLOURS), rng.choice(KINDS)) for _ in range(num_distractors + family.num_targets)]
    targets = [rng.choice(pairs)]
    if family.num_targets == 2:
        alike = pairs.count(targets[0]) > 1
        targets.append(rng.choice([pair for pair in pairs if alike or pair != targets[0]] or targets))
        if targets[0] == targets[1] and not alike:
            return None
    if not is_of_split(targets, is_test):  # before the places, as most draws for the test levels end here
        return None
    return place(rng, level, family, pairs, targets)


def place(rng: Random, level: str, family: Level, pairs: Sequence[Pair], targets: Sequence[Pair]) -> Layout | None:
    """Draw the places of the agent and of things in one room; None if there is too little room."""
    x, y = rng.choice(inner_cells(0))
    free = [cell for cell in inner_cells(0) if distance(cell, (x, y)) >= 2]
    if len(pairs) > len(free):
        return None
    cells = rng.sample(free, len(pairs))
    objects = tuple((*pair, *cell) for pair, cell in zip(pairs, cells, strict=True))
    return Layout(level, (x, y, rng.randrange(4)), objects, None, rng.choice(family.orders), tuple(targets))


def draw_named(rng: Random, level: str, family: Level, num_distractors: int) -> Layout | None:
    """Draw a target among the pairs that the level names, and distractors of its colours."""
    target = rng.choice(family.named)
    others = [(rng.choice(family.colours), rng.choice(KINDS)) for _ in range(num_distractors)]
    if family.is_alone and set(others) & set(family.named):
        return None
    return place(rng, level, family, [target, *others], [target])


def name_in_part(rng: Random, layout: Layout | None) -> Layout | None:
    """Let a mission name the colour or the kind of its target alone."""
    if layout is None:
        return None
    (colour, kind), *_ = layout.targets
    return replace(layout, targets=(rng.choice(((colour, ""), ("", kind))),))


def draw_behind_door(rng: Random, level: str, num_distractors: int) -> Layout | None:
    """Draw a locked door with its key and distractors in the agent's room, and a box alone in the other room."""
    start = draw_two_rooms(rng, level, num_distractors, is_test=False)
    if start is None or start.door is None:
        return None
    box = (rng.choice(COLOURS), "box")
    if not is_of_split([box], is_test=False) or box in {placement[:2] for placement in start.objects}:
        return None
    cell = rng.choice(inner_cells(1 - start.agent[0] // DOOR_X))
    return replace(start, order="pick up", targets=(box,), objects=(*start.objects, (*box, *cell)))


def draw_two_rooms(rng: Random, level: str, num_distractors: int, is_test: bool) -> Layout | None:
    """Place a locked door, its key and distractors, then the agent, which faces a wall or an empty cell."""
    room, door = rng.randrange(2), (DOOR_X, rng.randrange(1, SIZE - 1))
    colour = rng.choice(TEST_DOORS if is_test else TRAIN_DOORS)
    free = inner_cells(room)
    if num_distractors + 2 > len(free):
        return None
    *cells, (x, y) = rng.sample(free, num_distractors + 2)
    pairs = [(colour, "key"), *((rng.choice(COLOURS), rng.choice(KINDS)) for _ in range(num_distractors))]
    objects = tuple((*pair, *cell) for pair, cell in zip(pairs, cells, strict=True))
    direction = rng.randrange(4)
    if (x + AHEAD[direction][0], y + AHEAD[direction][1]) in {*cells, door}:
        return None
    named = colour if is_test else rng.choice(("", colour))
    return Layout(level, (x, y, direction), objects, (colour, *door), "open", ((named, "door"),))


def inner_cells(room: int) -> list[Cell]:
    """Return the cells within the walls of the left room, 0, or the right one, 1."""
    return [(room * DOOR_X + x, y) for x in range(1, SIZE - 1) for y in range(1, SIZE - 1)]


def distance(cell: Cell, other: Cell) -> int:
    return abs(cell[0] - other[0]) + abs(cell[1] - other[1])


def is_of_split(targets: Collection[Pair], is_test: bool) -> bool:
    """Tell whether targets are held-out pairs only, or, in a training level, none of them is."""
    return all((pair in HELD_OUT) == is_test for pair in targets)


def is_solvable(layout: Layout) -> bool:
    """Tell whether each thing can be reached past the others, and the mission is not fulfilled from the start."""
    if layout.order == "put next" and is_fulfilled(layout):
        return False
    doors = {layout.door[1:]} if layout.door else set[Cell]()
    blocked = {(x, y) for _, _, x, y in layout.objects}
    occupied, rooms = blocked | doors, {x // DOOR_X for x, _ in (layout.agent[:2], *blocked)}
    inside = {cell for room in rooms for cell in inner_cells(room)} | occupied
    if len(rooms) == 1:  # nothing lies behind the door
        blocked = occupied
    reached, stack = set(), [layout.agent[:2]]
    while stack:
        x, y = stack.pop()
        if (x, y) in reached or (x, y) not in inside:
            continue
        reached.add((x, y))
        if (x, y) not in blocked:
            stack.extend((x + dx, y + dy) for dx, dy in AHEAD)
    return occupied <= reached


def is_fulfilled(layout: Layout) -> bool:
    """Tell whether a thing to put is beside its target already, or both are described alike."""
    moved, fixed = layout.targets
    places = [[placement[2:] for placement in layout.objects if placement[:2] == pair] for pair in (moved, fixed)]
    return moved == fixed or any(distance(moved_cell, other) == 1 for moved_cell in places[0] for other in places[1])
