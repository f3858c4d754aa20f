"""Two agents in one episode: what each sees, how each is trained, and who answers for whom."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rlx.base.console import Screen
from rlx.base.limits import MistakeError
from rlx.environment.agents import episode_of_agent, groups_of_agents, seen_by
from rlx.environment.world import lawful, open_episode
from rlx.evaluation.compare import scores_of
from rlx.evaluation.evaluate import Evaluate
from rlx.evaluation.figures import figures
from rlx.evaluation.floor import floor
from rlx.evaluation.replay import replay
from rlx.gym.spoken import SpokenPart
from rlx.learner.batch import collate
from rlx.learner.notes import join_notes
from rlx.learner.rows import rows
from rlx.model.load import load_base, load_tokenizer
from rlx.protocol.direct import Direct
from rlx.rollout.episode import demonstrate_episode, worlds_of
from rlx.rollout.play import Rollout
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import link_all
from rlx.rollout.remote.server import RolloutServer
from rlx.rollout.routed import RoutedEngine
from rlx.rollout.speech import Speech
from rlx.run.policies import Frozen, Served, measured_agents
from rlx.run.run import WarmStart
from rlx.run.trainee import build_engine, build_policy
from rlx.run.warm_result import result_of_stage
from rlx.runs.codec import from_json, to_json
from rlx.runs.run import read_run
from rlx.runs.store import load as load_groups
from rlx.runs.store import step_path
from rlx.runs.summary import read_summary
from rlx.runs.track import is_clock
from rlx.tool.lend import Lend
from rlx.tool.tool import Result, Tool
from rlx.training import train
from rlx.types import (
    Action,
    Completion,
    Failed,
    Fork,
    Group,
    Move,
    Part,
    Request,
    Sampling,
    Start,
    Step,
    Task,
    Text,
    Trajectory,
    Turn,
    Verb,
)
from tests.duel import Duel, DuelEpisode
from tests.errors import raises_naming

QUIET = Screen(silent=True)
WORDS = (
    "algo=grpo",
    "steps=3",
    "checkpoint.trajectories_interval=1",
    "algo.num_prompts=2",
    "sampling.max_new_tokens=4",
    "evaluate.max_new_tokens=4",
)
FEW = ("algo=", "steps", "algo.num_prompts", "sampling.max_new_tokens", "evaluate.max_new_tokens")


def turn(agent: str, seen: str, reward: float = 0.0, tokens: tuple[int, ...] = (1,), **more: Any) -> Turn:
    return Turn(
        prompt_ids=more.pop("prompt_ids", (9,)),
        completion=Completion(token_ids=tokens, logprobs=(-1.0,) * len(tokens), stop="stop"),
        action=Action(kind="answer", text=agent),
        observation=(Text(seen),),
        reward=reward,
        agent=agent,
        **more,
    )


TASK = Task(id="t", prompt=(Text("?"),), data={})
OPENING = (Text("o"),)
TURNS = (turn("A", "a1", 1.0), turn("B", "b1", rewards={"A": 0.25}), turn("B", "b2"), turn("A", "a2", 2.0))


def text(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts)


def test_an_agent_reads_what_stands_before_its_own_turns() -> None:
    opening, seen = seen_by("A", OPENING, TURNS)
    assert (text(opening), [text(one.observation) for one in seen]) == ("o", ["b2", "a2"])
    opening, seen = seen_by("B", OPENING, TURNS)
    assert (text(opening), [text(one.observation) for one in seen]) == ("a1", ["b1", "a2"])
    opening, seen = seen_by("C", OPENING, TURNS)
    assert (text(opening), seen) == ("a2", [])


def test_a_reward_in_anothers_turn_is_of_the_last_turn_of_ones_own() -> None:
    episode = Trajectory(task=TASK, sample=0, turns=TURNS, status="done", opening=OPENING)
    own = episode_of_agent("A", episode)
    assert [one.reward for one in own.turns] == [1.25, 2.0]
    assert own.reward + episode_of_agent("B", episode).reward == episode.reward + 0.25


def test_who_lost_has_no_success() -> None:
    turns = (*TURNS[:3], replace(TURNS[3], outcomes={"B": False}))
    episode = Trajectory(task=TASK, sample=0, turns=turns, status="done", success=True)
    assert [episode_of_agent(agent, episode).success for agent in "AB"] == [True, False]
    assert from_json(json.loads(json.dumps(to_json(episode)))) == episode


def test_an_agent_alone_keeps_its_groups() -> None:
    group = Group(task=TASK, trajectories=(Trajectory(task=TASK, sample=0, turns=(), status="done"),))
    assert groups_of_agents([group], {"": ("",)}) == [group]


@pytest.mark.parametrize(
    ("agent", "turn_left", "fork"),
    [("A", 3, Fork(parent=0, turn=1, token=1)), ("B", 3, Fork(parent=0, turn=2)), ("A", 1, Fork(parent=0, turn=1))],
)
def test_a_fork_is_counted_in_the_agents_own_turns(agent: str, turn_left: int, fork: Fork) -> None:
    left = Fork(parent=0, turn=turn_left, token=1)
    episode = Trajectory(task=TASK, sample=1, turns=TURNS, status="done", fork=left)
    assert episode_of_agent(agent, episode).fork == fork


def test_rows_of_an_agent_have_the_turns_of_another_where_episodes_fork() -> None:
    """B's turn is forked: A's next row follows it, so it is no sibling of its parent's."""
    parent = Trajectory(task=TASK, sample=0, turns=TURNS, status="done")
    other = (*TURNS[:2], turn("B", "b3"), turn("A", "a3", prompt_ids=(9, 7)))
    fork = replace(parent, sample=1, turns=other, fork=Fork(parent=0, turn=2))
    groups = groups_of_agents([Group(task=TASK, trajectories=(parent, fork))], {"": ("A",)})
    seen = rows(groups, collate(groups))
    assert (seen.turn, seen.parent) == ((0, 1, 2, 3, 2, 3), (-1, 0, 1, 2, 1, 4))
    assert (seen.fork, seen.other) == ((-1, -1, -1, -1, 2, -1), (False, True, True, False, True, False))
    assert (seen.reward, seen.num_tokens) == ((1.0, 0.25, 0.0, 2.0, 0.0, 0.0), (1, 0, 0, 1, 0, 1))
    own = replace(parent, sample=1, turns=(*TURNS[:3], turn("A", "a3")), fork=Fork(parent=0, turn=3))
    groups = groups_of_agents([Group(task=TASK, trajectories=(parent, own))], {"": ("A",)})
    assert rows(groups, collate(groups)).fork == (-1, -1, -1, -1, 3)


