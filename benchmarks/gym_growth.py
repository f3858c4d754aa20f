"""Growth of the gym: everything that an environment can have more of, at 1, 4 and 16 times its size.

    python benchmarks/gym_growth.py [NAME ...]

A NAME is the beginning of a case's, such as `turns`. Each size runs in a process of its own, in which what is measured
stands alone: seconds of the processor, user's and system's, of that process and of those that it started, and growth of
its peak resident set. An exponent is the slope of a straight line through the logarithms: 1 is linear. None is told
where the largest size takes less than .05 s or 2 MB, which is noise.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice
from math import log
from multiprocessing import get_context
from pathlib import Path
from random import Random
from statistics import linear_regression
from typing import Any

from bench_gym import slow_envs
from bench_update import resident

import rlx.gym
from rlx.commands.find import Wanted, read_line, scan
from rlx.commands.show import describe_line
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.env.questions.code import Code
from rlx.env.questions.math import Math
from rlx.env.questions.qa import QA
from rlx.env.questions.reasoning_gym import ReasoningGym
from rlx.evaluation.figures import Score, figures
from rlx.evaluation.replay import replay
from rlx.gym.named import build_env
from rlx.model.load import Model, load_tokenizer
from rlx.protocol.boxed import Boxed
from rlx.protocol.history import first_prompt
from rlx.rollout.episode import Scene, World, worlds_of
from rlx.rollout.measure import EMPTY
from rlx.rollout.speech import speech_of
from rlx.runs.folder import TRAJECTORIES
from rlx.runs.store import load, save
from rlx.tool.search import Search
from rlx.types import Action, Group, Start, Trajectory

SIZES = (1, 4, 16)
GAME = GuessTheNumber(high=10**6, max_turns=10**5)
Work = Callable[[], object]


def drop(stream: Iterable[Any]) -> object:
    """Nothing is kept of it."""
    return deque(stream, maxlen=0)


def world_of(**options: Any) -> World:
    return worlds_of(GAME, speech_of(Boxed(**options), load_tokenizer(Model(path="nano"))))[""]


def played(world: World, num_turns: int) -> Trajectory:
    with ExitStack() as stack:
        scene = Scene(world, Start(task=next(GAME.tasks("train", 0)), sample=0), stack)
        context = scene.begin()
        for number in range(num_turns):
            context = scene.act(context, world.speech.spell(rf"\boxed{{{number}}}"))
        return scene.end("done")


def turns(size: int, **options: Any) -> Work:
    return partial(played, world_of(**options), 64 * size)


def views(size: int, **options: Any) -> Work:
    env = rlx.gym.make("game:GuessTheNumber-v0", high=10**6, max_turns=10**5, **options)
    env.reset(seed=0)
    return lambda: drop(env.step(rf"\boxed{{{number}}}") for number in range(64 * size))


def vector(size: int, *, slow: bool) -> Work:
    num = size * (16 if slow else 64)
    envs: Any = slow_envs(num) if slow else rlx.gym.make_vec("game:GuessTheNumber-v0-hard", num_envs=num)
    envs.reset(seed=0)
    return lambda: drop(envs.step([r"\boxed{7}"] * num) for _ in range(20))


def mixture(size: int) -> Work:
    env = Mixture(parts={f"p{i}": Portion(env=GAME, weight=1 + i % 3) for i in range(8 * size)})
    return lambda: drop(islice(env.tasks("train", 0), 2000 * size))


def rows_of(num: int, **row: Any) -> str:
    path = Path(tempfile.mkdtemp(prefix="rlx-growth-")) / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({**row, "question": f"{row.get('question', '')}{i}?"}) + "\n" for i in range(num))
    )
    return str(path)


def rows(size: int, make: Any, **row: Any) -> Work:
    """A pass over a data set's training, and its test."""
    env = make(source="hub", hub=rows_of(1000 * size, **row))
    return lambda: (drop(islice(env.tasks("train", 0), 1000 * size)), drop(env.tasks("test", 0)))


def question(size: int, make: Any, text: str) -> Work:
    """Long ones, from their rows to what is told, what an answer is worth, and random tries."""
    env = make(source="hub", hub=rows_of(20, question=text * size, answer="7"))

    def play() -> None:
        for task in islice(env.tasks("train", 0), 20):
            first_prompt(Boxed(), task)
            env.start(task).step(Action(kind="answer", text="the mill " * 1000))
            env.random_tries(task, 8, 0)

    return play


def program(size: int, *, num_tests: int, text: str) -> Work:
    tests = {"inputs": [f"{i}\n" for i in range(num_tests)], "outputs": [f"{2 * i}\n" for i in range(num_tests)]}
    env = Code(source="hub", hub=rows_of(4, tests=json.dumps(tests)), max_tests=1000, reward="share")
    return partial(env.start(next(env.tasks("train", 0))).step, Action(kind="answer", text=text))


def boards(num: int, name: str, **keys: Any) -> Work:
    """Fifty new games; what is said to be `num` grows."""
    env: Any = build_env(f"game/{name}", {key: num if value == "num" else value for key, value in keys.items()})
    rng = Random(0)
    return lambda: drop(env.draw(rng) for _ in range(50))


def saved(size: int, what: str) -> Work:
    """So many times 64 episodes of 8 turns; or one of so many times 64 turns."""
    world, folder = world_of(), Path(tempfile.mkdtemp(prefix="rlx-growth-"))
    path, one = folder / TRAJECTORIES / "eval.jsonl", played(world, 64 * size if what == "a long one" else 8)
    num = 1 if what == "a long one" else 64 * size
    groups = [Group(task=one.task, trajectories=tuple(replace(one, sample=i) for i in range(num)))]
    save(path, groups, max_rounds=None)
    works: Mapping[str, Work] = {
        "a long one": lambda: (save(path, groups, max_rounds=None), load(path)),  # type: ignore[func-returns-value]
        "written": lambda: save(path, groups, max_rounds=None),
        "listed": lambda: drop(map(describe_line, scan(path, Wanted()))),
        "found": lambda: drop(read_line(path, num) for _ in range(200)),
        "replayed": lambda: replay(folder, GAME, speech=world.speech),
    }
    return works[what]


