"""Servers as processes of their own: they play what this process would, die alone, and never outlive their run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.hardware.profile import Hardware
from rlx.hardware.ranks import Ranks
from rlx.learner.batch import collate
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import ServerError, link_all
from rlx.run.fleet import Fleet, devices_of, given_addresses, last_words, open_fleet, serve_command, servers_of
from rlx.run.trainee import Policy, Trainee, build_policy, build_trainee
from rlx.settings.compose import build_run, compose
from rlx.types import Group
from tests.errors import raises_naming
from tests.loops import for_each

Build = Callable[..., Any]
WORDS = ("hardware=cpu_async", "hardware.num_servers=2", "algo.num_samples=4")


def hardware(**fields: Any) -> Hardware:
    return Hardware(**{"learner": "deepspeed", "num_servers": 1} | fields)


@for_each(
    "fields, size, players, servers, devices",
    [
        ({"num_servers": 3}, 1, [0], [[0, 1, 2]], [[1], [2], [3]]),
        ({"num_processes": 4, "num_servers": 4}, 4, [0, 1, 2, 3], [[0], [1], [2], [3]], [[4], [5], [6], [7]]),
        (
            {
                "num_processes": 8,
                "num_nodes": 2,
                "num_servers": 2,
                "tensor_parallel": 4,
                "engine": "vllm",
                "device": "cuda",
            },
            8,
            [0, 4],
            [[0], [], [], [], [1], [], [], []],
            [[4, 5, 6, 7], [4, 5, 6, 7]],
        ),
        ({"num_processes": 2, "num_servers": 3}, 2, [0, 1], [[0, 2], [1]], [[2], [3], [4]]),
    ],
)
def test_every_server_has_one_process_and_devices_of_its_own(
    fields: dict[str, Any], size: int, players: list[int], servers: list[list[int]], devices: list[list[int]]
) -> None:
    profile = hardware(**fields)
    assert profile.players(size) == players
    assert [servers_of(profile, Ranks(rank=rank, size=size)) for rank in range(size)] == servers
    assert [devices_of(profile, size, server) for server in range(profile.num_servers)] == devices


def test_without_servers_all_play() -> None:
    assert hardware(num_servers=0).players(3) == [0, 1, 2]


def test_given_addresses_are_as_many_as_the_profile_has() -> None:
    assert given_addresses(2, {"RLX_SERVERS": "a.b:1, 127.0.0.1:65535,"}) == ["a.b:1", "127.0.0.1:65535"]
    assert given_addresses(2, {}) == []
    with raises_naming(ServerError, "1 servers", "hardware.num_servers=2"):
        given_addresses(2, {"RLX_SERVERS": "a:1"})
    with raises_naming(ServerError, "host:port"):
        given_addresses(1, {"RLX_SERVERS": "http://a\x1b/"})


def test_last_words_are_one_printable_line(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert last_words(log) == "nothing"
    log.write_bytes(b"a\n" * 9000 + b"\xff\x1b[31mfirst\n\nsecond\nthird\n")
    told = last_words(log)
    assert told.endswith("second | third")
    assert told.isprintable()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_run: Build) -> Any:
    return small_run(tmp_path_factory.mktemp("fleet"), *WORDS)


@pytest.fixture(scope="module")
def local(run: Any) -> Policy:
    return build_policy(run, run.model)


@pytest.fixture
def fleet(run: Any) -> Iterator[Fleet]:
    with open_fleet(run) as fleet:
        assert fleet is not None
        yield fleet


def play(run: Any, policy: Policy, **options: Any) -> list[Group]:
    rollout = policy.rollout(run.env, run.sampling, ("test",), **options)
    return rollout.sample(run.algo.sample, [task for task, _ in zip(run.env.tasks("train", 0), range(3))])


def said(groups: list[Group]) -> list[list[tuple]]:
    return [[turn.completion.token_ids for turn in t.turns] for group in groups for t in group.trajectories]


def test_processes_play_what_this_one_would_and_one_may_be_killed(run: Any, local: Policy, fleet: Fleet) -> None:
    agent: Trainee = build_trainee(run, run.model, fleet=fleet)
    engine = agent.policy.engine
    assert isinstance(engine, RemoteEngine)
    undisturbed = play(run, local)
    assert said(play(run, agent.policy)) == said(undisturbed)

    with torch.no_grad():
        for parameter in agent.learner.scorer.model.parameters():
            parameter.mul_(1.02)
    agent.learner.num_updates = 1
    agent.sync()
    moved = play(run, agent.policy)
    batch = collate(moved)
    assert said(moved) != said(undisturbed)
    assert {turn.completion.version for group in moved for t in group.trajectories for turn in t.turns} == {1}
    assert torch.allclose(agent.learner.measure(batch)["logp"], batch.engine_logp_M, atol=1e-4)

    doomed, tick = fleet.children[1].process, engine.tick

    def kill() -> None:
        if engine.tick == tick + 5:
            os.kill(doomed.pid, signal.SIGKILL)
            doomed.wait()

    assert said(play(run, agent.policy, check=kill)) == said(moved)
    assert engine.num_living == 1
    assert 0 < engine.num_moved <= 6

    with raises_naming(ServerError, "wrong secret"):
        RemoteEngine(link_all([fleet.children[0].address], "guess"))
    fleet.children[0].process.kill()
    with raises_naming(ServerError, "rollout server", "of nano"):
        play(run, agent.policy)


PARENT = """
import sys, time
from pathlib import Path
from rlx.settings.compose import build_run, compose
from rlx.run.fleet import open_fleet
run = build_run(compose(sys.argv[2:]), Path(sys.argv[1]))
with open_fleet(run) as fleet:
    for child in fleet.children:
        print(child.process.pid, flush=True)
    print(fleet.links()[0].address, flush=True)
    time.sleep(600)