def test_notes_stand_beside_the_turns_of_their_agent() -> None:
    groups = [Group(task=TASK, trajectories=(Trajectory(task=TASK, sample=0, turns=TURNS, status="done"),))]
    own: Any = [[[{"pieces": ["first"]}, {"pieces": ["second"]}]]]
    assert join_notes(groups, {"": ("A",)}, own) == [[[{"pieces": ["first"]}, {}, {}, {"pieces": ["second"]}]]]


def test_an_episode_of_two_agents_is_stored_whole() -> None:
    episode = Trajectory(task=TASK, sample=0, turns=TURNS, status="done", opening=OPENING)
    assert from_json(json.loads(json.dumps(to_json(episode)))) == episode


@pytest.mark.parametrize(
    "step",
    [
        Step(next_agent="green"),
        Step(next_agent="red", rewards={"green": 1.0}),
        Step(next_agent="red", outcomes={"green": True}),
    ],
)
def test_an_agent_that_is_none_of_the_environments_is_named(step: Step) -> None:
    with raises_naming(ValueError, "green"):
        lawful(Duel(), step)


def test_a_reward_of_the_acting_agent_among_those_of_others_is_refused() -> None:
    with raises_naming(ValueError, "'red'", "rewards", "Step(reward="):
        lawful(Duel(), Step(done=True, rewards={"red": 1.0}), Step(next_agent="red"))
    assert lawful(Duel(), Step(done=True, rewards={"blue": 1.0}), Step(next_agent="red"))


