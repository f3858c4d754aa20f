from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from rlx.model import pretrain as module
from rlx.model.corpus import Example
from rlx.model.load import SHIPPED, Model, load_model, load_tokenizer
from rlx.model.pretrain import Muon, Recipe, orthogonalise, pretrain, scale_rate, weigh_loss

TINY = Recipe(steps=4, tokens_per_step=400, warmup=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 1}
    monkeypatch.setattr(module, "SHAPE", module.SHAPE | small | {"num_key_value_heads": 1})


def prepare(folder: Path) -> Path:
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "tokenizer" / "tokenizer.json").write_bytes((SHIPPED / "nano" / "tokenizer.json").read_bytes())
    return folder


def test_a_run_cut_off_goes_on_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, cut = prepare(tmp_path / "whole"), prepare(tmp_path / "cut")
    pretrain(whole, TINY)
    take_step = module.take_step

    def stop_at_three(*arguments: object) -> float:
        if arguments[-1] == 3:
            raise KeyboardInterrupt
        return take_step(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "take_step", stop_at_three)
    with pytest.raises(KeyboardInterrupt):
        pretrain(cut, TINY, save_every=2)
    monkeypatch.setattr(module, "take_step", take_step)
    pretrain(cut, TINY, save_every=2)
    first, second = (load_file(folder / "checkpoint.safetensors") for folder in (whole, cut))
    assert set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_export_is_a_model_folder_with_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.model.card.SKILLS", {"compare": module_skills()["compare"]})
    work, out = prepare(tmp_path / "work"), tmp_path / "out"
    pretrain(work, TINY)
    module.export(work, out, TINY)
    model = Model(path=str(out))
    assert load_model(model).config.hidden_size == 32
    assert load_tokenizer(model).encode("171") == load_tokenizer(Model(path="nano")).encode("171")
    card = (out / "README.md").read_text()
    assert "| compare | compare numbers | 300 |" in card
    assert "{" not in card.split("## Data")[1]


def module_skills() -> dict[str, tuple[float, tuple]]:
    from rlx.model.lessons import SKILLS

    return SKILLS


def test_the_rate_warms_up_stays_and_falls_to_zero() -> None:
    recipe = Recipe(steps=100, warmup=10, decay=0.5)
    assert [scale_rate(step, recipe) for step in (0, 9, 30, 50)] == [0.1, 1.0, 1.0, 1.0]
    assert scale_rate(75, recipe) == pytest.approx(0.5)
    assert scale_rate(100, recipe) == 0.0


@pytest.mark.parametrize("shape", [(8, 8), (12, 5), (5, 12)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrices))
    assert values.min() > 0.4
    assert values.max() < 1.4


def test_muon_moves_along_the_singular_directions_of_the_gradient() -> None:
    parameter = nn.Parameter(torch.zeros(2, 2))
    parameter.grad = torch.diag(torch.tensor([5.0, -3.0]))
    Muon([parameter], lr=0.1).step()
    moved = parameter.detach()
    assert moved[0, 0] == pytest.approx(-0.1, abs=0.04)
    assert moved[1, 1] == pytest.approx(0.1, abs=0.04)
    assert moved[0, 1] == moved[1, 0] == 0


def test_the_loss_is_weighted_and_blind_to_padding() -> None:
    model = load_model(Model(path="nano"))
    long = Example(ids=tuple(range(20, 40)), weights=(0.5,) * 20)
    short = Example(ids=(7, 9, 11), weights=(1.0, 0.0, 2.0))
    with torch.no_grad():
        together = weigh_loss(model, [long, short])
        alone = weigh_loss(model, [long]) + weigh_loss(model, [short])
        logits = model(torch.tensor([short.ids])).logits.log_softmax(-1)
        assert weigh_loss(model, [short]) == pytest.approx(-2 * logits[0, 1, 11].item(), rel=1e-4)
    assert together == pytest.approx(alone.item(), rel=1e-5)


def test_the_card_of_nano_says_what_was_run() -> None:
    card = (SHIPPED / "nano" / "README.md").read_text()
    assert json.dumps(vars(Recipe())) in card
