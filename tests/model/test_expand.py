"""Rows of added actions, on the embedded model."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rlx.learner.state import saved_model, write_model
from rlx.model.expand import NAMES, ROWS, TENSORS, actions_of, expand
from rlx.model.load import Lora, Model, load_model
from rlx.model.problem import ModelError
from tests.errors import raises_naming

NANO = Model(path="nano")
WANTED = {"calculate": (312,), "sum": (435, 410), "equals": (29,)}


def expanded(**options):
    model = load_model(NANO)
    return model, expand(model, WANTED, **options)


def test_rows_begin_as_their_descriptions():
    model, actions = expanded()
    head = model.get_output_embeddings().weight.detach()
    assert (actions.first, actions.names) == (len(head), ("calculate", "sum", "equals"))
    assert model.action_rows.tolist() == torch.stack([head[312], head[[435, 410]].mean(0), head[29]]).tolist()
    released, _ = expanded(initial=dict.fromkeys(WANTED, "first"))
    assert released.action_rows.tolist() == head[[312, 435, 29]].tolist()


def test_a_blank_that_is_a_token_of_its_own_says_nothing_of_an_action():
    model = load_model(NANO)
    head = model.get_output_embeddings().weight.detach()
    expand(model, {"compare": (221, 303), "A": (221, 33, 221), "end": (221,)}, blanks={221, 199})
    assert model.action_rows.tolist() == head[[303, 33, 221]].tolist()
    model = load_model(NANO)
    expand(model, {"look at": (221, 303, 40)}, blanks={221}, initial={"look at": "first"})
    assert model.action_rows.tolist() == head[[303]].tolist()


def test_rows_are_a_parameter_of_their_own_beside_a_head_that_stays():
    model, _ = expanded()
    plain = load_model(NANO)
    assert model.get_input_embeddings().weight.equal(plain.get_input_embeddings().weight)
    assert {name for name, _ in model.named_parameters()} - {name for name, _ in plain.named_parameters()} == {ROWS}
    ids = torch.tensor([[1, 2, 3]])
    assert model(ids).logits.equal(plain(ids).logits)


def test_new_actions_join_a_trained_model_without_touching_its_rows():
    model, before = expanded()
    with torch.no_grad():
        model.action_rows.add_(1.0)
    trained = model.action_rows.detach().clone()
    after = expand(model, {"swap": (303,), "sum": (435, 410)})
    assert after.names == (*before.names, "swap")
    assert model.action_rows[:3].equal(trained)
    assert model.action_rows[3].equal(model.get_output_embeddings().weight[303])
    assert expand(model, WANTED) == after
    with raises_naming(ModelError, "'sum'", "description"):
        expand(model, {"sum": (435,)})


ONE = {"name": "a", "description": [1]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model, _ = expanded()
    with torch.no_grad():
        model.action_rows.mul_(1.5)
    write_model(tmp_path, model, model.named_parameters())
    for file in Path(model.config._name_or_path).glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    return tmp_path


def test_a_saved_model_is_a_plain_folder_and_two_files(folder: Path):
    plain, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    assert plain.state_dict().keys() == load_model(NANO).state_dict().keys()
    assert json.loads((folder / NAMES).read_text())["actions"][1] == {"name": "sum", "description": [435, 410]}
    model, actions = expanded()
    again = load_model(Model(path=str(folder)))
    assert actions_of(again) == actions
    assert again.action_rows.equal(model.action_rows * 1.5)
    assert saved_model(folder)[ROWS].equal(again.action_rows)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (lambda folder: (folder / NAMES).write_text("{"), "read"),
        (lambda folder: (folder / NAMES).write_text('{"first": 1280, "actions": []}'), "0 names"),
        (lambda folder: (folder / TENSORS).write_bytes(b"\x00"), "read"),
        (lambda folder: (folder / TENSORS).unlink(), "read"),
        (lambda folder: (folder / NAMES).write_text(renamed(folder, first=1279)), "another model"),
        (
            lambda folder: (folder / NAMES).write_text(renamed(folder, actions=[ONE])),
            f"1 of {NAMES}",
        ),
    ],
)
def test_files_that_do_not_fit_are_refused_in_one_line(folder: Path, damage, name):
    damage(folder)
    with raises_naming(ModelError, folder, name):
        load_model(Model(path=str(folder)))


def renamed(folder: Path, **changes) -> str:
    return json.dumps(json.loads((folder / NAMES).read_text()) | changes)


def test_rows_count_in_what_a_model_needs(folder: Path):
    from rlx.hardware.sizing.amounts import num_trained
    from rlx.model.shape import find_shape

    shape, plain = (find_shape({"path": path}) for path in (str(folder), "nano"))
    assert shape is not None
    assert plain is not None
    lora = Lora(rank=2, alpha=4)
    for count in (lambda of: of.num_parameters, lambda of: num_trained(lora, of)):
        assert count(shape) == count(plain) + 3 * shape.width
    learned = load_model(Model(path=str(folder), lora=lora))
    assert sum(p.numel() for p in learned.parameters() if p.requires_grad) == num_trained(lora, shape)
    assert sum(p.numel() for p in load_model(Model(path=str(folder))).parameters()) == shape.num_parameters


def test_beside_adapters_the_rows_learn_and_what_they_began_as_stays(folder: Path):
    from rlx.learner.lora import action_rows, adapters_off, base_of

    model = load_model(replace(NANO, path=str(folder), lora=Lora(rank=2, alpha=4)))
    rows = base_of(model).action_rows
    began = rows.detach().clone()
    assert rows.requires_grad
    with torch.no_grad():
        rows.add_(1.0)
    assert action_rows(model) is rows
    with adapters_off(model):
        assert action_rows(model).equal(began)