class Twice(Duel):
    """The same, with a reward of the first player in `rewards`, whoever acts."""

    def start(self, task: Task) -> Any:
        return TwiceEpisode(self)


class TwiceEpisode(DuelEpisode):
    def step(self, action: Action) -> Step:
        return replace(super().step(action), rewards={"red": 1.0})


def test_an_own_reward_in_the_wrong_place_ends_the_episode() -> None:
    rollout = Rollout(env=Twice(), speech=SPEECH, engine=Saying(), sampling=Sampling())  # type: ignore[arg-type]
    (played,) = rollout.play([Start(task=TASK, sample=0)])
    assert played.status == "error"
    assert "'red'" in played.error


def test_a_reward_before_an_agents_first_turn_belongs_to_that_turn() -> None:
    first = replace(TURNS[0], agent="A", reward=0.0, rewards={"B": -0.5})
    turns = (first, replace(TURNS[0], agent="B", reward=2.0, rewards={}))
    episode = Trajectory(task=TASK, sample=0, turns=turns, status="done")
    assert [turn.reward for turn in episode_of_agent("B", episode).turns] == [1.5]


def told(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if not is_clock(name)} for line in lines]


def versions(folder: Path, step: int) -> set[tuple[str, int]]:
    """Agents, and the versions of the policies that played them."""
    turns = [one for group in load_groups(step_path(folder, step)) for t in group.trajectories for one in t.turns]
    return {(one.agent, one.completion.version) for one in turns}


def test_a_warm_start_is_judged_by_the_turns_of_the_agents_that_it_trains(
    duel: Callable[..., Any], tmp_path: Path
) -> None:
    """Blue, which is frozen, says nothing that can be read."""
    stage = duel(tmp_path)
    group = group_of("answer", "invalid")
    found = result_of_stage(stage, [], [group])
    assert (found.invalid, found.success) == (0.0, 1.0)
    assert result_of_stage(replace(stage, policies={}), [], [group]).invalid == 0.5


def group_of(*kinds: Any) -> Group:
    """An episode of red and blue, who take turns; red wins."""
    done = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
    turns = tuple(
        Turn(prompt_ids=(0,), completion=done, action=Action(kind=kind, text="1"), agent=agent)
        for agent, kind in zip(("red", "blue"), kinds, strict=True)
    )
    task = next(Duel().tasks("train", 0))
    episode = Trajectory(task=task, sample=0, turns=turns, status="done", success=True)
    return Group(task=task, trajectories=(episode,))


@pytest.fixture
def duel(small_run: Callable[..., Any]) -> Callable[..., Any]:
    def build(folder: Path, *words: str, policies: Any = None, **more: Any) -> Any:
        run = small_run(folder, *WORDS, *words, without=(*FEW, *(word.split("=")[0] for word in words)))
        frozen = {"blue": Frozen()} if policies is None else policies
        return replace(run, env=Duel(), policies=frozen, **more)

    return build


def test_one_agent_is_trained_and_the_other_keeps_its_weights(duel: Callable[..., Any], tmp_path: Path) -> None:
    summary = train(duel(tmp_path), QUIET)
    assert summary.status == "finished"
    groups = load_groups(step_path(tmp_path, 1))
    episodes = [one for group in groups for one in group.trajectories]
    assert {tuple(one.agent for one in episode.turns) for episode in episodes} == {("red", "blue") * 2}
    lines = told(tmp_path)
    assert versions(tmp_path, 1) == {("red", 0), ("blue", 0)}
    assert lines[0]["batch/turns"] == sum(one.agent == "red" for episode in episodes for one in episode.turns)
    own = [episode_of_agent("red", episode).reward for episode in episodes]
    assert lines[0]["reward/mean"] == pytest.approx(sum(own) / len(own))
    assert versions(tmp_path, 3) == {("red", 2), ("blue", 0)}


