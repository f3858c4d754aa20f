"""What is counted of a policy's habits."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.lab.habits import habits, lengths_of_right, lengths_svg
from rlx.types import Action, Completion, Fork, Task, Trajectory, Turn

TASK = Task(id="t", prompt=(), data={})


def decode(ids: Sequence[int]) -> str:
    return "".join(map(chr, ids))


def turn(text: str, action: Action, **metrics: float) -> Turn:
    done = Completion(token_ids=tuple(map(ord, text)), logprobs=(0.0,) * len(text), stop="stop")
    return Turn(prompt_ids=(1,), completion=done, action=action, metrics=metrics)


CALL, ANSWER = Action(kind="call", name="calculate", text="1+1="), Action(kind="answer", text="2")
GOOD = Trajectory(
    task=TASK,
    sample=0,
    turns=(
        turn("Let me try 1+1. ", CALL, hallucinated=2.0),
        turn("Too small; instead trying that", CALL, hallucinated=0.0),
        turn("2", ANSWER, hallucinated=0.0),
    ),
    status="done",
    success=True,
)
BAD = Trajectory(task=TASK, sample=1, turns=(turn("the entry", ANSWER, hallucinated=0.0),), status="done")


def test_interactions_hallucinations_and_plans_are_means_over_episodes() -> None:
    fork = Trajectory(task=TASK, sample=2, turns=GOOD.turns, status="done", fork=Fork(parent=0, turn=0))
    found = habits([GOOD, BAD, fork], decode)
    assert found == {"interactions": 1.0, "hallucinations": 1.0, "plannings": 2.5, "success": 0.5}
    assert "hallucinations" not in habits([Trajectory(task=TASK, sample=0, turns=(), status="done")], decode)


def test_lengths_are_those_of_what_was_right() -> None:
    assert lengths_of_right([GOOD, BAD]) == [16 + 30 + 1]
    picture = lengths_svg({"earl": [1, 2, 3], "none": []})
    assert "earl (2 on average)" in picture
    assert "none (none right)" in picture
    assert picture == lengths_svg({"earl": [1, 2, 3], "none": []})
