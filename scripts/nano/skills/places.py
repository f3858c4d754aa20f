"""Places: from what is seen in a grid to the next action, and what is seen after turning or stepping."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from scripts.nano.skills.lesson import Document, Lesson, ask
from scripts.nano.skills.words import COLOURS, OBJECTS, show_count

Place = tuple[int, int]
"""Steps to the right (left is below zero), and steps ahead."""
OUT_OF_SIGHT = "out of sight"
MOVES = ("turn left", "turn right", "go forward")


def describe(place: Place) -> str:
    """`2 steps left and 1 step forward`: lateral distance first, nothing where it is zero."""
    across, ahead = place
    parts = [f"{show_count(abs(across), 'step')} {'left' if across < 0 else 'right'}"] if across else []
    return " and ".join([*parts, f"{show_count(ahead, 'step')} forward"] if ahead else parts)


def read_place(text: str) -> Place:
    """The inverse of `describe`."""
    steps = {way: int(number) for number, way in re.findall(r"(\d+) steps? (left|right|forward)", text)}
    return steps.get("right", 0) - steps.get("left", 0), steps.get("forward", 0)


def moved(place: Place, move: str) -> Place:
    """Return the place of a thing after a move of the observer."""
    across, ahead = place
    return {"turn left": (ahead, -across), "turn right": (-ahead, across), "go forward": (across, ahead - 1)}[move]


def show_place(place: Place) -> str:
    return describe(place) if place[1] >= 0 and any(place) else OUT_OF_SIGHT


def draw_things(rng: Random, num: int, reach: int) -> dict[str, Place]:
    names = rng.sample([f"{colour} {noun}" for colour in COLOURS for noun in OBJECTS], num)
    places = rng.sample([(x, y) for x in range(-reach, reach + 1) for y in range(reach + 1) if x or y], num)
    return dict(zip(names, places, strict=True))


def show_view(places: dict[str, Place]) -> str:
    return "".join(f"You see a {name} {describe(place)}\n" for name, place in places.items())


def choose_move(goal: str, place: Place) -> str:
    """Ahead as long as there is a way ahead, then towards the side; what stands in front is picked up or reached."""
    if place == (0, 1):
        return "pick up" if goal.startswith("pick up") else "done"
    if place[1] > 0:
        return "go forward"
    return "turn left" if place[0] < 0 else "turn right"


def draw_goal(rng: Random, places: dict[str, Place]) -> tuple[str, Place]:
    name = rng.choice(list(places))
    if rng.random() < 0.1:
        places[name] = (0, 1)
    return rng.choice((f"go to the {name}", f"pick up the {name}")), places[name]


def navigate_room(rng: Random, size: int) -> Document:
    """The next move to one of `size` things."""
    places = draw_things(rng, size, reach=6)
    goal, place = draw_goal(rng, places)
    return ask(f"Your goal is to {goal}.\n{show_view(places)}", choose_move(goal, place))


def reason_move(rng: Random, size: int) -> Document:
    """The same after a thought on where the thing is."""
    places = draw_things(rng, size, reach=6)
    goal, place = draw_goal(rng, places)
    name = goal.partition(" the ")[2]
    thought = f"The {name} is {describe(place)}.\nfinal answer: {choose_move(goal, place)}"
    return ask(f"Your goal is to {goal}. Think first.\n{show_view(places)}", thought)


def check_move(question: str, answer: str) -> bool:
    goal = question.partition("Your goal is to ")[2].partition(".")[0]
    view = re.search(rf"You see a {goal.partition(' the ')[2]} (.*)\n", question)
    assert view is not None
    move = choose_move(goal, read_place(view[1]))
    thought = f"The {goal.partition(' the ')[2]} is {view[1]}.\nfinal answer: {move}"
    return answer == (thought if "Think first" in question else move)


def follow_moves(rng: Random, size: int) -> Document:
    """Ask for the place of a thing after `size` moves."""
    name, place = draw_things(rng, 1, reach=5).popitem()
    moves = rng.choices(MOVES, k=size)
    return ask(f"You see a {name} {describe(place)}. You {', '.join(moves)}. Now: ", show_after(place, moves))


def show_after(place: Place, moves: Sequence[str]) -> str:
    for move in moves:
        place = moved(place, move)
    return show_place(place)


def check_moves(question: str, answer: str) -> bool:
    view, moves_text, _ = question.split(". ")
    return answer == show_after(read_place(view), moves_text.removeprefix("You ").split(", "))


def reason_moves(rng: Random, size: int) -> Document:
    """The same with the place said after every move."""
    name, place = draw_things(rng, 1, reach=5).popitem()
    moves = rng.choices(MOVES, k=size)
    moves_text = ", ".join(moves)
    return ask(
        f"You see a {name} {describe(place)}. One by one you {moves_text}. Now:\n", "\n".join(show_each(place, moves))
    )


def show_each(place: Place, moves: Sequence[str]) -> list[str]:
    """Write the place after each move, out of sight too: `2 steps left and 1 step back`."""
    lines = []
    for move in moves:
        place = moved(place, move)
        lines.append(f"{move}: {describe_all_round(place)}")
    return [*lines, show_place(place)]


def describe_all_round(place: Place) -> str:
    across, ahead = place
    if ahead >= 0:
        return describe(place) or "here"
    behind = f"{show_count(-ahead, 'step')} back"
    return f"{describe((across, 0))} and {behind}" if across else behind


def check_each_move(question: str, answer: str) -> bool:
    view, moves_text, _ = question.split(". ")
    return answer.split("\n") == show_each(read_place(view), moves_text.removeprefix("One by one you ").split(", "))


def find_nearest(rng: Random, size: int) -> Document:
    """Ask for the nearest of `size` things, by steps; no two are equally far."""
    while True:
        places = draw_things(rng, size, reach=6)
        far = {name: abs(x) + y for name, (x, y) in places.items()}
        if sorted(far.values())[0] != sorted(far.values())[1]:
            return ask(f"{show_view(places)}Nearest: ", min(far, key=far.__getitem__))


def check_nearest(question: str, answer: str) -> bool:
    views = re.findall(r"You see a (\w+ \w+) (.*)\n", question)
    far = {name: sum(map(abs, read_place(text))) for name, text in views}
    return answer == min(far, key=far.__getitem__)


LESSONS = (
    Lesson(draw=navigate_room, check=check_move, sizes=(1, 2, 3, 4), harder=6, weight=1.5),
    Lesson(draw=reason_move, check=check_move, sizes=(1, 2, 3, 4), harder=6),
    Lesson(draw=follow_moves, check=check_moves, sizes=(1, 1, 2), harder=3),
    Lesson(draw=reason_moves, check=check_each_move, sizes=(1, 2, 3), harder=4),
    Lesson(draw=find_nearest, check=check_nearest, sizes=(2, 3, 4), harder=6),
)
