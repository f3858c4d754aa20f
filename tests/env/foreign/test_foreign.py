"""Environments of other packages: played as they are, each episode on its own, whatever its code does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import rlx.gym
from rlx.base.console import Screen
from rlx.base.limits import MistakeError
from rlx.env.foreign.foreign import Foreign, HangError
from rlx.environment.world import is_reproducible
from rlx.runs.folder import METRICS
from rlx.runs.track import read_metrics
from rlx.settings.compose import build_run, compose
from rlx.tool.contain import box
from rlx.tool.contain.process import ChildError, LateError
from rlx.training import train
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming
from tests.loops import for_each

PACKAGE = """
import os, random, sys, time
print("noise on import")
class Game:
    def __init__(self, high=9):
        self.high, self.turns = high, 0
    def reset(self):
        self.secret = random.randint(1, self.high)
        return f"from 1 to {self.high}"
    def step(self, text):
        self.turns += 1
        match text.split():
            case ["hang"]: time.sleep(600)
            case ["spin"]:
                while True: pass
            case ["raise"]: raise RuntimeError("boom\\n\\x1b[31mboom")
            case ["leave"]: sys.exit(3)
            case ["die"]: os._exit(3)
            case ["nonsense"]: return None, 0.0, False
            case ["nan"]: return "", float("nan"), False
            case ["rich"]: return "", "1", False
            case ["pickle"]: return object(), 0.0, False
            case ["much"]: return "x" * 2**25, 0.0, False
            case ["print"]: print("noise" * 100_000); os.write(2, b"noise")
            case ["pid"]: return str(os.getpid()), 0.0, False
            case ["draw"]: return str(random.random()), 0.0, False
            case ["eval", *code]: return repr(eval(" ".join(code))), 0.0, False
            case [one] if one.strip("[]").isdigit():
                right = int(one.strip("[]")) == self.secret
                return "yes" if right else f"no {text}", 0.6 * right + 0.1, right
        return f"{self.turns} {text!r}", 0.0, False
"""
ADAPTER = """
import os, time
from odd_games import Game
def tasks(): return ["guess", "never_begins", "breaks", "changes"]
def play(task, options, seed):
    if task == "never_begins": time.sleep(600)
    assert task != "breaks"
    game = Game(**options)
    first = game.reset()
    said = yield {"text": str(time.monotonic()) if task == "changes" else first}
    while True:
        text, reward, done = game.step(said)
        said = yield {"text": text, "reward": reward, "done": done}