def test_the_episodes_of_two_agents_replay(duel: Callable[..., Any], tmp_path: Path) -> None:
    train(duel(tmp_path, "steps=1"), QUIET)
    assert replay(tmp_path, Duel()).ok
    assert not replay(tmp_path, Duel(turns=3)).ok


def test_both_agents_may_be_trained(duel: Callable[..., Any], tmp_path: Path) -> None:
    train(duel(tmp_path, "steps=1", policies={}), QUIET)
    (line,) = told(tmp_path)
    assert line["batch/turns"] == sum(len(t.turns) for g in load_groups(step_path(tmp_path, 1)) for t in g.trajectories)


def test_a_run_of_two_agents_that_was_cut_off_resumes_bit_for_bit(duel: Callable[..., Any], tmp_path: Path) -> None:
    train(duel(tmp_path / "whole"), QUIET)
    train(duel(tmp_path / "cut", "steps=1"), QUIET)
    train(duel(tmp_path / "cut"), QUIET)
    assert told(tmp_path / "cut") == told(tmp_path / "whole")


def test_episodes_of_two_agents_are_forked(duel: Callable[..., Any], tmp_path: Path) -> None:
    run = duel(tmp_path, "algo=carl", "algo.num_fresh=2", "algo.num_forks=3", "algo.num_prompts=1", "steps=1")
    train(run, QUIET)
    (group,) = load_groups(step_path(tmp_path, 1))
    assert sum(one.fork is not None for one in group.trajectories) == 3
    assert replay(tmp_path, Duel()).ok


@pytest.mark.parametrize("name", ["green", "agent"])
def test_a_policy_of_an_agent_that_is_not_there_is_refused(duel: Callable[..., Any], tmp_path: Path, name: str) -> None:
    with raises_naming(MistakeError, f"policies.{name}:", "blue, red"):
        duel(tmp_path, policies={name: Frozen()})


def test_a_training_of_nobody_is_refused(duel: Callable[..., Any], tmp_path: Path) -> None:
    with raises_naming(MistakeError, "policies:"):
        duel(tmp_path, policies={"red": Frozen(), "blue": Frozen()})


@pytest.mark.parametrize("policies", [{"red", "blue"}, {"green"}])
def test_a_warm_start_that_cannot_be_names_keys_that_exist(
    duel: Callable[..., Any], tmp_path: Path, policies: set[str]
) -> None:
    """A stage has the run's policies: there is no key `warm_start.policies`."""
    run = duel(tmp_path, "steps=0", policies={})
    stage = {"algo": {}, "steps": 1, "seed": 0}
    run = replace(run, config={**run.config, "warm_start": {**stage, "before": stage}})
    before = WarmStart(algo=run.algo, steps=1)
    for warm in (before, replace(before, before=before)):
        with pytest.raises(ValueError, match=r"^policies") as caught:
            only_stage(run, warm, policies)
        assert str(caught.value).count("warm start") == 1


def only_stage(run: Any, warm: Any, policies: set[str]) -> None:
    """Give a run whose own steps need no agent a warm start that does."""
    env = Duel() if policies == {"red", "blue"} else Renamed()
    replace(run, env=env, warm_start=replace(warm, env=Duel()), policies=dict.fromkeys(sorted(policies), Frozen()))


class Renamed(Duel):
    """The duel of two agents with other names."""

    agents = ("green", "yellow")


TOKEN = "open sesame"


