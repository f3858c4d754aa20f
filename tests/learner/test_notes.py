"""What training made of each token, against a batch whose numbers are known."""

from __future__ import annotations

from dataclasses import replace

import torch

from rlx.algo.credit import per_row
from rlx.algo.parts import Credited, PerRow
from rlx.learner.batch import collate
from rlx.learner.notes import notes_of
from rlx.types import Action, Completion, Fork, Group, Task, Trajectory, Turn

TASK = Task(id="t", prompt=(), data={})


def turn(prompt: tuple[int, ...], *ids: int) -> Turn:
    done = Completion(token_ids=ids, logprobs=(-0.5,) * len(ids), stop="stop")
    return Turn(prompt_ids=prompt, completion=done, action=Action(kind="answer", text=""))


def episode(sample: int, *turns: Turn, **more: object) -> Trajectory:
    return Trajectory(task=TASK, sample=sample, turns=turns, status="done", **more)  # type: ignore[arg-type]


PLAIN = episode(0, turn((1,), 2, 3), turn((1, 2, 3, 9), 4))
FAILED = replace(episode(1, turn((1,), 5)), status="error", error="x")
FORKED = episode(2, turn((1,), 2, 7, 8), fork=Fork(parent=0, turn=0, token=1, forced=(7,)))
GROUPS = [Group(task=TASK, trajectories=(PLAIN, FAILED, FORKED))]


def test_every_token_has_its_own_and_what_was_not_sampled_has_none() -> None:
    batch = collate(GROUPS)
    assert batch.num_tokens == 4
    taught = batch.with_credit(per_row([1.0, 2.0, 3.0]))
    entropy = torch.tensor([0.25, 0.5, 0.75, 1.0])
    ((plain, failed, forked),) = notes_of(GROUPS, batch, taught, entropy, lambda ids: f"<{ids[0]}>")
    assert plain[0] == {
        "pieces": ["<2>", "<3>"],
        "advantages": [1.0, 1.0],
        "entropies": [0.25, 0.5],
        "trained": [1.0, 1.0],
    }
    assert plain[1]["advantages"] == [2.0]
    assert failed == [{"pieces": ["<5>"]}], "an error teaches nothing"
    assert forked[0]["pieces"] == ["<2>", "<7>", "<8>"]
    assert forked[0]["advantages"] == [None, None, 3.0], "what it took over and what it was told are not its own"
    assert forked[0]["entropies"] == [None, None, 1.0]


def test_what_an_update_leaves_out_is_told() -> None:
    one, other = episode(0, turn((1,), 2, 3)), episode(1, turn((1,), 4))
    groups = [Group(task=TASK, trajectories=(one, other))]
    batch = collate(groups)
    taught = batch.with_credit(Credited(advantage=PerRow([0.0, -1.0]), keep=PerRow([False, True])))
    ((first, second),) = notes_of(groups, batch, taught, torch.zeros(3), str)
    assert (first[0]["trained"], second[0]["trained"]) == ([0.0, 0.0], [1.0])
    valued = replace(batch, old_M={"value": torch.tensor([0.5, float("nan"), 1.5])})
    ((first, second),) = notes_of(groups, valued, taught, torch.zeros(3), str)
    assert (first[0]["values"], second[0]["values"]) == ([0.5, None], [1.5])
