"""What keys mean: the comments of the files that define them."""

from __future__ import annotations

from pathlib import Path

from rlx.config.compose import ConfigError, compose_sources
from rlx.config.folders import shipped_folder
from rlx.config.keys import Key, borrow_comment, find, kind_of, list_keys, read_meanings
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


def test_a_key_is_told_where_it_is_defined_with_the_value_it_has_there() -> None:
    key = keys_of("algo.optimizer.num_epochs=7")["algo.optimizer.num_epochs"]
    assert (key.value, key.kind, key.meaning.written) == (7, "an integer", "1")
    assert key.meaning.text == "Passes over each batch."
    file, line = key.meaning.file, key.meaning.line
    assert file == CONF / "algo" / "optimizer" / "default.yaml"
    assert file.read_text().splitlines()[line - 1].strip() == "num_epochs: 1"


def test_what_a_file_inherits_it_means_too_and_what_it_says_itself_comes_first() -> None:
    keys = keys_of("env=countdown_product", "hardware=cpu_vllm", "+model/lora=r32")
    assert keys["env.numbers"].meaning.file == CONF / "env" / "countdown_product.yaml"
    assert keys["env.low"].meaning.file == CONF / "env" / "countdown.yaml"
    assert keys["env.low"].meaning.text == "smallest number"
    assert keys["hardware.engine_memory"].meaning.text.startswith("Share of the machine's memory")
    assert keys["model.lora.rank"].meaning.text == "rank of the two matrices"
    assert keys["warm_start.algo.num_prompts"].meaning.file == CONF / "algo" / "tool_sft.yaml"


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


def test_a_key_without_a_comment_borrows_that_of_the_same_call(tmp_path: Path) -> None:
    assert borrow_comment("rlx.algo.parts.Optimizer", "betas").startswith("Decay of AdamW's running means")
    assert borrow_comment("rlx.algo.parts.Optimizer", "nothing") == ""
    (tmp_path / "track").mkdir()
    (tmp_path / "track" / "mine.yaml").write_text("# Mine\n_target_: rlx.record.track.Track\nproject: x\n")
    keys = keys_of("-cd", str(tmp_path), "track=mine")
    assert keys["track.project"].meaning.text == "W&B project."
    assert keys["track"].meaning.text == "Mine"


def test_types_are_in_words() -> None:
    assert kind_of("rlx.hardware.profile.Hardware", "device") == "cpu or cuda"
    assert kind_of("rlx.hardware.profile.Hardware", "nothing") == ""
    assert kind_of("nowhere.Nothing", "x") == ""


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