@contextmanager
def serving(run: Any) -> Iterator[RolloutServer]:
    """`rlx serve` of a run's model, in a thread."""
    loaded = load_base(run.model, dtype=run.hardware.dtype, attention="sdpa")
    weights = dict(loaded.state_dict())
    engine = build_engine(run.hardware, run.model, loaded, weights, load_tokenizer(run.model))
    server = RolloutServer(engine, token=TOKEN)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        for connection in list(server.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


def said(folder: Path) -> list[Any]:
    groups = load_groups(step_path(folder, 1))
    return [(one.agent, one.completion.token_ids) for g in groups for t in g.trajectories for one in t.turns]


def test_an_agent_behind_a_server_says_what_the_same_weights_say_here(
    duel: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_SERVER_TOKEN", TOKEN)
    train(duel(tmp_path / "here", "steps=1"), QUIET)
    with serving(duel(tmp_path)) as server:
        train(duel(tmp_path / "there", "steps=1", policies={"blue": Served(address=server.address)}), QUIET)
    assert said(tmp_path / "there") == said(tmp_path / "here")


def test_a_policy_behind_a_server_is_evaluated_as_its_weights_are(
    small_run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_SERVER_TOKEN", TOKEN)
    run = small_run(tmp_path, "steps=0", without=("steps",))
    # one episode: log-probs depend by rounding on how many rows a server computes at once
    starts = [Start(task=task, sample=0) for task in islice(run.env.tasks("test", 0), 1)]
    here = build_policy(run, run.model).rollout(run.env, run.sampling, ("test",)).play(starts)
    with serving(run) as server:
        served = replace(run, policies={"agent": Served(address=server.address)})
        policy = build_policy(served, run.model)
        there = policy.rollout(run.env, run.sampling, ("test",)).play(starts)
        policy.engine.close()
    assert [one.turns for one in there] == [one.turns for one in here]


class Saying:
    """An engine that says `hi`, or fails where it is told to."""

    def __init__(self, fails: Collection[int] = ()) -> None:
        self.fails, self.queue, self.num = fails, [], 0  # type: ignore[var-annotated]

    def add(self, request: Request) -> None:
        self.queue.append((self.num, request))
        self.num += 1

    def step(self) -> list[tuple[Request, Completion | Failed]]:
        queue, self.queue = self.queue, []
        done = Completion(token_ids=tuple(b"hi\n"), logprobs=(0.0,) * 3, stop="stop")
        return [(request, Failed("it is gone") if num in self.fails else done) for num, request in queue]

    def release(self, session: int) -> None: ...
    def rest(self, keep: bool = True) -> None: ...


SPEECH = Speech(dialect=Direct(), encode=lambda text: list(text.encode()), decode=lambda ids: bytes(ids).decode())


def test_a_request_that_fails_ends_its_own_episode_alone() -> None:
    engine: Any = RoutedEngine(Saying(), {"blue": Saying(fails=[2])})  # type: ignore[arg-type]
    rollout = Rollout(env=Duel(), speech=SPEECH, engine=engine, sampling=Sampling(), others={"blue": SPEECH})
    played = rollout.play([Start(task=TASK, sample=sample) for sample in range(4)])
    assert [one.status for one in played] == ["done", "done", "error", "done"]
    assert "it is gone" in played[2].error
    assert [one.agent for one in played[2].turns] == ["red"]


def test_a_server_that_is_gone_fails_what_is_asked_of_it(
    duel: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every episode needs it, so the run ends by its share of errors, and says why."""
    monkeypatch.setenv("RLX_SERVER_TOKEN", TOKEN)
    with serving(duel(tmp_path)) as server:
        engine = RemoteEngine(link_all([server.address], TOKEN), may_be_gone=True)
    request = Request(session=0, stream=0, prompt_ids=(1,), sampling=Sampling(max_new_tokens=2))
    engine.add(request)
    finished: list[Any] = []
    while not finished:
        finished += engine.step()
    engine.add(replace(request, session=1))
    finished += engine.step()
    assert [(one.session, isinstance(answer, Failed)) for one, answer in finished] == [(0, True), (1, True)]
    engine.close()


class Babble(Duel):
    """The same, with an action whose words random play can draw."""

    actions: ClassVar = (Verb(name="say", description="say a word", argument="word"),)

    def random_argument(self, task: Task, name: str, seed: int) -> str:
        return "a" * (seed % 7)


def test_random_play_of_two_agents_measures_the_first() -> None:
    settings = Evaluate(num_tasks=2, num_samples=2, ks=(1,), max_new_tokens=4)
    env = Babble()
    found = floor(settings, env, agents=measured_agents(env, {}))
    other = floor(settings, env, agents=measured_agents(env, {"red": Frozen()}))
    assert found["random/reward"].value != 0
    assert found["random/reward"].value + other["random/reward"].value == pytest.approx(0.03)  # what all turns earn


def test_a_gym_environment_of_several_agents_is_refused() -> None:
    with raises_naming(MistakeError, "Duel", "several agents"):
        SpokenPart(Duel(), Direct())


class Mirrored(Duel):
    """The same, with an expert for both players, and a tool that may be lent."""

    max_rounds: ClassVar = None

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        for word in ("a", "bb", "ccc", "dd"):
            yield Move(thought="", action=Action(kind="answer", text=word))


def test_a_demonstration_names_its_agents_and_each_reads_its_own_observations() -> None:
    world = worlds_of(Mirrored(), SPEECH)[""]
    task = next(Mirrored().tasks("train", 0))
    shown = demonstrate_episode(world, task, 0)
    assert [one.agent for one in shown.turns] == ["red", "blue", "red", "blue"]
    prompts = [bytes(one.prompt_ids).decode() for one in shown.turns]
    assert "You are red." in prompts[2]
    assert "blue said 2" in prompts[2]
    assert "red said 1" not in prompts[2]


@dataclass(frozen=True)
class Mirror(Tool):
    verb: ClassVar = Verb(name="mirror", description="mirror", argument="text")

    def run(self, text: str, /) -> Result:
        return Result(output=text[::-1])


def test_an_agent_that_calls_a_lent_tool_acts_again() -> None:
    env = Lend(env=Duel(), tool=Mirror())
    with open_episode(env, TASK) as episode:
        steps = [episode.opening(), episode.step(Action(kind="call", name="mirror", text="ab"))]
        steps.append(episode.step(Action(kind="answer", text="a")))
    assert [lawful(env, step).next_agent for step in steps] == ["red", "red", "blue"]


def test_agents_with_equal_policies_share_an_engine(duel: Callable[..., Any], tmp_path: Path) -> None:
    run = duel(tmp_path, "steps=0", policies={"red": Frozen(), "blue": Frozen()})
    policy = build_policy(run, run.model)
    assert policy.engine.others["red"] is policy.engine.others["blue"]  # type: ignore[attr-defined]
    played = policy.rollout(run.env, run.sampling, ("test",)).play([Start(task=TASK, sample=0)])
    assert [one.agent for one in played[0].turns] == ["red", "blue"] * 2
    assert policy.engine.others["red"].tick == policy.engine.tick  # type: ignore[attr-defined]


def test_a_server_is_refused_where_several_processes_would_ask_it(duel: Callable[..., Any], tmp_path: Path) -> None:
    run = duel(tmp_path)
    two = replace(run.hardware, learner="deepspeed", num_processes=2)
    with raises_naming(ValueError, "hardware.num_processes=2", "policies.blue"):
        replace(run, hardware=two, policies={"blue": Served(address="localhost:1")})


def test_a_stored_evaluation_is_compared_by_the_agent_that_it_measured(
    duel: Callable[..., Any], tmp_path: Path
) -> None:
    summary = train(duel(tmp_path, "steps=1"), QUIET)
    assert read_summary(tmp_path / "summary.json").agents == {"": "red"}
    told = figures(scores_of(read_run(tmp_path), "eval-own"), ks=[1], noun="eval", num_resamples=10, seed=0)
    assert told["eval/reward"].value == pytest.approx(summary.metrics["eval/reward"].value)
    episodes = [
        one for group in load_groups(tmp_path / "trajectories" / "eval-own.jsonl") for one in group.trajectories
    ]
    assert sum(one.reward for one in episodes) / len(episodes) != pytest.approx(told["eval/reward"].value)
