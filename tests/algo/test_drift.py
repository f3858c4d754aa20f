"""A plain policy gradient is right for one optimizer step on a batch; more of them are told before a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlx.run.alarm import drift_warning
from rlx.run.run import Run
from rlx.settings.build import build_part
from rlx.settings.compose import compose
from rlx.settings.folders import list_options, shipped_folder
from tests.loops import for_each

TWICE = "algo.optimizer.num_epochs=2"


@for_each(
    "words, drifts",
    [
        (("algo=rloo",), False),
        (("algo=rloo", TWICE), True),
        (("algo=rloo", "algo.optimizer.num_minibatches=2"), True),
        (("algo=rloo", "algo.sequence_cap=2", TWICE), False),
        (("algo=tool_rloo", TWICE), True),
        (("algo=tool_rloo_best2", TWICE), False),
        (("algo=reinforce", "algo.clip=null", TWICE), True),
        (("algo=a2c", TWICE), True),
        (("algo=grpo", TWICE), False),
        (("algo=ppo", TWICE), False),
        (("algo=sft", TWICE), False),
    ],
)
def test_plain_gradients_drift_from_their_second_step_on(words: tuple[str, ...], drifts: bool) -> None:
    assert build_part(compose([*words]), "algo").drifts is drifts


def test_no_preset_drifts_by_its_defaults() -> None:
    names = list_options("algo", [shipped_folder("conf")])
    assert [name for name in names if build_part(compose([f"algo={name}"]), "algo").drifts] == []


def test_the_warning_names_both_keys(small_run: Callable[..., Run], tmp_path: Path) -> None:
    run = small_run(tmp_path)
    algo = replace(run.algo, optimizer=replace(run.algo.optimizer, num_epochs=3))
    text = drift_warning(replace(run, algo=algo))
    assert "algo.optimizer.num_epochs=3" in text
    assert "num_minibatches=1" in text