"""


def test_servers_end_with_a_run_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path), "hardware=cpu_async"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    assert ":" in parent.stdout.readline()
    os.kill(server, signal.SIGTERM)
    os.kill(server, signal.SIGUSR2)
    assert is_running(server)
    parent.kill()
    parent.wait()
    for _ in range(600):
        if not is_running(server):
            return
        time.sleep(0.1)
    os.kill(server, signal.SIGKILL)
    pytest.fail("the server outlived its run")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_that_cannot_start_says_why(run: Any, tmp_path: Path, small_run: Build) -> None:
    broken = small_run(tmp_path, *WORDS, "hardware.num_servers=1", "model.path=/nowhere")
    with open_fleet(broken) as fleet:
        assert fleet is not None
        with raises_naming(ServerError, "server-0.log", "such folder"):
            fleet.links()


def serve(**environ: str) -> subprocess.Popen[str]:
    given = {**{k: v for k, v in os.environ.items() if k != "RLX_SERVER_TOKEN"}, **environ}
    command = [sys.executable, "-m", "rlx", "serve", "model=nano", "hardware=cpu"]
    return subprocess.Popen(command, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_server_started_by_hand_serves_until_it_is_told_to_stop(
    run: Any, local: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(RLX_SERVER_TOKEN="secret")
    assert server.stdout is not None
    monkeypatch.setenv("RLX_SERVERS", server.stdout.readline().strip())
    monkeypatch.setenv("RLX_SERVER_TOKEN", "secret")
    mine = replace(run, hardware=replace(run.hardware, num_servers=1))
    with open_fleet(mine) as fleet:
        assert said(play(mine, build_policy(mine, mine.model, fleet))) == said(play(run, local))
    server.terminate()
    _, told = server.communicate(timeout=600)
    assert server.returncode == 0
    assert "Traceback" not in told


def test_a_server_needs_a_secret() -> None:
    server = serve()
    _, told = server.communicate(timeout=600)
    assert server.returncode == 1
    assert told.splitlines()[-1].startswith("rlx: rollout servers need a secret: set RLX_SERVER_TOKEN")


def test_a_server_gets_the_share_that_the_run_has_chosen(tmp_path: Path) -> None:
    words = ["hardware=a100x8_async", "model=qwen2_5_7b", "algo=grpo", "warm_start=none"]
    run = build_run(compose(words), tmp_path)
    assert run.hardware.engine_memory is not None
    assert serve_command(run, tmp_path)[-1] == f"hardware.engine_memory={run.hardware.engine_memory}"
    plain = build_run(compose(["hardware=cpu_async"]), tmp_path)
    assert serve_command(plain, tmp_path)[-1] == f"run={tmp_path}"
