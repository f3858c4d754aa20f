"""A layout placed in minigrid: steps, views, pictures and minigrid's own expert.

minigrid is imported when the first episode starts. Nothing here depends on its random numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from random import Random
from types import ModuleType
from typing import Any

from rlx.base.limits import MistakeError
from rlx.env.babyai.layout import DOOR_X, SIZE, Layout, Pair
from rlx.env.babyai.text import describe

ACTIONS = ("turn_left", "turn_right", "go_forward", "pick_up", "drop", "toggle")
"""Names of actions, in the order of minigrid's numbers."""
HARMLESS = ACTIONS[:5]
"""Actions of a noisy expert. A toggle makes a box disappear, and minigrid's expert gives up then."""

COLOUR_LETTERS = {"blue": "b", "green": "g", "grey": "e", "purple": "p", "red": "r", "yellow": "y"}
KIND_LETTERS = {"ball": "o", "box": "x", "key": "k"}
LEGEND = "blue b, green g, grey e, purple p, red r, yellow y; ball o, box x, key k; door _ open, D closed, L locked"


@cache
def package(name: str) -> ModuleType:
    """Import a module of minigrid; a MistakeError names the extra that has it."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        return import_module(f"minigrid.{name}")
    except ImportError as error:
        why = "is not installed" if isinstance(error, ModuleNotFoundError) else "cannot be imported"
        message = f"env: minigrid {why} ({error}): pip install 'rlx[babyai]'"
        raise MistakeError(" ".join(message.split())) from error


@cache
def level_class() -> Any:
    """Return the class of minigrid's levels whose grid and mission come from a layout."""
    objects = package("core.world_object")
    base: Any = package("envs.babyai.core.roomgrid_level").RoomGridLevel
    object_classes = {"ball": objects.Ball, "box": objects.Box, "key": objects.Key}

    class PlacedLevel(base):
        def __init__(self, layout: Layout) -> None:
            self.layout = layout
            super().__init__(room_size=SIZE, num_rows=1, num_cols=2 if layout.door else 1)

        def gen_mission(self) -> None:
            layout = self.layout
            if layout.door is not None:
                colour, *place = layout.door
                self.get_room(0, 0).door_pos[0] = tuple(place)
                self.add_door(0, 0, 0, colour, True)
            for colour, kind, x, y in layout.objects:
                world_object = object_classes[kind](colour)
                self.put_obj(world_object, x, y)
                self.get_room(x // DOOR_X, 0).objs.append(world_object)
            *place, self.agent_dir = layout.agent
            self.agent_pos = tuple(place)
            self.instrs = instruction(layout)

        def validate_instrs(self, instr: object) -> None:
            """The layout was validated when it was drawn; minigrid would draw again for ever."""

    return PlacedLevel


def instruction(layout: Layout) -> Any:
    """Return the mission as minigrid's verifier has it."""
    verifier = package("envs.babyai.core.verifier")
    described = [verifier.ObjDesc(kind or None, colour or None) for colour, kind in layout.targets]
    match layout.order:
        case "go to":
            return verifier.GoToInstr(*described)
        case "pick up":
            return verifier.PickupInstr(*described)
        case "open":
            return verifier.OpenInstr(*described)
        case "put next":
            return verifier.PutNextInstr(*described)
        case "then":
            return verifier.BeforeInstr(verifier.PickupInstr(described[0]), verifier.GoToInstr(described[1]))
        case "after":
            return verifier.AfterInstr(verifier.GoToInstr(described[1]), verifier.PickupInstr(described[0]))
    raise ValueError(f"env: a layout has the order {layout.order!r:.60}, which no mission has")


class Room:
    """An episode in minigrid."""

    def __init__(self, layout: Layout) -> None:
        self.level = level_class()(layout)
        observation, _ = self.level.reset(seed=0)
        self.view = observation["image"].tolist()

    @property
    def max_steps(self) -> int:
        return int(self.level.max_steps)

    @property
    def carrying(self) -> Pair | None:
        """Return the colour and kind of the thing that the agent carries."""
        world_object = self.level.carrying
        return None if world_object is None else (world_object.color, world_object.type)

    @property
    def is_locked(self) -> bool:
        """Tell whether the door between two rooms is locked."""
        door = self.level.layout.door
        return door is not None and bool(self.level.grid.get(*door[1:]).is_locked)

    def act(self, name: str) -> tuple[float, bool, bool]:
        """Return the reward, 1 - 0.9 t / max_steps for the fulfilled mission, and whether the mission has ended or
        its time is over."""
        observation, reward, ended, late, _ = self.level.step(self.level.actions(ACTIONS.index(name)))
        self.view = observation["image"].tolist()
        return float(reward), bool(ended), bool(late)

    def lines(self) -> list[str]:
        return describe(self.view)

    def frame(self) -> Any:
        """Return an RGB image of the whole grid, with what the agent sees in a lighter shade."""
        return self.level.get_frame()

    def picture(self) -> str:
        """Return the whole grid as text, for people."""
        grid, agent = self.level.grid, tuple(map(int, self.level.agent_pos))
        rows = [
            " ".join(
                f"{'>v<^'[self.level.agent_dir]} " if (x, y) == agent else letters(grid.get(x, y))
                for x in range(grid.width)
            ).rstrip()
            for y in range(grid.height)
        ]
        carried = [f"carrying a {' '.join(self.carrying)}"] if self.carrying else []
        return "\n".join([*rows, *carried, LEGEND])


def letters(world_object: Any) -> str:
    """Return two characters for the content of a cell."""
    if world_object is None:
        return ". "
    if world_object.type == "wall":
        return "##"
    colour = COLOUR_LETTERS[world_object.color]
    if world_object.type == "door":
        return f"{colour}{'_' if world_object.is_open else 'L' if world_object.is_locked else 'D'}"
    return f"{colour}{KIND_LETTERS[world_object.type]}"


def expert_actions(room: Room, rng: Random, noise: float, num_noisy: int) -> Iterator[str]:
    """Play a room by minigrid's BabyAIBot and yield each action before it is done. With probability `noise` each of
    the first `num_noisy` actions is random; the bot then plans anew.

    A ValueError says why the bot fails: by an exception, by giving up, or by too many steps.
    """
    bot = package("utils.baby_ai_bot").BabyAIBot(room.level)
    last_action, num_taken = None, 0
    while True:
        try:
            wanted = bot.replan(last_action)
        except Exception as error:
            error_text = f"{type(error).__name__} after {num_taken} steps: {' '.join(str(error).split()):.80}"
            raise ValueError(error_text.removesuffix(": ")) from error
        if wanted is None or int(wanted) >= len(ACTIONS):
            raise ValueError(f"it gives up after {num_taken} steps")
        name = ACTIONS[int(wanted)]
        if num_taken < num_noisy and rng.random() < noise:
            name = rng.choice(HARMLESS)
        yield name
        reward, ended, late = room.act(name)
        last_action, num_taken = room.level.actions(ACTIONS.index(name)), num_taken + 1
        if ended and reward > 0:
            return
        if ended or late:
            raise ValueError(f"its {num_taken} steps do not fulfil the mission")