"""
SETTINGS: dict[str, Any] = {"adapter": "odd_adapter", "task": "guess", "seconds": 20.0, "success_at": 0.7}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("package")
    (folder / "odd_games.py").write_text(PACKAGE)
    (folder / "odd_adapter.py").write_text(ADAPTER)
    (folder / "no_adapter.py").write_text("import no_such_games")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        yield folder
        for one in box.OPEN:
            one.end()


@pytest.fixture
def env(package: Path) -> Foreign:
    return Foreign(**SETTINGS)


def say(text: str) -> Action:
    return Action(kind="answer", text=text)


def play(env: Foreign, task: Task, *said: str) -> list[Step]:
    episode = env.start(task)
    steps = [episode.opening(), *(episode.step(say(text)) for text in said)]
    episode.close()
    return steps


def first(env: Foreign, split: str = "train") -> Task:
    return next(env.tasks(split, 0))


def text_of(step: Step) -> str:
    return "".join(part.text for part in step.observation)


def test_an_episode_is_played_to_its_end(env: Foreign) -> None:
    task = first(env)
    assert task.prompt == (Text("from 1 to 9"),)
    steps = [play(env, task, str(number))[-1] for number in range(1, 10)]
    assert sorted(step.reward for step in steps) == [0.1] * 8 + [0.7]
    assert [step.success for step in steps if step.done] == [True]
    assert play(env, task, "5")[0] == Step()


def test_success_is_said_of_the_whole_episodes_reward(env: Foreign) -> None:
    task, hard = first(env), replace(env, success_at=0.9)
    right = next(number for number in range(1, 10) if play(env, task, str(number))[-1].done)
    wrong = str(right % 9 + 1)
    assert [play(hard, task, *[wrong] * num, str(right))[-1].success for num in (1, 2)] == [False, True]


def test_a_named_taskset_takes_no_options_of_the_default_one() -> None:
    assert compose(["env=verifiers", "env.task=sums_taskset"])["env"]["options"] == {}


def test_options_are_the_tasks_own(env: Foreign) -> None:
    task = first(replace(env, options={"high": 2}))
    assert (task.prompt, task.data["options"]) == ((Text("from 1 to 2"),), {"high": 2})
    assert play(env, task, "2", "1")[-2:] != play(env, first(env), "2", "1")[-2:]


@pytest.mark.parametrize("text", ["", " two\nlines\t", "\x00\x1b[2J\ud800", "x" * 100_000, "'\"\\"])
def test_text_passes_as_it_is(env: Foreign, text: str) -> None:
    assert text_of(play(env, first(env), text)[-1]) == f"1 {text!r}"


def test_a_turn_is_put_into_the_form_that_it_lacks(env: Foreign) -> None:
    formed = replace(env, form="[...]")
    assert [text_of(step) for step in play(formed, first(env), "x", "so [y]")[1:]] == ["1 '[x]'", "2 'so [y]'"]
    episode = formed.start(first(env))
    assert text_of(episode.step(Action(kind="invalid", text="the turn was cut off"))) == "1 ''"
    episode.close()


def test_the_same_seed_gives_the_same_episode_whatever_runs_beside_it(env: Foreign) -> None:
    tasks = list(islice(env.tasks("train", 3), 8))
    assert tasks == list(islice(env.tasks("train", 3), 8))
    said = ["draw", "draw", "x", "draw"]
    alone = [play(env, task, *said) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda task: play(env, task, *said), tasks)) == alone
    assert len({text_of(steps[1]) for steps in alone}) == 8


def test_seeds_of_the_splits_are_apart(env: Foreign) -> None:
    few = replace(env, num_test=5)
    assert [task.id for task in few.tasks("test", 0)] == [task.id for task in few.tasks("test", 1)] == list("01234")
    assert all(int(task.id) >= 5 for task in islice(few.tasks("train", 0), 20))
    numbered = replace(few, num_tasks=8)
    assert {int(task.id) for task in islice(numbered.tasks("train", 0), 40)} == {5, 6, 7}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("hang", ["0.3 s"]),
        ("spin", ["0.3 s"]),
        ("raise", ["RuntimeError: boom [31mboom"]),
        ("leave", ["SystemExit: 3"]),
        ("die", ["process ended"]),
        ("nonsense", ["nonsense", "None"]),
        ("nan", ["nonsense", "reward=nan"]),
        ("rich", ["nonsense", "reward='1'"]),
        ("pickle", ["TypeError:", "JSON"]),
        ("much", []),
    ],
)
def test_what_goes_wrong_ends_its_own_episode_alone(env: Foreign, word: str, names: list[str]) -> None:
    quick = replace(env, seconds=0.3 if word in ("hang", "spin") else 20.0)
    other, broken = env.start(first(env)), quick.start(first(env))
    with raises_naming((ChildError, ValueError), *names) if names else pytest.raises(ChildError):
        broken.step(say(word))
    broken.close()
    assert text_of(other.step(say("print"))) == "1 'print'"
    other.close()


def test_what_hangs_leaves_no_process(env: Foreign) -> None:
    episode = env.start(first(env))
    assert children(env)
    episode.foreign = replace(env, seconds=0.5)
    with pytest.raises(LateError):
        episode.step(say("spin"))
    assert is_soon(lambda: not children(env)), "it is killed before anybody closes its episode"
    episode.close()


def test_what_is_over_leaves_no_process(env: Foreign) -> None:
    episode = env.start(first(env))
    episode.step(say("x"))
    assert children(env)
    episode.close()
    assert is_soon(lambda: not children(env))


def children(env: Foreign) -> list[int]:
    """Contained processes of episodes: the fourth generation, below a server of three."""
    server = env.box.server
    assert server is not None
    found = [server.pid]
    for _ in range(3):
        found = [child for pid in found for child in children_of(pid)]
    return [pid for pid in found if is_alive(pid)]


def is_alive(pid: int) -> bool:
    """A process that ended has a number until its parent asks after it."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def is_soon(holds: Callable[[], bool]) -> bool:
    for _ in range(500):
        if holds():
            return True
        sleep(0.02)
    return False


ESCAPE = "[setattr(__import__('sys').modules['contain'],'FORBIDDEN',()),__import__('os').system('mkdir {0}')] and ['x']"
"""An answer that got out of an audit hook, as reasoning-gym evaluates it."""


def test_text_that_is_evaluated_does_not_get_out(env: Foreign, tmp_path: Path) -> None:
    path = tmp_path / "escaped"
    escapes = [
        ESCAPE.format(path),
        f"[__import__('os').system('mkdir {path}')] and ['x']",
        f"__import__('os').mkdir({str(path)!r})",
        f"open({str(path)!r}, 'w').write('x')",
    ]
    for code in escapes:
        with suppress(ChildError):
            play(env, first(env), f"eval {code}")
        assert not path.exists()
    assert text_of(play(replace(env, contained=False), first(env), f"eval {escapes[-1]}")[-1]) == "1"
    assert path.exists()


