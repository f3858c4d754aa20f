"""Each preset of a paper has its values, names their sources, fits its profile and takes a step."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.base.console import Screen
from rlx.environment.world import dialect_of, open_episode, parts_of
from rlx.plan.prospect import Prospect
from rlx.protocol.history import first_prompt
from rlx.runs.track import read_metrics
from rlx.settings.compose import ConfigError, build_run, compose
from rlx.settings.folders import list_options
from rlx.tool.retrieval.build import build_index
from rlx.training import train
from tests.errors import raises_naming
from tests.loops import for_each

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "conf" / "paper").glob("*.yaml"))


def countdown_row(n: int) -> dict[str, Any]:
    return {"nums": [n + 1, n + 3, n + 7], "target": 3 * n + 11}


def question_row(n: int) -> dict[str, Any]:
    return {"problem": f"{n} + 1?", "question": f"{n} + 1?", "answer": str(n + 1)}


def program_row(n: int) -> dict[str, Any]:
    return {"problem": f"Print n + {n}.", "tests": json.dumps({"inputs": ["1\n"], "outputs": [f"{n + 1}\n"]})}


MATH_SETS = ("train", "aime24", "amc", "math500", "minerva", "olympiad_bench")
SEARCH_SETS = ("train", "natural_questions", "trivia_qa", "popqa", "hotpot_qa", "two_wiki", "musique", "bamboogle")
"""Parts of CARL's data, and of GEM's questions."""
LOCAL = {
    "tool_rloo": (("env",), countdown_row),
    "gem_math": (tuple(f"env.parts.{name}.env.env" for name in MATH_SETS), question_row),
    "gem_math_released": (tuple(f"env.parts.{name}.env.env" for name in MATH_SETS), question_row),
    "gem_code_released": (("env",), program_row),
    "gem_qa": (tuple(f"env.parts.{name}.env.env" for name in SEARCH_SETS), question_row),
    "gem_qa_released": (tuple(f"env.parts.{name}.env.env" for name in SEARCH_SETS), question_row),
    "gem_qa_mixed": (tuple(f"env.parts.{name}.env.env" for name in (*SEARCH_SETS, "train_too")), question_row),
    "gem_code": (("env",), program_row),
}
"""Presets whose tasks come from a hub, the places of its name, and the rows of the file that stands for it."""


def local_words(name: str, folder: Path) -> list[str]:
    """Return words that give a preset a file instead of hubs, and no server of a search."""
    if name not in LOCAL:
        return []
    keys, source = LOCAL[name]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(source(number)) + "\n" for number in range(80)))
    offline = ["env.parts.train.env.tool.search_url=null"] if name.startswith("gem_qa") else []
    return [*offline, *(f"{key}.hub={file}" for key in keys)]


def search_words(folder: Path) -> list[str]:
    """Return words that give CARL's presets files and an index instead of hubs and a server."""
    pages = folder / "pages.jsonl"
    pages.write_text('{"title": "Cat", "text": "A cat says meow.", "url": "cat"}\n')
    build_index(pages, folder / "index", engine="bm25s", tell=lambda *_: None)
    words = ["env.parts.train.env.table=null", "env.parts.train.env.search_url=null"]
    words.append(f"env.parts.train.env.index={folder / 'index'}")
    for part in SEARCH_SETS:
        rows = folder / f"{part}.jsonl"
        asked = ({"question": f"What says cat {n} of {part}?", "answer": ["meow"]} for n in range(40))
        rows.write_text("".join(json.dumps(row) + "\n" for row in asked))
        words.append(f"env.parts.{part}.env.hub={rows}")
    return words


SMALL = (
    "hardware=cpu",
    "model=nano",
    "steps=1",
    "algo.num_prompts=2",
    "algo.num_samples=2",
    "algo.optimizer.num_minibatches=1",
    "sampling.max_new_tokens=12",
    "sampling.max_context=700",
    "evaluate.num_tasks=1",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
    "evaluate.max_rounds=[]",
    "evaluate.max_new_tokens=4",
    "evaluate.num_resamples=10",
    "track=disabled",
)