def search(size: int, *, asked: int) -> Work:
    rng, known = Random(0), [f"word{i}" for i in range(20_000)]
    tool = Search(pages=[" ".join(rng.choices(known, k=30)) for _ in range(2000 * size)])
    return lambda: (tool.retriever, drop(tool.run(" ".join(rng.choices(known, k=4))) for _ in range(asked)))


def intervals(size: int) -> Work:
    rng, sums = Random(0), dict.fromkeys(EMPTY, 1.0)
    scores = [Score(task=str(i), num_samples=16, num_correct=rng.randint(0, 16), sums=sums) for i in range(50 * size)]
    return lambda: figures(scores, ks=(1, 4, 8, 16))


def reasoning_gym(size: int) -> Work:
    env = ReasoningGym(task="chain_sum", size=125 * size)
    return lambda: drop(islice(env.tasks("train", 1), 125 * size))


MILL = "The Old Mill of Arden was built in 1742 by 31 men. " * 125
TESTS = json.dumps({"inputs": ["3\n"] * 5, "outputs": ["6\n"] * 5})
CONTEXTS: dict[str, dict[str, Any]] = {
    "window=0": {"window": 0},
    "summary": {"summarise_at": 400},
    "seen alone": {"agent_turns": False},
    "all": {},
}
CASES: dict[str, tuple[Callable[[int], Work], tuple[int, ...]]] = {
    **{f"turns, {name}": (partial(turns, **options), SIZES) for name, options in CONTEXTS.items()},
    **{f"turns in rlx.gym, {v}": (partial(views, observation=v), SIZES) for v in ("last", "history", "chat")},
    "turns in rlx.gym, window=4": (partial(views, observation="history", window=4), SIZES),
    "environments of a vector": (partial(vector, slow=False), SIZES),
    "the same with a tool of 50 ms": (partial(vector, slow=True), SIZES),
    "parts and tasks of a mixture": (mixture, SIZES),
    "rows of math": (partial(rows, make=Math, answer="7"), SIZES),
    "rows of qa": (partial(rows, make=QA, answer=["seven", "7"]), SIZES),
    "rows of code": (partial(rows, make=Code, tests=TESTS), SIZES),
    "length of a question": (partial(question, make=QA, text=MILL), SIZES),
    "numbers of a problem": (lambda n: question(1, Math, " ".join(map(str, range(64 * n)))), SIZES),
    "tests of a program": (lambda n: program(n, num_tests=12 * n, text="print(2 * int(input()))"), SIZES),
    "length of a program": (lambda n: program(n, num_tests=12, text="'" + r"\'" * 600 * n), SIZES),
    "rows of a sudoku": (lambda n: boards(n, "sudoku", size=n, clues={4: 7, 9: 34}[n]), (4, 9)),
    "words of crosswords": (partial(boards, name="crosswords", num_words="num"), (2, 5, 10)),
    "words of a word search": (partial(boards, name="word_search", num_words="num"), (2, 5, 10)),
    "boxes of sokoban": (partial(boards, name="sokoban", num_rows=12, num_columns=12, num_boxes="num"), (1, 2, 4)),
    **{f"episodes saved, {w}": (partial(saved, what=w), SIZES) for w in ("written", "listed", "found", "replayed")},
    "turns of a saved episode": (partial(saved, what="a long one"), SIZES),
    "pages of a search, indexed": (partial(search, asked=0), SIZES),
    "the same, and asked": (partial(search, asked=2000), SIZES),
    "problems of figures": (intervals, SIZES),
    "questions of reasoning-gym": (reasoning_gym, SIZES),
}


def spent() -> float:
    """User and system seconds, of processes that were started too."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(seconds_of, children(os.getpid())))


def seconds_of(pid: int) -> float:
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, told[11:15])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    found = [int(one) for file in Path(f"/proc/{pid}/task").glob("*/children") for one in file.read_text().split()]
    return found + [other for one in found for other in children(one)]


def measure(name: str, size: int) -> tuple[float, float]:
    """Seconds and megabytes."""
    work = CASES[name][0](size)
    before, began = resident("VmRSS"), spent()
    Path("/proc/self/clear_refs").write_text("5")
    work()
    return spent() - began, resident("VmHWM") - before


def exponent(sizes: tuple[int, ...], values: tuple[float, ...], least: float) -> str:
    if values[-1] < least or min(values) <= 0:
        return ""
    return f"{linear_regression(list(map(log, sizes)), list(map(log, values))).slope:.2f}"


def main() -> None:
    played(world_of(), 1)  # what is imported here is not measured
    gc.freeze()  # nor looked at again for what nobody needs
    print("| what grows | s | exponent | MB | exponent |\n|---|---|---|---|---|")
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for name, (_, sizes) in CASES.items():
            if name.startswith(tuple(sys.argv[1:] or [""])):
                seconds, memory = zip(*(pool.apply(measure, (name, size)) for size in sizes))
                cells = [", ".join(f"{value:.2g}" for value in values) for values in (seconds, memory)]
                powers = exponent(sizes, seconds, 0.05), exponent(sizes, memory, 2)
                print(f"| {name} | {cells[0]} | {powers[0]} | {cells[1]} | {powers[1]} |", flush=True)


if __name__ == "__main__":
    main()
