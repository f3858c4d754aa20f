"""Sokoban rooms: all can be solved in their moves, as a plain search of every position says, and none is solved yet."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.env.game.sokoban_rooms import Cells, Room, draw_room, pushes_left, reach, room_of, rows_of, solve
from tests.errors import raises_naming

SEEDS = st.integers(0, 10**6)
CORNER = ["#####", "#X__#", "#_P_#", "#__O#", "#####"]
"""A box in a corner stays there."""
BEND = ["######", "#P___#", "#_X#_#", "#____#", "#__O_#", "######"]


def moved(room: Room, boxes: Cells, player: int, step: int) -> tuple[Cells, int] | None:
    to = player + step
    if to in boxes:
        if to + step in boxes or to + step not in room.floor:
            return None
        return boxes - {to} | {to + step}, to
    return (boxes, to) if to in room.floor else None


def fewest_moves(room: Room) -> int | None:
    """Of a search of every position, a move at a time."""
    far = {(room.boxes, room.player): 0}
    queue = list(far)
    for now in queue:
        if now[0] == room.targets:
            return far[now]
        for step in room.steps.values():
            after = moved(room, *now, step)
            if after and after not in far:
                far[after] = far[now] + 1
                queue.append(after)
    return None


def is_solved_by(room: Room, moves: list[str]) -> bool:
    now = (room.boxes, room.player)
    for name in moves:
        after = moved(room, *now, room.steps[name])
        assert after
        now = after
    return now[0] == room.targets


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([(6, 6, 2, 20), (5, 5, 1, 10), (5, 8, 2, 30), (6, 6, 2, 8)]))
def test_every_room_is_solved_in_its_moves_and_in_no_fewer_than_the_fewest(
    seed: int, sizes: tuple[int, int, int, int]
) -> None:
    _, _, num_boxes, max_moves = sizes
    room = draw_room(Random(seed), *sizes)
    fewest = fewest_moves(room)
    assert fewest is not None
    assert num_boxes <= fewest <= room.solution_length <= max_moves
    way = solve(room)
    assert len(way) == fewest
    assert is_solved_by(room, way)
    short = solve(room, weight=2.0)
    assert is_solved_by(room, short)
    assert len(short) <= 2 * fewest


@settings(max_examples=15)
@given(SEEDS, st.sampled_from([(8, 8, 4, 50), (8, 8, 5, 50), (12, 12, 6, 80), (10, 6, 4, 60)]))
def test_large_rooms_have_walls_around_and_no_box_on_a_target(seed: int, sizes: tuple[int, int, int, int]) -> None:
    num_rows, num_columns, num_boxes, max_moves = sizes
    room = draw_room(Random(seed), *sizes)
    rows = rows_of(room, num_rows)
    assert room_of(rows) == Room(room.width, room.floor, room.targets, room.boxes, room.player)
    assert {len(row) for row in rows} == {num_columns}
    assert len(rows) == num_rows
    assert set(rows[0] + rows[-1]) == {"#"}
    assert all(row[0] == row[-1] == "#" for row in rows)
    assert len(room.boxes) == len(room.targets) == num_boxes
    assert not room.boxes & room.targets
    assert reach(room.floor, room.player, room.width).keys() == room.floor
    assert num_boxes <= room.solution_length <= max_moves


@given(SEEDS)
def test_hard_rooms_are_solved(seed: int) -> None:
    room = draw_room(Random(seed % 30), 8, 8, 4, 50)
    way = solve(room, weight=2.0)
    assert is_solved_by(room, way)
    assert len(way) <= 2 * room.solution_length


def test_rooms_that_are_known() -> None:
    assert solve(room_of(CORNER)) == []
    assert fewest_moves(room_of(CORNER)) is None
    assert solve(room_of(BEND)) == ["right", "down", "down", "left", "down", "right"]
    assert pushes_left(room_of(BEND))[14] == 3


def test_seeds_repeat_rooms() -> None:
    assert draw_room(Random(5), 8, 8, 4, 50) == draw_room(Random(5), 8, 8, 4, 50)
    assert len({draw_room(Random(seed), 6, 6, 2, 20) for seed in range(200)}) > 190


def test_what_cannot_be_drawn_is_told() -> None:
    with raises_naming(ValueError, "env:", "6 x 6", "1 moves", "2 boxes"):
        draw_room(Random(0), 6, 6, 2, 1)
