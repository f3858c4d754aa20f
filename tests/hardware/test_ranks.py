"""Which process is which, and that what they say to each other arrives."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from rlx.hardware.profile import Hardware
from rlx.hardware.ranks import (
    ALONE,
    EXIT_RANK_LOST,
    Place,
    RanksError,
    check_place,
    device_index,
    find_place,
    join,
    meet,
    meeting_point,
    report_lost_process,
    report_network_error,
)
from tests.errors import raises_naming
from tests.loops import for_each


@for_each(
    "environ, place",
    [
        ({}, Place()),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Place(rank=3, size=8, local_rank=1)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6", "SLURM_LOCALID": "2"}, Place(rank=5, size=6, local_rank=2)),
        ({"RANK": "0", "WORLD_SIZE": "2"}, Place()),
        ({"RANK": "x", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}, Place()),
    ],
)
def test_a_process_knows_its_place_by_its_environment(environ: Mapping[str, str], place: Place) -> None:
    assert find_place(environ) == place


def test_a_batch_script_is_no_task_of_srun() -> None:
    environ = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert find_place(environ, slurm=False) == Place()


@pytest.mark.parametrize(
    ("size", "hardware", "remedies"),
    [
        (1, Hardware(num_processes=4, num_nodes=2, learner="deepspeed"), ["torchrun", "--nproc-per-node 2"]),
        (2, Hardware(), ["num_processes=2"]),
    ],
)
def test_another_number_of_processes_is_refused(size: int, hardware: Hardware, remedies: list[str]) -> None:
    with raises_naming(RanksError, f"hardware.num_processes={hardware.num_processes}", f"{size} started", *remedies):
        check_place(Place(size=size), hardware)


def test_processes_meet_where_they_are_told() -> None:
    told = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    assert meeting_point({**told, "RANK": "0"}) == told
    with raises_naming(RanksError, "rlx launch"):
        meeting_point({})


def test_processes_of_a_slurm_job_meet_on_its_first_node_at_a_port_no_client_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho n1\necho n2\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for job in (1, 19_999, 31_999, 123_456_789):
        found = meeting_point({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": str(job)})
        assert found["MASTER_ADDR"] == "n1"
        assert 20_000 <= int(found["MASTER_PORT"]) < 32_000


@pytest.mark.parametrize(("local_rank", "visible", "device"), [(0, 1, 0), (3, 1, 0), (3, 8, 3), (0, 8, 0)])
def test_a_process_takes_the_gpu_of_its_number_or_the_only_one_it_sees(
    local_rank: int, visible: int, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    environ = {"MASTER_ADDR": "here", "MASTER_PORT": "1", "LOCAL_RANK": str(local_rank)}
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "new_group", lambda **_: None)
    ranks = meet(Place(rank=local_rank, size=16, local_rank=local_rank), Hardware(device="cuda"))
    assert (chosen, ranks.local_rank, os.environ["LOCAL_RANK"]) == ([device], device, str(device))


def test_a_process_that_sees_some_gpus_but_not_its_own_says_so() -> None:
    with raises_naming(RanksError, "process 2", "2 GPUs"):
        device_index(2, 2)


def test_one_process_talks_to_itself() -> None:
    with join(Hardware()) as ranks:
        assert ranks == ALONE
    assert ALONE.gather({"a": [1]}) == [{"a": [1]}]
    assert ALONE.first(lambda: 3) == ALONE.most(3) == ALONE.broadcast(3) == 3
    assert ALONE.share([1, 2, 3]) == [1, 2, 3]


TALK = """
    import os, sys, torch
    from rlx.hardware.profile import Hardware
    from rlx.hardware.interrupt import InterruptedRunError
    from rlx.hardware.ranks import RanksError, join
    rank = int(os.environ["RANK"])

    def fail():
        raise ValueError("no room")

    with join(Hardware(num_processes=2, learner="deepspeed")) as ranks:
        assert ranks.gather({"rank": rank, "text": "é" * (1 + 5 * rank)}) == [
            {"rank": 0, "text": "é"}, {"rank": 1, "text": "éééééé"}
        ]
        assert ranks.broadcast(rank) == 0 and ranks.most(rank) == 1 and ranks.share([5, 6, 7]) == [[5, 7], [6]][rank]
        assert ranks.first(lambda: [rank]) == [0]
        assert ranks.add(torch.tensor([1.0, rank])).tolist() == [2.0, 1.0]
        try:
            ranks.first(fail)
        except ValueError:
            assert rank == 0
        except RanksError as error:
            assert rank == 1 and str(error) == "no room"
        if "--leave" in sys.argv:
            if rank == 0:
                os._exit(3)
            try:
                ranks.wait()
            except RanksError as error:
                print(error, error.exit_code)
                os._exit(0)
            os._exit(1)
"""


def start_two(script: Path, *words: str) -> list[subprocess.Popen[str]]:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, str(script), *words],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def test_two_processes_talk_and_notice_when_one_leaves(tmp_path: Path) -> None:
    script = tmp_path / "talk.py"
    script.write_text(textwrap.dedent(TALK))
    processes = start_two(script, "--leave")
    first, second = (process.communicate(timeout=600)[0] for process in processes)
    assert [process.returncode for process in processes] == [3, 0], first + second
    assert "rank 1 of 2 stops: another process of the run is gone (" in second
    assert second.strip().endswith(") 75")


def test_an_error_with_words_of_networks_is_not_another_process_that_is_gone() -> None:
    for text in ("the table is too small to store one request", "no socket in the wall", "bad connection", "timed out"):
        with pytest.raises(RuntimeError, match=text) as caught, report_lost_process(Place(rank=1, size=2)):
            raise RuntimeError(text)
        assert not isinstance(caught.value, RanksError)


@pytest.mark.parametrize(
    "text",
    [
        "Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        "[enforce fail at gloo/transport/tcp/device.cc:83] rv != -1. Unable to find address for: ib7",
        "[/gloo/transport/tcp/tcp.cc:77] connect: No route to host",
    ],
)
def test_a_wrong_network_interface_is_named_and_not_tried_again(text: str) -> None:
    place = Place(rank=1, size=2)
    with (
        raises_naming(RanksError, "GLOO_SOCKET_IFNAME") as caught,
        report_lost_process(place),
        report_network_error(place),
    ):
        raise RuntimeError(text)
    assert caught.value.exit_code != EXIT_RANK_LOST
    assert text[:60] in str(caught.value)


def test_a_process_that_dies_while_all_meet_is_gone() -> None:
    place, text = (
        Place(rank=1, size=2),
        "Gloo connectFullMesh failed with [pair.cc:534] Connection closed by peer [::1]",
    )
    with (
        raises_naming(RanksError, "rank 1 of 2", "is gone") as caught,
        report_lost_process(place),
        report_network_error(place),
    ):
        raise RuntimeError(text)
    assert caught.value.exit_code == EXIT_RANK_LOST
