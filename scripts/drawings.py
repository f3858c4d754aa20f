"""Write the drawings of docs/architecture.md from the code: packages, and the calls of one training step.

python scripts/drawings.py           # print them
python scripts/drawings.py --write   # put them into the page
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

import rlx.training
from rlx.settings.build import build_run
from rlx.settings.compose import compose
from scripts.rooms import PACKAGE, ROOT, draw_floors, draw_sizes, first_sentence, read_sizes, sizes, wrong_sizes

PAGE = ROOT / "docs" / "architecture.md"
WORDS = ("env=countdown", "algo=reinforce", "algo.num_prompts=1", "algo.num_samples=1", "warm_start=none", "steps=1")
QUIET = (
    "track=disabled",
    "checkpoint.trajectories_interval=0",
    "evaluate.num_tasks=1",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
)
"""Run whose step is drawn: one episode, so the order of its calls does not depend on threads."""
EPISODE = """
rollout/waves:sample_turns
rollout/play:Rollout.sample
run/trainee:Trainee.sync
rollout/scheduler:Scheduler.run
rollout/episode:play_episode
rollout/episode:Scene.begin
environment/world:open_episode
env/countdown/countdown:Countdown.start
environment/__init__:Episode.opening
environment/world:lawful
rollout/episode:Scene.context
rollout/speech:Speech.context
protocol/history:History.context
rollout/episode:Scene.ask
rollout/torch/engine:TorchEngine.add
rollout/row:open_row
rollout/torch/engine:TorchEngine.step
rollout/choice:Chooser.choose
rollout/row:RequestRow.take
rollout/row:RequestRow.complete
rollout/episode:Scene.act
rollout/speech:Speech.hear
protocol/blocks:Blocks.parse
environment/world:only_legal
rollout/episode:World.step
environment/world:step_within
env/countdown/countdown:CountdownEpisode.step
tool/python:Python.run
rollout/episode:World.close_turn
rollout/episode:Scene.end
algo/samplers:group_by_task
"""
BATCH = """
environment/agents:groups_of_agents
learner/batch:collate
learner/rows:decisions
learner/learner:Learner.annotate
learner/rows:rows
algo/credit:returns_to_go
learner/batch:Batch.with_credit
learner/learner:Learner.update
learner/shares:minibatches
learner/packing:prepare
learner/shares:shares
learner/forest:forest_of
learner/packing:pack
learner/layout:lay_out
learner/learner:Learner.step
learner/learner:Learner.accumulate
learner/torch:TorchLearner.score
learner/scorer:Scorer.forward
learner/attention:packed_attention
learner/logprob:log_probs
algo/losses:policy_loss.<locals>.policy
learner/torch:TorchLearner.backward
learner/torch:TorchLearner.move
"""
"""Functions of the two drawings, as file:name. The order, the calls and the sentences come from the code."""
WAITING = ("rollout/episode", "play_episode")
"""Function below which work in other threads is drawn."""


class Call(NamedTuple):
    """First call of a function: file without .py, name, first line, and stack of the calling functions."""

    file: str
    name: str
    line: int
    stack: tuple[tuple[str, str], ...]


def record_step() -> list[Call]:
    """Return the first call of every function of rlx in one training step, in order."""
    calls: dict[tuple[str, str], Call] = {}

    def see(frame: FrameType, event: str, arg: object) -> None:
        place = place_of(frame)
        if event == "call" and place and place not in calls:
            calls[place] = Call(*place, frame.f_code.co_firstlineno, tuple(stack_of(frame.f_back)))

    with TemporaryDirectory() as folder, redirect_stdout(sys.stderr), recorded(see):
        rlx.training.train(build_run(compose([*WORDS, *QUIET]), Path(folder) / "run"))
    return list(calls.values())


@contextmanager
def recorded(see: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    """Show the calls within `take_step`, in all threads, to `see`."""
    step = rlx.training.take_step

    def watched(*args: Any) -> Any:
        threading.setprofile(see)
        sys.setprofile(see)
        try:
            return step(*args)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    rlx.training.take_step = watched
    try:
        yield
    finally:
        rlx.training.take_step = step


def place_of(frame: FrameType) -> tuple[str, str] | None:
    """Return the file and the name of a function of rlx; None for others."""
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(PACKAGE):
        return None
    return file.relative_to(PACKAGE).with_suffix("").as_posix(), frame.f_code.co_qualname


def stack_of(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    while frame is not None:
        place = place_of(frame)
        if place:
            yield place
        frame = frame.f_back


def draw_path(calls: list[Call], stations: str) -> str:
    """Draw these functions in the order of their first calls, each below the functions on the call stack."""
    wanted = {tuple(station.split(":", 1)) for station in stations.split()}
    met = [call for call in calls if (call.file, call.name) in wanted]
    missing = wanted - {(call.file, call.name) for call in met}
    if missing:
        raise SystemExit(f"scripts/drawings.py: a step does not call {sorted(missing)}")
    depths: dict[tuple[str, str], int] = {}
    lines = []
    for call in met:
        stack = call.stack if reaches_step(call) else (*call.stack, WAITING)
        depth = next((depths[place] + 1 for place in stack if place in depths), 0)
        depths[call.file, call.name] = depth
        lines.append(("  " * depth + call.name, f"{call.file}.py", sentence_at(call)))
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(f"    {name:{widths[0]}}  {file:{widths[1]}}  {text}".rstrip() for name, file, text in lines)


def reaches_step(call: Call) -> bool:
    """True of calls in the thread of the loop; others are work of an environment, which an episode waits for."""
    return ("train", "take_step") in call.stack


def sentence_at(call: Call) -> str:
    """Return the first sentence of a function's docstring."""
    function = functions_of(PACKAGE / f"{call.file}.py").get(call.line)
    return first_sentence(function) if function else ""


@cache
def functions_of(file: Path) -> Mapping[int, ast.FunctionDef]:
    """Return the functions of a file by their first line, that of a decorator if there is one."""
    nodes = (
        node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    )
    return {min([node.lineno, *(d.lineno for d in node.decorator_list)]): node for node in nodes}


def drawings() -> dict[str, str]:
    calls = record_step()
    return {
        "floors": draw_floors(),
        "sizes": draw_sizes(),
        "episode": draw_path(calls, EPISODE),
        "batch": draw_path(calls, BATCH),
    }


def place_of_drawing(page: str, name: str) -> slice:
    """Return the place between the marks of a drawing."""
    marks = f"<!-- drawing: {name} -->\n", f"<!-- end of drawing: {name} -->"
    match = re.search(f"(?<={re.escape(marks[0])}).*?(?={re.escape(marks[1])})", page, re.DOTALL)
    if not match:
        raise SystemExit(f"{PAGE}: it has no place for {name}; add {marks[0].strip()} and {marks[1]}")
    return slice(*match.span())


def put(page: str, name: str, drawing: str) -> str:
    """Return the page with a drawing between its marks; the sizes on the page stay if they are about right."""
    place = place_of_drawing(page, name)
    if name == "sizes" and not wrong_sizes(read_sizes(page[place]), sizes()):
        return page
    return f"{page[: place.start]}\n{drawing}\n\n{page[place.stop :]}"


def main(words: list[str]) -> None:
    texts = drawings()
    if words != ["--write"]:
        print("\n\n".join(f"{name}\n\n{drawing}" for name, drawing in texts.items()))
        return
    page = PAGE.read_text(encoding="utf-8")
    for name, drawing in texts.items():
        page = put(page, name, drawing)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
