"""Meanings of keys: texts of their parameters, and remarks of the files that set them."""

from __future__ import annotations

from pathlib import Path

from rlx.settings.compose import ConfigError, compose_sources
from rlx.settings.folders import shipped_folder
from rlx.settings.keys import Key, describe_type, find, list_keys, parameter_of, read_meanings
from rlx.settings.signature import signature
from tests.errors import raises_naming

CONF = shipped_folder("conf")


def keys_of(*words: str) -> dict[str, Key]:
    return {key.path: key for key in list_keys(*compose_sources(words))}


def test_a_key_of_plain_data_is_of_the_kind_of_its_value() -> None:
    keys = keys_of("env=rg", "env.task=chain_sum", "+env.options.max_terms=3", "+env.options.operators=['+']")
    assert keys["env.options.max_terms"].kind == "an integer"
    assert keys["env.options.operators"].kind == "a list"


def test_every_key_of_the_launcher_says_what_it_means() -> None:
    said = read_meanings(CONF / "hydra" / "launcher" / "slurm.yaml")
    assert all(meaning.text for meaning in said.values())


def test_a_default_of_the_source_has_no_file() -> None:
    key = keys_of("algo.optimizer.num_epochs=7")["algo.optimizer.num_epochs"]
    assert (key.value, key.kind, key.meaning.written, key.meaning.file) == (7, "an integer", "1", None)
    assert key.meaning.text == "Passes over each batch (the inner epochs of PPO)."


def test_a_key_of_a_file_has_its_place_and_the_file_s_remark() -> None:
    keys = keys_of("env=countdown_product", "hardware=cpu_vllm", "+model/lora=r32")
    assert keys["env.numbers"].meaning.file == CONF / "env" / "countdown_product.yaml"
    assert keys["env.python.interpreter"].meaning.file == CONF / "env" / "countdown.yaml"
    assert keys["env.low"].meaning.text == "Smallest number."
    memory = keys["hardware.num_slots"].meaning
    assert memory.text.startswith("Completions that are decoded at the same time by one engine.")
    assert keys["model.lora.rank"].meaning.text == "Rank of the two matrices."
    file, line = (place := keys["warm_start.algo.num_prompts"].meaning).file, place.line
    assert file == CONF / "algo" / "tool_sft.yaml"
    assert file.read_text().splitlines()[line - 1].strip() == f"num_prompts: {place.written}"
    recipe = keys_of("model/recipe=nano")["model.recipe.warm_doublings"].meaning.text
    assert recipe.startswith("Doublings of")
    assert recipe.endswith("the model knows no new words")


def test_references_are_told_as_they_are_written() -> None:
    key = keys_of()["sampling.max_context"]
    assert (key.value, key.meaning.written) == (2048, "${model.max_context}")


def test_comments_stand_above_or_beside_and_a_files_own_is_no_keys(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "# The file\nfirst: 1\n# Two\n# lines\nabove: {}\nbeside: '#1'  # said\nlisted:\n  # not of b\n  - 1\nb: 2\n"
    )
    said = {path: meaning.text for path, meaning in read_meanings(file).items()}
    assert said == {"first": "", "above": "Two lines", "beside": "said", "listed": "", "b": ""}
    file.write_text("a: [")
    assert read_meanings(file) == {}


def test_a_user_s_option_has_all_keys_of_its_call_with_their_meanings(tmp_path: Path) -> None:
    (tmp_path / "track").mkdir()
    (tmp_path / "track" / "mine.yaml").write_text("# Mine\n_target_: rlx.runs.track.Track\n# Ours\nproject: x\n")
    keys = keys_of("-cd", str(tmp_path), "track=mine", "track.entity=us")
    assert keys["track.project"].meaning.text == "W&B project. Ours"
    assert (keys["track.entity"].value, keys["track.timeout"].value) == ("us", 20.0)
    assert keys["track"].meaning.text == "Mine"


def test_a_function_states_meanings_below_args_at_a_type_or_in_the_class_that_it_returns() -> None:
    parameters = signature("rlx.algo.grpo.grpo").parameters
    assert parameters["num_samples"].text == "Episodes a task."
    assert parameters["gamma"].text.startswith(
        "Discount of a turn's return-to-go, compared with the same turn of the gro"
    )
    assert parameters["num_prompts"].text == "Batch size in tasks a step."
    assert parameters["clip_low"].text == "Lower clip range: the clipped ratio is at least 1 - clip_low."
    assert describe_type(parameters["clip_low"]) == describe_type(parameters["eps"]) == "a number"


def test_types_are_in_words() -> None:
    assert describe_type(parameter_of("rlx.hardware.profile.Hardware", "device")) == "cpu or cuda"
    assert describe_type(parameter_of("rlx.hardware.profile.Hardware", "nothing")) == ""
    assert describe_type(parameter_of("nowhere.Nothing", "x")) == ""


def test_a_key_that_is_not_there_is_told_with_what_may_have_been_meant() -> None:
    keys = list(keys_of().values())
    assert [key.path for key in find(keys, "algo.loss.kl")] == ["algo.loss.kl"]
    assert len(find(keys, "algo")) > 10
    for wrong, meant in (
        ("lr", ["algo.optimizer.lr", "warm_start.algo.optimizer.lr"]),
        ("algo.loss.klx", ["kl"]),
        ("learning_rate", ["algo.optimizer.lr"]),
    ):
        with raises_naming(ConfigError, f"'{wrong}'", *meant):
            find(keys, wrong)