@pytest.fixture(scope="module")
def papers() -> Any:
    spec = importlib.util.spec_from_file_location("papers", ROOT / "scripts" / "papers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["papers"] = module
    spec.loader.exec_module(module)
    return module


def leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{above}{key}.")
        elif key != "defaults":
            yield f"{above}{key}"


def test_every_preset_has_a_table_and_every_table_a_preset(papers: Any) -> None:
    assert sorted(papers.read_presets()) == NAMES == sorted(list_options("paper"))


def test_the_command_finds_no_difference_without_a_reason() -> None:
    done = subprocess.run([sys.executable, "scripts/papers.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        assert f"### {name}\n" in done.stdout


def test_a_difference_without_a_reason_has_reason(papers: Any) -> None:
    told = {"key": "steps", "source": "Table 3", "preset": 400}
    assert not papers.Value(paper=500, why="", **told).has_reason
    assert papers.Value(paper=500, why="half a day", **told).has_reason
    assert not papers.Value(paper=400, why="none is needed", **told).has_reason


@pytest.mark.parametrize("name", NAMES)
def test_every_value_that_a_preset_sets_names_its_source(papers: Any, name: str) -> None:
    table = papers.read_presets()
    tree = yaml.safe_load((ROOT / "conf" / "paper" / f"{name}.yaml").read_text(encoding="utf-8"))
    told = {row[0] for row in table[name]["rows"]}
    base = name.removesuffix("_released").removesuffix("_mixed")
    if base != name:
        told |= {row[0] for row in table[base]["rows"]}
    assert sorted(set(leaves(tree)) - told) == []
    assert all(row[2] for row in table[name]["rows"])


OWN = {
    "_target_": "the part itself, which another row describes",
    "evaluate.interval": "how often rlx looks",
    "evaluate.num_resamples": "rlx's intervals",
    "evaluate.num_tries": "rlx's floor",
    "evaluate.seed": "rlx's seed",
    "evaluate.untrained": "rlx's row of the model as it is",
    "evaluate.max_new_tokens": "as sampling has it",
    "evaluate.max_rounds": "the environment's own limit",
    "algo.start": "what rlx chooses a warm start by",
    "algo.space": "what rlx chooses a protocol by",
    "algo.deviation_floor": "unused with scale=none",
    "algo.loss.constant": "unused but with normalisation=constant, where a row has it",
    "algo.loss.kl_estimator": "unused without a KL, and a row has it with one",
    "algo.loss.kl_over": "all choices, unless a row has it",
    "algo.loss.kl_target": "off: the KL's weight is constant",
    "algo.loss.kl_rate": "off, as kl_target is",
    "algo.optimizer.hold_steps": "off",
    "algo.optimizer.max_kl": "off, unless a row has it",
    "protocol.instruction": "the protocol's own, unless a row has it",
    "protocol.correction": "off, unless a row has it",
    "protocol.sanitise": "off, unless a row has it",
    "protocol.agent_turns": "on, unless a row has it",
    "protocol.prompt_template": "off, unless a row has it",
    "protocol.reasoning": "the model's recipe",
    "protocol.rows": "a row has it where it matters",
    "protocol.language": "the environment's",
    "protocol.stops": "the protocol's own",
    "protocol.stops_at": "the protocol's own",
    "protocol.summarise_at": "off",
    "protocol.summary_tokens": "off, as summarise_at is",
    "protocol.window": "off, unless a row has it",
}
"""Keys, or their last words, that need no row of a paper, and why."""


def test_every_value_of_a_presets_algorithm_sampling_evaluation_and_protocol_has_a_row(papers: Any) -> None:
    presets = papers.read_presets()
    for name in NAMES:
        tree = compose([f"+paper={name}"])
        rows = {row[0] for one in papers.presets_of(name) for row in presets[one]["rows"]}
        inherited = {value.key: value for value in papers.inherited_values(name)}
        assert [value.key for value in inherited.values() if not value.has_reason or not value.source] == [], name
        keys = leaves({group: tree[group] for group in ("algo", "sampling", "evaluate", "protocol")})
        free = {key for key in keys if key not in rows and key not in inherited}
        assert sorted(key for key in free if key not in OWN and key.rpartition(".")[2] not in OWN) == [], name


def test_lengths_of_a_paper_are_positive_and_have_a_source(papers: Any) -> None:
    lengths = [preset["lengths"] for preset in papers.read_presets().values() if "lengths" in preset]
    assert lengths
    for one in lengths:
        amounts = {unit: one[unit] for unit in one if unit != "source"}
        assert set(amounts) <= {"tokens", "turns"}
        assert all(amount > 0 for amount in amounts.values())
        assert one["source"]


def test_the_page_holds_the_tables(papers: Any) -> None:
    assert papers.tables() in papers.PAGE.read_text(encoding="utf-8")


@for_each("name", NAMES)
def test_a_preset_fits_its_profile(name: str) -> None:
    run = build_run(compose([f"+paper={name}"]), Path())
    prospect = Prospect(run=run)
    assert prospect.verdicts
    assert all(verdict.endswith("fits") for verdict in prospect.verdicts)


@for_each("name", NAMES)
def test_nano_tries_a_preset_out_with_its_own_context(name: str) -> None:
    run = build_run(compose([f"+paper={name}", "model=nano", "hardware=cpu"]), Path())
    most = run.model.max_context
    assert (run.model.path, most) == ("nano", 2048)
    assert run.sampling.max_new_tokens < run.sampling.max_context <= most
    assert "fits" in " ".join(Prospect(run=run).verdicts)


@pytest.mark.parametrize(
    ("name", "sets"),
    [
        ("gem_math", MATH_SETS[1:]),
        *((name, SEARCH_SETS[1:]) for name in ("gem_qa", "gem_qa_released", "gem_qa_mixed", "carl_3b")),
    ],
)
def test_a_preset_is_evaluated_on_all_of_the_papers_sets_and_no_other(
    name: str, sets: Sequence[str], tmp_path: Path
) -> None:
    words = search_words(tmp_path) if name == "carl_3b" else local_words(name, tmp_path)
    run = build_run(compose([f"+paper={name}", *words]), tmp_path)
    tested = [task.env for task in run.env.tasks("test", 0)]
    assert set(tested) == set(sets)
    assert set(tested[: len(sets)]) == set(sets), "each in turn"
    sizes = {"aime24": 30, "amc": 83, "math500": 500, "minerva": 272, "olympiad_bench": 675}
    assert run.evaluate.num_tasks == sum(sizes.get(one, 512) for one in sets)
    parts = parts_of(run.env)
    assert all(parts[one].num_test >= sizes.get(one, 512) for one in sets if not hasattr(parts[one], "env"))
    assert all(parts[one].env.num_test >= sizes.get(one, 512) for one in sets if hasattr(parts[one], "env"))
    trained = {task.env for task in islice(run.env.tasks("train", 0), 40)}
    assert trained == {"train", "train_too"} & set(parts)


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_takes_a_step_with_a_small_model(name: str, tiny: Path, tmp_path: Path) -> None:
    words = [f"+paper={name}", *SMALL, f"model.path={tiny}"]
    if name.startswith("carl"):
        words = [word for word in words if not word.startswith(("algo.num_samples", "sampling.max_context"))]
        words += [*search_words(tmp_path), "algo.num_fresh=2", "algo.num_forks=2", "sampling.max_context=2000"]
    elif not name.startswith(("gem", "earl_calc", "babyai")):
        words += ["warm_start.steps=1", "warm_start.algo.num_prompts=1", "warm_start.algo.optimizer.num_minibatches=1"]
    words += local_words(name, tmp_path)
    train(build_run(compose(words), tmp_path / "run"), Screen(silent=True))
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1]


SENT = {
    "gem_game": (
        "You are playing language games. Make valid actions to win.\n"
        "Observation: Put your number in \\boxed{}.\n"
        "Guess the number that I think of. You have 10 guesses.\n"
        "\nIt is a number from 1 to 50.\n"
        "Please reason step by step, and put your final answer within \\boxed{}."
    ),
    "gem_math": "You may run Python in <python>. Put your answer in \\boxed{}.\n0 + 1?\n",
    "gem_qa": (
        "Think in <think>, search pages for words in <search>, read its <observation>, and finish with <answer>.\n"
        "Question: 0 + 1?\n"
    ),
    "gem_code": (
        "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
        "correct Python program that matches the specification and passes all tests.\n"
        "Question: Print n + 16.\n"
        "Please reason step by step, and write your code in markdown format, e.g., ```python\n# YOUR CODE HERE\n```."
    ),
}
"""First user messages of GEM's presets."""


@pytest.mark.parametrize("name", SENT)
def test_gems_presets_send_gems_prompts(name: str, tmp_path: Path) -> None:
    words = [f"+paper={name}", *SMALL, *local_words(name, tmp_path)]
    run = build_run(compose(words), tmp_path)
    sent = set()
    for task in islice(run.env.tasks("train", 0), 80):
        with open_episode(run.env, task) as episode:
            dialect = dialect_of(run.env, run.protocol, task.env)
            sent.add(first_prompt(dialect, task, episode.opening().observation))
    assert SENT[name] in sent


@pytest.mark.parametrize("value", ["abc", "1.5", "null"])
def test_a_context_that_is_no_number_is_named(value: str) -> None:
    with raises_naming(ConfigError, f"model.max_context={value}"):
        compose(["+paper=earl_calc", f"model.max_context={value}"])
