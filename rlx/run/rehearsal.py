"""A few real episodes before anything is trained: played by the run's own player, at the environment's pace and in
threads, with an expert's words (or plausible ones) in place of a model's. This finds
faults of the environment before a warm start, such as a connection that belongs to one thread.

    alone      one episode after another, on this thread
    together   all at once, every piece of work in a thread of its own, as threads of the run's pool take turns

Episodes that work alone and fail together stop the run. So do episodes that get other answers on other threads, one by
one: an environment may turn the error of a thread into an observation. Episodes that get other answers only beside each
other share state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat, zip_longest
from typing import Any

from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.expert import DemonstrationError, demonstration
from rlx.environment.random_play import tries_of
from rlx.rollout.engine import Counts
from rlx.rollout.episode import play_episode
from rlx.rollout.growth import all_at_once
from rlx.rollout.play import Rollout
from rlx.rollout.scheduler import Scheduler, answer_at_once
from rlx.rollout.speech import Speech
from rlx.run.execution import Execution, RunError
from rlx.run.rehearsed import NUM_REHEARSED, list_rehearsed
from rlx.run.run import Run
from rlx.run.task_warnings import task_warnings
from rlx.runs.folder import METRICS
from rlx.types import Action, Completion, Move, Request, Start, Task, Trajectory, Turn

MOST_TURNS = 6
"""Turns of an episode without an expert."""
ROOM = 10**9
"""Context of an episode: bytes stand for tokens here."""


@dataclass(slots=True)
class Script:
    """Engine that says given texts, one a tick for every request. An episode that has said all of its own says nothing,
    which is an invalid turn."""

    lines: Mapping[int, Iterator[str]]
    """Texts of each episode."""
    num_agents: int = 1
    """Sessions of an episode."""
    queue: list[Request] = field(default_factory=list)
    tick: int = 0
    counts: Counts = field(default_factory=Counts)
    version: int = 0

    def add(self, request: Request) -> None:
        self.queue.append(request)

    def step(self) -> list[tuple[Request, Completion]]:
        self.tick += 1
        requests, self.queue = self.queue, []
        return [(request, self.answer(request)) for request in requests]

    def answer(self, request: Request) -> Completion:
        """Return the session's next text as a completion."""
        ids = tuple(next(self.lines[request.session // self.num_agents]).encode())
        return Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="stop")

    def load(self, weights: Mapping[str, Any], version: int) -> None:
        """Nothing: there are no weights."""

    def use(self, automaton: Any) -> None:
        """Nothing: texts are said as they are."""

    def release(self, session: int) -> None:
        """Nothing: there is no cache."""

    def rest(self, keep: bool = True) -> None:
        """Nothing: there is no device."""

    def close(self) -> None:
        """Nothing: there is no device."""


class FreshThreads(Executor):
    """Runs every job in a thread of its own, as a pool's threads may take turns. The threads live until the end, since
    an identifier of a thread that ended is given to the next."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        answer: Future[Any] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work(*args, **named))
                except BaseException as error:  # it belongs to whoever waits for the answer
                    answer.set_exception(error)
            self.over.wait()

        self.threads.append(threading.Thread(target=run, name="rehearsal", daemon=True))
        self.threads[-1].start()
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.over.set()
        for thread in self.threads if wait else ():
            thread.join()


def rehearse(execution: Execution) -> None:
    """Play a few episodes of every environment whose tasks a new run samples, by rank 0; RunError where threads break
    them."""

    def play() -> None:
        for stage, name, env in list_rehearsed(execution.run):
            rehearse_one(execution, stage, name, env)
            for text in task_warnings(stage, name, env):
                execution.warn(text)

    if execution.run.steps and not execution.process.ranks.broadcast((execution.run.folder / METRICS).exists()):
        execution.process.pulse.at("rehearsal of the environment", resting=True)
        execution.process.ranks.first(play)


def rehearse_one(execution: Execution, run: Run, name: str, env: Environment) -> None:
    """Play one environment alone and together, and compare."""
    tasks = [replace(task, env=name) for task in islice(env.tasks("train", run.seed), NUM_REHEARSED)]
    starts = [Start(task=task, sample=sample) for sample, task in enumerate([*tasks, *tasks[:1]])]
    scripts = [script_of(env, run.dialects[name], start.task, run.seed) for start in starts]
    texts, faults = [text for text, _ in scripts], [fault for _, fault in scripts if fault]
    where = f"env {name}" if name else "env"

    def rollout() -> Rollout:
        return rollout_of(run, texts, len(env.agents), execution.process.interrupt.check)

    alone = play_alone(rollout(), starts)
    broken = [episode.error for episode in alone if episode.status == "error"]
    if broken:
        execution.warn(f"{where}: an episode played before training ended in an error: {broken[0]}")
        return
    if faults:
        execution.warn(f"{where}: {faults[0]}")
    ahead = run.hardware.staleness > 0
    together = play_together(rollout(), starts, ahead=ahead)
    if errors_in(together) and errors_in(again := play_together(rollout(), starts, ahead=ahead)):
        raise RunError(f"{where}: {explain_thread_error(errors_in(again)[0], env)}")
    if not env.replayable or errors_in(together):
        return
    if difference := first_difference(alone, together):
        stable = not first_difference(alone, play_alone(rollout(), starts))
        if stable and (
            isolated := first_difference(alone, isolated_in_threads(run, texts, starts, len(env.agents), execution))
        ):
            raise RunError(f"{where}: {explain_thread_error(isolated, env)}")
        execution.warn(
            f"{where}: episodes that live at the same time are answered differently from episodes played alone "
            f"({difference}): keep all state of an episode in the object that start() returns, or set "
            "replayable = False"
        )


def explain_thread_error(error: str, env: Environment) -> str:
    """Explain an error that only threads cause."""
    pace = env.pace
    remedy = "open connections inside each call, allow their use from other threads, or set pace = 'inline'"
    if pace == "inline":
        remedy = "keep all state of an episode in the object that start() returns"
    return (
        f"episodes work one at a time, and fail as the run plays them ({error}): with pace={pace} "
        f"start() and every step() may run on different threads, and many episodes live at once; {remedy}"
    )


def errors_in(episodes: Sequence[Trajectory]) -> list[str]:
    return [episode.error for episode in episodes if episode.status == "error"]


def first_difference(alone: Sequence[Trajectory], others: Sequence[Trajectory]) -> str:
    """Describe the first turn that the environment answered differently; empty if there is none."""
    for episode, other in zip(alone, others, strict=True):
        for first, second in zip_longest(episode.turns, other.turns):
            if outcome(first) != outcome(second):
                return f"{describe_answer(first)} alone, {describe_answer(second)} here"
        if (episode.status, episode.success) != (other.status, other.success):
            return f"{episode.status}, success {episode.success} alone, {other.status}, success {other.success} here"
    return ""


def outcome(turn: Turn | None) -> Any:
    """Return what an environment said in a turn."""
    return turn and (turn.action, turn.observation, turn.reward, dict(turn.metrics))


def describe_answer(turn: Turn | None) -> str:
    """Describe an answer of the environment in a few words."""
    if turn is None:
        return "no turn"
    return f"{' '.join(part.text for part in turn.observation)!r:.60} and reward {turn.reward:g}"


def rollout_of(run: Run, texts: Sequence[Sequence[str]], num_agents: int, check: Callable[[], None]) -> Rollout:
    """Return the run's rollout with a script in place of a model."""
    longest = max(map(len, texts), default=0) + 2
    limit = run.env.max_rounds
    return Rollout(
        env=run.env,
        speech=Speech(dialect=run.protocol, encode=encode, decode=decode),
        engine=Script({number: chain(lines, repeat("")) for number, lines in enumerate(texts)}, num_agents),
        sampling=replace(run.sampling, max_context=ROOM),
        max_rounds=longest if limit is None else min(limit, longest),
        stream=("rehearsal", run.seed),
        num_live=run.hardware.num_live,
        tool_ticks=run.hardware.tool_ticks,
        check=check,
    )


def encode(text: str) -> list[int]:
    return list(text.encode())


def decode(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


def play_alone(rollout: Rollout, starts: Sequence[Start]) -> list[Trajectory]:
    """Play episodes one after another on this thread."""
    num_agents = len(rollout.worlds[starts[0].task.env].env.agents) if starts else 1
    return [play_one(rollout, start, number * num_agents) for number, start in enumerate(starts)]


def play_one(rollout: Rollout, start: Start, session: int) -> Trajectory:
    coroutine = play_episode(rollout.worlds[start.task.env], rollout.sampling, start, rollout.stream, session)
    try:
        demand = next(coroutine)
        while True:
            if isinstance(demand, Request):
                rollout.engine.add(demand)
                demand = coroutine.send(rollout.engine.step()[0][1])
            else:
                demand = answer_at_once(coroutine, demand)
    except StopIteration as end:
        played: Trajectory = end.value
        return played


def play_together(rollout: Rollout, starts: Sequence[Start], *, ahead: bool) -> list[Trajectory]:
    """Play episodes as a run does, every piece of work on another thread where the pace has threads. Rollouts that a
    run plays `ahead` of its updates have a thread of their own."""
    with FreshThreads() as pool:
        scheduler = Scheduler(rollout, [all_at_once(starts)], pool, forks=False)
        try:
            return (pool.submit(scheduler.run).result() if ahead else scheduler.run())[0]
        finally:
            scheduler.clear()


def isolated_in_threads(
    run: Run, texts: Sequence[Sequence[str]], starts: Sequence[Start], num_agents: int, execution: Execution
) -> list[Trajectory]:
    """Play episodes one after another, every call on another thread: what differs then is not shared state."""
    rollouts = [rollout_of(run, [lines], num_agents, execution.process.interrupt.check) for lines in texts]
    return [play_together(rollout, [start], ahead=False)[0] for rollout, start in zip(rollouts, starts, strict=True)]


def script_of(env: Environment, dialect: Dialect, task: Task, seed: int) -> tuple[list[str], str]:
    """Return the turns to say in an episode, those of an expert or plausible ones, and a fault that the expert met.

    An expert that refuses (ValueError) may only need tools that this protocol does not lend.
    """
    fault = ""
    if env.has_expert:
        try:
            return [expert_move.text for expert_move in demonstration(env, dialect, task, seed)[1]], ""
        except DemonstrationError as error:
            fault = "" if isinstance(error.__cause__, ValueError) else str(error).removeprefix("env: ")
    return list(islice(plausible(env, dialect, task, seed), MOST_TURNS)), fault


def plausible(env: Environment, dialect: Dialect, task: Task, seed: int) -> Iterator[str]:
    """Yield turns that call each tool, take each action and answer at random, as far as the protocol can say them."""
    calls = [Action(kind="call", name=verb.name, text="1") for verb in env.tools if verb.name in dialect.tools]
    acts = [Action(kind="act", name=verb.name, text="1" if verb.argument else "") for verb in env.actions]
    tries = tries_of(env, task, 1, seed) if env.has_random_tries else [Action(kind="answer", text="1")]
    for action in chain(calls, acts, tries):
        try:
            yield dialect.write(Move(thought="", action=action))
        except ValueError:
            continue
