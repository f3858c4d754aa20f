"""A run that does not fit names words of the same machine that do, and these words are true."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.hardware.sizing.fit import FitError
from rlx.plan.checks import check_fit
from rlx.plan.prospect import Prospect
from rlx.plan.search import ADAPTERS, describe_fitting, spell
from rlx.settings.compose import build_run, compose
from tests.errors import raises_naming
from tests.loops import for_each

GSM = ("env=math/gsm8k", "algo=grpo")


def prospect_of(*words: str) -> Prospect:
    return Prospect(run=build_run(compose(words), Path()))


def fits(prospect: Prospect) -> bool:
    have = prospect.device_memory
    assert have is not None
    return prospect.misfit is None and all(budget.total.most <= have for budget in prospect.budgets)


STARTS = {
    "14B with adapters": ("hardware=a100x8", "model=qwen2_5_14b", ADAPTERS),
    "32B with adapters on H200": ("hardware=h200x8", "model=qwen2_5_32b_instruct", ADAPTERS),
    "32B with adapters on four machines": ("hardware=a100x8x4", "model=qwen2_5_32b_instruct", ADAPTERS),
}
"""Runs that a fixed share of 0.4 or 0.6 refused, and that a chosen one starts."""

REFUSED = {
    "32B with adapters": ("hardware=a100x8", "model=qwen2_5_32b_instruct", ADAPTERS),
    "72B with adapters": ("hardware=a100x8x2", "model=qwen2_5_72b_instruct", ADAPTERS),
    "72B": ("hardware=a100x8", "model=qwen2_5_72b_instruct"),
    "7B on one GPU": ("hardware=a100x1", "model=qwen2_5_7b"),
    "a share too small": ("hardware=a100x8", "model=qwen2_5_14b", ADAPTERS, "hardware.engine_memory=0.3"),
    "a share too large": ("hardware=a100x8", "model=qwen2_5_14b", ADAPTERS, "hardware.engine_memory=0.8"),
}


@pytest.mark.parametrize("name", STARTS)
def test_the_chosen_share_starts_what_a_fixed_one_refused(name: str) -> None:
    prospect = prospect_of(*STARTS[name], *GSM)
    assert prospect.share is not None
    assert prospect.run.hardware.engine_memory == prospect.share.share
    assert fits(prospect)


@for_each("name", REFUSED)
def test_the_words_of_a_refusal_appended_to_the_command_fit(name: str) -> None:
    words = (*REFUSED[name], *GSM)
    prospect = prospect_of(*words)
    with pytest.raises(FitError) as refusal:
        check_fit(prospect)
    fitting = prospect.fitting
    assert fitting is not None
    assert str(refusal.value).endswith(" ".join(fitting.words))
    again = prospect_of(*words, *fitting.words)
    assert again.run.hardware == fitting.hardware
    assert fits(again)
    assert again.hardware.devices_per_node <= (again.hardware.node_gpus or 0)
    assert again.hardware.node_gpus == prospect.hardware.node_gpus
    check_fit(again)


def test_a_machine_on_which_nothing_fits_says_so() -> None:
    prospect = prospect_of("hardware=gpu24x1", "model=qwen2_5_72b", *GSM)
    assert prospect.fitting is None
    with pytest.raises(FitError) as refusal:
        check_fit(prospect)
    assert str(refusal.value).endswith(describe_fitting(None))


def test_a_users_own_share_is_kept() -> None:
    prospect = prospect_of("hardware=a100x8", "model=qwen2_5_7b", "hardware.engine_memory=0.33", *GSM)
    assert prospect.share is None
    assert prospect.run.hardware.engine_memory == 0.33


def test_an_algorithm_that_reads_the_engines_doubts_gets_no_split_engine() -> None:
    words = ("hardware=a100x8", "model=qwen2_5_32b_instruct", ADAPTERS, "env=countdown", "algo=earl")
    fitting = prospect_of(*words).fitting
    assert fitting is None or fitting.hardware.tensor_parallel == 1


def test_the_search_is_deterministic_and_its_words_are_the_difference() -> None:
    prospect = prospect_of(*REFUSED["32B with adapters"], *GSM)
    first, second = (prospect_of(*REFUSED["32B with adapters"], *GSM).fitting for _ in range(2))
    assert first == second
    assert first is not None
    assert list(first.words) == spell(prospect.run, first.hardware)


def test_a_machines_own_memory_is_a_limit_too() -> None:
    words = ("hardware=a100x8", "model=qwen2_5_7b", *GSM)
    assert prospect_of(*words).misfit is None
    small = prospect_of(*words, "hardware.node_memory_gb=100")
    with raises_naming(FitError, "hardware.node_memory_gb"):
        check_fit(small)
