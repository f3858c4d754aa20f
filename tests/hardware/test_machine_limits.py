"""No run gets more GPUs, cores or memory than a machine of its profile has."""

from __future__ import annotations

import itertools
from pathlib import Path

from rlx.hardware.profile import Hardware
from rlx.run.fleet import devices_of
from rlx.settings.check import ConfigError
from rlx.settings.compose import build_run, compose
from rlx.settings.folders import list_options, read_option
from tests.errors import raises_naming


def profile(name: str) -> dict[str, object]:
    return {key: value for key, value in read_option("hardware", name).items() if key != "_target_"}


def test_every_gpu_profile_of_a_known_machine_states_what_it_has() -> None:
    for name in list_options("hardware"):
        hardware = Hardware(**profile(name))  # type: ignore[arg-type]
        if hardware.device == "cuda":
            assert hardware.node_gpus == hardware.devices_per_node or hardware.num_servers, name
        if hardware.gpu is not None:
            assert hardware.node_cores is not None, name
            assert hardware.node_memory_gb is not None, name


def test_no_choice_of_servers_needs_more_gpus_than_the_machine_has() -> None:
    accepted = refused = 0
    for name in list_options("hardware"):
        keys = profile(name)
        for parallel, servers in itertools.product((1, 2, 3, 4, 8), (0, 1, 2, 3, 4, 8)):
            more = {"tensor_parallel": parallel, "num_servers": servers, "staleness": 0}
            try:
                hardware = Hardware(**{**keys, **more})  # type: ignore[arg-type]
            except ValueError as error:
                refused += str(error).startswith(("node_gpus=", "node_cores="))
                continue
            accepted += 1
            if hardware.device != "cuda":
                continue
            assert hardware.node_gpus is not None, name
            used: dict[int, list[int]] = {node: [] for node in range(hardware.num_nodes)}
            each = hardware.processes_per_node
            for node in used.values():
                node += range(each if servers or parallel == 1 else parallel)
            for server in range(servers):
                devices = devices_of(hardware, hardware.num_processes, server)
                used[hardware.node_of(server, hardware.num_processes)] += devices
            for node in used.values():
                assert len(node) == len(set(node)), (name, more)
                assert max(node) < hardware.node_gpus, (name, more)
            assert hardware.devices_per_node == max(map(len, used.values())), (name, more)
            assert hardware.cpus_per_task * each <= (hardware.node_cores or 10**9)
    assert accepted > 50
    assert refused > 200


def test_a_plan_of_twenty_gpus_on_a_machine_of_eight_is_refused_in_one_line() -> None:
    words = ["hardware=a100x8_async", "hardware.tensor_parallel=4", "model=qwen2_5_32b_instruct", "+model/lora=r32"]
    with raises_naming(ConfigError, "hardware.node_gpus=8", "at least 20", "tensor_parallel=4"):
        build_run(compose(words), Path())
    run = build_run(compose([*words, "hardware.num_servers=1"]), Path())
    assert run.hardware.devices_per_node == run.hardware.node_gpus == 8


def test_cores_are_counted_for_all_processes_of_a_machine() -> None:
    keys = {"device": "cuda", "learner": "deepspeed", "num_processes": 4, "num_threads": 4, "num_tool_workers": 8}
    Hardware(**keys, node_cores=48)  # type: ignore[arg-type]
    with raises_naming(ValueError, "node_cores=47", "48"):
        Hardware(**keys, node_cores=47)  # type: ignore[arg-type]