def test_an_episode_sees_the_folders_that_it_was_given_alone(env: Foreign, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("seven")
    code = f"eval open({str(tmp_path / 'words.txt')!r}).read()"
    with raises_naming(ChildError, "FileNotFoundError"):
        play(env, first(env), code)
    given = replace(env, files=(str(tmp_path),))
    assert text_of(play(given, first(given), code)[-1]) == "'seven'"


def test_what_does_not_begin_is_an_episode_that_fails(env: Foreign) -> None:
    never = replace(env, task="never_begins", seconds_to_begin=0.3)
    with raises_naming(ChildError, "0.3 s"):
        never.start(first(never))


def test_a_package_that_hangs_is_told_of_no_further(env: Foreign) -> None:
    never = replace(env, task="never_begins", seconds_to_begin=0.3)
    with raises_naming(HangError, "env.task=never_begins", "2 seeds", "0.3 s"):
        list(never.tasks("test", 0))


class Hanging(Foreign):
    """Two seeds take too long, in no time."""

    def first(self, data: Mapping[str, Any]) -> tuple[Text, ...]:
        if data["seed"] in (3, 4):
            raise LateError("it took longer")
        return super().first(data)


def test_one_hang_and_one_in_a_hundred_are_episodes_that_fail(package: Path) -> None:
    seldom = Hanging(**SETTINGS)
    told = list(seldom.describe([0, 3, *range(5, 105), 4, 1]))
    assert [task.id for task in told if not task.prompt] == ["3", "4"]
    with raises_naming(HangError, "env.task=", "5 seeds"):
        list(seldom.tasks("test", 0))


def test_what_cannot_be_replayed_says_so(env: Foreign) -> None:
    changes = replace(env, task="changes")
    with raises_naming(ValueError, "env.replayable=true", f"seed {first(changes).id}"):
        changes.start(first(changes))
    honest = replace(changes, replayable=False)
    assert not honest.replayable
    assert not is_reproducible(honest)
    assert not first(honest).prompt
    assert text_of(play(honest, first(honest), "x")[0])


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"task": "gess"}, ("env.task=gess", "guess")),
        ({"adapter": "nowhere"}, ("env.adapter=nowhere", "module", "PYTHONPATH")),
        ({"adapter": "no.where"}, ("env.adapter=no.where", "module")),
        ({"adapter": "..where"}, ("env.adapter=..where", "module")),
        ({"adapter": "rlx.env.foreign"}, ("env.adapter=rlx.env.foreign", "AttributeError:", "'tasks'")),
        ({"python": "/nowhere/python"}, ("env.python=/nowhere/python", "No such")),
        ({"python": "/dev/null"}, ("env.python=/dev/null", "Permission denied")),
        ({"python": "a\0b"}, ("env.python=a\0b", "null byte")),
        ({"python": "~nobody-is-called-so/python"}, ("env.python=~nobody-is-called-so/python", "No such")),
        ({"python": "/bin/true"}, ("env.python=/bin/true", "ended")),
        ({"adapter": "no_adapter", "package": "odd"}, ("env:", "no_such_games", "install odd")),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(
    env: Foreign, settings: dict[str, Any], names: tuple[str, ...]
) -> None:
    with raises_naming(MistakeError, *names):
        replace(env, **settings).tasks("train", 0)


@for_each("settings", [{"seconds": 0}, {"num_test": 0}, {"form": "boxed"}, {"max_rounds": -1}, {"num_tasks": 500}])
def test_values_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with raises_naming(ValueError, "{}={}".format(*next(iter(settings.items())))):
        Foreign(**{**SETTINGS, **settings})


def test_a_vector_goes_on_beside_one_that_hangs(package: Path) -> None:
    envs = rlx.gym.make_vec("gem", 3, protocol="whole", **{**SETTINGS, "seconds": 3.0, "form": None})
    envs.reset(seed=1)
    observations, _, terminated, truncated, infos = envs.step(["x", "spin", "y"])
    assert (observations[0], observations[2]) == ("1 'x'\n", "1 'y'\n")
    assert (list(terminated), list(truncated)) == ([False] * 3, [False, True, False])
    assert infos[1]["final_info"]["error"] == "LateError: it took longer than 3 s"
    assert envs.step(["x", "z", "y"])[0] == ["2 'x'\n", "1 'z'\n", "2 'y'\n"]
    envs.close()


def test_a_run_counts_the_errors_of_each_environment(package: Path, tmp_path: Path) -> None:
    words = [
        *("env=mixture", "algo=grpo", "protocol=whole", "warm_start=none", "steps=1", "max_error_share=1"),
        *("algo.num_prompts=4", "algo.num_samples=2", "sampling.max_new_tokens=8", "track=disabled"),
        *(f"env@env.parts.{part}.env=gem" for part in ("first", "second")),
        *(f"env.parts.{part}.env.adapter=odd_adapter" for part in ("first", "second")),
        "env.parts.first.env.task=breaks",
        *("env.parts.second.env.task=guess", "env.parts.second.env.max_rounds=1"),
        *("evaluate.num_tasks=2", "evaluate.num_samples=1", "evaluate.ks=[1]", "evaluate.max_new_tokens=8"),
    ]
    train(build_run(compose(words), tmp_path / "run"), Screen(silent=True))
    metrics = read_metrics(tmp_path / "run" / METRICS)[-1]
    assert metrics["first/episode/errors"] == 1.0
    assert metrics["second/episode/errors"] == 0.0


def test_packages_of_another_interpreter_are_data_of_the_environment(env: Foreign) -> None:
    assert env.data_version() == ""
    elsewhere = replace(env, python=sys.executable)
    versions = elsewhere.box.know()["versions"]
    assert versions["numpy"] == version("numpy")
    assert elsewhere.data_version() == elsewhere.data_version() != ""
