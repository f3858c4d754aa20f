from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rlx.model.load import SHIPPED, Model, load_model, load_tokenizer
from rlx.model.problem import ModelError
from rlx.runs.folder import LOCK
from rlx.runs.lock import hold
from scripts.nano import pretrain as module
from scripts.nano.checkpoint import NAME, name_bits, name_machine, require_fitting, save_checkpoint
from scripts.nano.pretrain import (
    prepare_tokenizer,
    pretrain,
    run_rank,
    run_steps,
    start_training,
)
from scripts.nano.recipe import NanoRecipe, scale_rate
from scripts.nano.shards import start_others
from scripts.nano.skills import SKILLS, Skill
from scripts.nano.skills import numbers as taught
from scripts.nano.tokenizer import VOCABULARY
from tests.errors import raises_naming

TINY = NanoRecipe(steps=4, tokens_per_step=800, warmup=1, width=32, layers=1, heads=1, feed_forward=48)
BEGUN = {"step": 1, "tokens": 2, "seconds": 3}
FEW = {"numbers": Skill(share=1.0, lessons=taught.LESSONS[:2])}


@pytest.fixture(autouse=True)
def few_lessons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.nano.corpus.SKILLS", FEW)
    monkeypatch.setattr("scripts.nano.card.SKILLS", FEW)


def prepare(folder: Path) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "tokenizer" / "tokenizer.json").write_bytes((SHIPPED / "nano" / "tokenizer.json").read_bytes())
    return folder


def assert_same_bits(one: Path, other: Path) -> None:
    first, second = (load_file(folder / "checkpoint.safetensors") for folder in (one, other))
    assert set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)


def read_losses(folder: Path) -> list[tuple[int, float]]:
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [(line["step"], line["loss"]) for line in lines]


def test_a_run_cut_off_goes_on_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREFIX", 2)
    whole, cut = prepare(tmp_path / "whole"), prepare(tmp_path / "cut")
    pretrain(whole, TINY)
    take_step = module.take_step

    def stop_at_three(*arguments: object) -> None:
        if arguments[-1] == 3:
            raise KeyboardInterrupt
        take_step(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "take_step", stop_at_three)
    with pytest.raises(KeyboardInterrupt):
        pretrain(cut, TINY, save_every=0)
    monkeypatch.setattr(module, "take_step", take_step)
    with (cut / "log.jsonl").open("a") as log:
        log.write(json.dumps({"step": 3, "loss": 9.0, "tokens": 0}) + '\n{"step": 4, "lo')
    pretrain(cut, TINY)
    assert_same_bits(whole, cut)
    assert read_losses(cut) == read_losses(whole)
    assert (cut / "prefix.json").read_text() == (whole / "prefix.json").read_text()


