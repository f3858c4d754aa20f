"""Values that cannot be are refused in one line that names the key as it was typed, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError
from rlx.model.folder import check_folder
from rlx.model.problem import ModelError
from rlx.plan.checks import check_plan
from rlx.plan.prospect import Prospect
from rlx.settings.build import build_value
from rlx.settings.check import check_value
from rlx.settings.compose import ConfigError, build_run, compose
from rlx.settings.consent import calls_in
from rlx.settings.signature import Annotation, signature
from tests.errors import raises_naming
from tests.loops import for_each

WRONG = {"int": [-1, 10**40], "float": [-1.0, 1e200], "tuple": [[""]], "str": ["\ud800", "a\0b"]}
CHOICES = (
    ("env=calc/modulo", "protocol=boxed", "algo=ppo"),
    ("env=math", "protocol=direct", "algo=a2c"),
    ("env=calc/gsm8k", "protocol=expa_line", "algo=ipo"),
    ("env=calc/arithmetic", "protocol=answer", "algo=rloo"),
)


def kinds(annotation: Annotation) -> set[str]:
    name, inner = annotation.opened()
    return {name} if name != "or" else set().union(*map(kinds, inner))


def wrong_values() -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Every parameter of the calls of some configurations, each once, with what it cannot be."""
    seen = set()
    for words in CHOICES:
        tree = compose([*words, "steps=0", "warm_start=none"])
        for path, call in calls_in(tree, ""):
            for parameter in signature(call["_target_"]).parameters.values():
                if parameter.annotation is not None and (call["_target_"], parameter.name) not in seen:
                    seen.add((call["_target_"], parameter.name))
                    for kind in kinds(parameter.annotation) & WRONG.keys():
                        yield from ((tree, f"{path}.{parameter.name}", value) for value in WRONG[kind])


def refusal_of(tree: dict[str, Any], path: str, value: Any) -> str:
    """Say how a value is refused; empty if it is taken."""
    root, *way, last = path.split(".")
    part = place = deepcopy(tree[root])
    for key in way:
        place = place[key]
    place[last] = value
    try:
        check_value(part, root)
        build_value(part, root, signature("rlx.run.run.Run").parameters[root])
    except ConfigError as error:
        return str(error)
    return ""


def test_a_refusal_names_the_key_that_was_typed() -> None:
    refused = [(path, value, refusal_of(tree, path, value)) for tree, path, value in wrong_values()]
    for path, value, told in refused:
        assert not told or told.startswith((f"{path}=", f"{path} has the character")), (path, value)
        assert told or not isinstance(value, (str, list)), (path, value)
    assert len([told for _, _, told in refused if told]) > 150


@for_each(
    "words, key",
    [
        (["protocol=direct", "algo=rloo", "protocol.stops=['']"], "protocol.stops="),
        (["protocol=boxed", "algo=rloo", "protocol.stops_at=['']"], "protocol.stops_at="),
        (["model.chat=true"], "chat template"),
        (["algo=ipo", "algo.pairs_from=/nonexistent"], "algo.pairs_from=/nonexistent"),
        (["algo=ipo", "algo.pairs_from=/dev/null"], "algo.pairs_from=/dev/null"),
        (["algo=ipo", "algo.pairs_from=/tmp"], "algo.pairs_from=/tmp"),
        (["seed=" + "9" * 5000], "seed:"),
        (["steps=" + "9" * 5000], "steps:"),
        (["env.numbers=" + "[" * 500 + "1" + "]" * 500], "env.numbers:"),
        (["seed=" + "9" * 26], "seed="),
        (["env=math", "env.kinds=[gain,gain]", "algo=rloo"], "env.kinds="),
        (["track.project=a\\0b".replace("\\0", "\0")], "track.project"),
    ],
)
def test_a_plan_refuses_what_training_would(words: list[str], key: str) -> None:
    with raises_naming(MistakeError, key):
        check_plan(Prospect(run=build_run(compose([*words, "warm_start=none"]), Path())), lambda: None)


@for_each("target", [["x"], {"x": 1}, 3, None, True])
def test_a_target_that_is_no_name_is_one_line(target: Any) -> None:
    with raises_naming(ConfigError, "env._target_="):
        check_value({"_target_": target}, "env")


def test_a_models_files_are_regular_and_of_a_sane_size(tmp_path: Path) -> None:
    import os

    (tmp_path / "config.json").symlink_to("/dev/zero")
    with raises_naming(ModelError, "config.json", "regular"):
        check_folder("x", tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / "tokenizer_config.json")
    with raises_naming(ModelError, "tokenizer_config.json", "regular"):
        check_folder("x", tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    with open(tmp_path / "chat_template.jinja", "wb") as file:
        file.truncate(10**9)
    with raises_naming(ModelError, "chat_template.jinja", "1,000,000,000 bytes"):
        check_folder("x", tmp_path)