def test_two_processes_give_the_bits_of_one_whose_text_another_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.nano.corpus.SKILLS", SKILLS)
    one, two = prepare(tmp_path / "one"), prepare(tmp_path / "two")
    full = {"tokens_per_step": 3000, "steps": 2, "warmup": 1, "width": 32, "layers": 1, "heads": 1, "feed_forward": 48}
    run_rank(one, NanoRecipe(**full), 1, 1, "cpu", 0)
    start_others(two, 2, run_rank, (two, NanoRecipe(**full), 2, 0, "cpu"))
    run_rank(two, NanoRecipe(**full), 2, 0, "cpu", 0)
    assert_same_bits(one, two)


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr("sys.argv", ["pretrain", *words])
    with pytest.raises(SystemExit) as ended:
        module.main()
    return ended.value.code


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--steps", "0"), "steps=0: expected an integer from 1 to 1000000"),
        (("--decay", "0"), "decay=0.0: expected a number above 0 and at most 1"),
        (("--width", "190"), "width=190: expected a multiple of 12: of 6 heads, each of an even size"),
        (("--tokens_per_step", "1"), "tokens_per_step=1: expected an integer from 2 to 1000000"),
        (("--processes", "2", "--drawers", "1"), "drawers=1: expected 0 beside --processes 2"),
        (("--drawers", "-1"), "drawers=-1: expected an integer from 0 to 256"),
        (("--device", "tpu"), "device=tpu: expected one of cpu"),
        (("--device", "\x1b[31m"), "device=\\x1b[31m: expected one of cpu"),
        (("--seed", "-1"), "seed=-1: expected an integer from 0 to 4294967295"),
        (("--steps", "1" + "0" * 30), "steps=1000000000000000000000000000000: expected an integer from 1 to 1000000"),
        (("--steps", "few"), "argument --steps: invalid int value: 'few'; --help tells all words"),
        (("--steps", "1" * 5000), "argument --steps: invalid int value"),
        (("--matrix_lr", "nan"), "matrix_lr=nan: expected a number above 0"),
        (("--width", "120000"), "width=120000: expected a model of at most 1,000,000,000 parameters, not of "),
        (("--wide", "3"), "unrecognized arguments: --wide 3"),
    ],
)
def test_words_that_cannot_be_are_refused_in_a_line(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(monkeypatch, "--work", str(tmp_path / "work"), *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(told)


def test_a_folder_of_another_shape_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = prepare(tmp_path / "work")
    training = start_training(prepare_tokenizer(work, TINY), TINY)
    save_checkpoint(work, training.model, training.optimizers, BEGUN, vars(TINY))
    before = (work / NAME).read_bytes()
    require_fitting(work, training.model, vars(TINY))
    assert run_main(monkeypatch, "--work", str(work)) == 2
    assert capsys.readouterr().err.startswith(f"{work / NAME}: of a model of another shape; ")
    assert (work / NAME).read_bytes() == before


def test_another_recipe_of_the_same_shape_is_refused(tmp_path: Path) -> None:
    work = prepare(tmp_path / "work")
    training = start_training(prepare_tokenizer(work, TINY), TINY)
    save_checkpoint(work, training.model, training.optimizers, BEGUN, vars(TINY))
    with raises_naming(ModelError, "made by", "heads=1", "not 2", "--work"):
        require_fitting(work, training.model, vars(replace(TINY, heads=2)))
    with raises_naming(ModelError, "made by", "steps=4", "not 5"):
        require_fitting(work, training.model, vars(replace(TINY, steps=5)))


@pytest.mark.parametrize("name", [NAME, "tokenizer/tokenizer.json"])
@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[: len(raw) // 2], lambda raw: b"\xff" * 99])
def test_what_is_damaged_in_the_folder_is_named_in_a_line(
    name: str,
    damage: Callable[[bytes], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work = prepare(tmp_path / "work")
    training = start_training(prepare_tokenizer(work, TINY), TINY)
    save_checkpoint(work, training.model, training.optimizers, BEGUN, vars(TINY))
    (work / name).write_bytes(damage((work / name).read_bytes()))
    assert run_main(monkeypatch, "--work", str(work), "--out", str(tmp_path / "out")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{work / name} cannot be read (")
    assert line.endswith(": remove it to begin anew")


def test_a_folder_at_work_and_places_that_are_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work, file = prepare(tmp_path / "work"), tmp_path / "file"
    file.touch()
    with hold(work / LOCK):
        assert run_main(monkeypatch, "--work", str(work)) == 2
    assert run_main(monkeypatch, "--work", str(file)) == 2
    assert run_main(monkeypatch, "--work", str(work), "--out", str(file)) == 2
    held, *lines = capsys.readouterr().err.splitlines()
    assert held.startswith(f"{work} is in use by another run (process ")
    assert held.endswith("wait for it, or choose another --work")
    assert [line.split(" (")[0] for line in lines] == [f"{file} cannot be a folder"] * 2


def test_only_the_recipe_s_own_model_replaces_the_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[Path] = []
    monkeypatch.setattr(module, "run_rank", lambda *given: None)
    monkeypatch.setattr(module, "export", lambda work, out, recipe: places.append(out))
    for words in ((), ("--steps", "5"), ("--steps", "5", "--out", str(tmp_path / "x"))):
        monkeypatch.setattr("sys.argv", ["pretrain", "--work", str(tmp_path / "work"), *words])
        module.main()
    assert places == [module.SHIPPED, tmp_path / "work" / "model", tmp_path / "x"]


def test_a_loss_that_is_no_number_ends_it_before_a_checkpoint(tmp_path: Path) -> None:
    work = prepare(tmp_path / "work")
    with raises_naming(ModelError, "loss", "matrix_lr", "vector_lr"):
        pretrain(work, replace(TINY, matrix_lr=1e30, vector_lr=1e30))
    assert not (work / NAME).exists()


def test_export_is_a_model_folder_with_its_card(tmp_path: Path) -> None:
    work, out = prepare(tmp_path / "work"), tmp_path / "out"
    pretrain(work, TINY)
    module.export(work, out, TINY)
    model = Model(path=str(out))
    assert load_model(model).config.hidden_size == 32
    assert load_tokenizer(model).encode("171") == load_tokenizer(Model(path="nano")).encode("171")
    card = (out / "README.md").read_text()
    assert "| numbers | add numbers | " in card
    assert "{" not in card.split("## Data")[1]
    (out / "prefix.json").touch()
    (work / "log.jsonl").unlink()
    (work / "skills.jsonl").write_text('{"step": 1, "tokens": 5, "lessons": {"one that was": 1.0}}\n')
    module.export(work, out, TINY)
    assert "nan over the last hundred steps" in (out / "README.md").read_text()
    assert not (out / "prefix.json").exists(), "of another run"


def test_what_a_run_will_take_is_said_before_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretrain(prepare(tmp_path / "work"), TINY)
    lines = capsys.readouterr().out.splitlines()
    said = " ".join(lines)
    assert lines[0].startswith("4 steps of 800 tokens")
    assert "numbers 0%" in said.partition("step 4 of 4")[2]
    assert max(map(len, lines)) <= 80


def test_the_rate_warms_up_stays_and_falls_to_zero() -> None:
    recipe = NanoRecipe(steps=100, warmup=10, decay=0.5)
    assert [scale_rate(step, recipe) for step in (0, 9, 30, 50)] == [0.1, 1.0, 1.0, 1.0]
    assert scale_rate(75, recipe) == pytest.approx(0.5)
    assert scale_rate(100, recipe) == 0.0


@pytest.mark.slow
def test_nano_is_built_again_to_the_byte_as_far_as_its_first_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    facts = json.loads((SHIPPED / "nano" / "prefix.json").read_text())
    if name_machine() not in facts["weights"]:
        pytest.skip(f"the bits are those of {', '.join(facts['weights'])}, and this is {name_machine()}")
    work, recipe = tmp_path / "work", NanoRecipe()
    training = start_training(prepare_tokenizer(work, recipe), recipe)
    for step in run_steps(training, {"step": 0, "tokens": 0, "seconds": 0}):
        if step["step"] == facts["steps"]:
            break
    assert name_bits(training.model) == facts["weights"][name_machine()]


def test_the_tokenizer_is_given_and_trained_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = (SHIPPED / "nano" / "tokenizer.json").read_bytes()
    prepare_tokenizer(tmp_path / "given", TINY)
    assert (tmp_path / "given" / "tokenizer" / "tokenizer.json").read_bytes() == shipped
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "nothing")
    assert prepare_tokenizer(tmp_path / "new", TINY).get_vocab_size() <= VOCABULARY
    assert (tmp_path / "new" / "tokenizer" / "tokenizer.json").read_bytes() != shipped


def test_the_card_of_nano_says_what_was_run() -> None:
    card = (SHIPPED / "nano" / "README.md").read_text()
    assert json.dumps(vars(NanoRecipe())) in card
