"""A hardware profile: the resources of a run, and settings that change only speed and memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Literal

from rlx.base.limits import MANY, above, refuse, within

Device = Literal["cpu", "cuda"]
Dtype = Literal["float32", "bfloat16"]

GpuName = Literal[
    "a100", "h100", "h200", "gh200", "b200", "h20", "l40s", "l4", "a10", "a40", "a6000", "rtx5090", "rtx4090", "rtx3090"
]
"""GPUs with peak figures in rlx/plan/peaks.py."""

BYTES = {"float32": 4, "bfloat16": 2}
"""Bytes of one number of each dtype."""

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05}
"""Mean difference of log-probs that rounding explains between two computations of a token, by the coarser dtype."""

SPLIT_TEMPERATURES = (0.01, 2.0)
"""Range of temperatures, beside 0, at which vLLM samples exactly as the learner computes. vLLM raises lower
temperatures to 0.01."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One profile of `conf/hardware`."""

    num_nodes: int = 1
    """Machines the learner processes are spread over, evenly."""
    num_processes: int = 1
    """Learner processes on all machines together; each has one device of its own."""
    num_threads: int = 1
    """Threads of one process's matrix arithmetic; one is fastest for tiny models on a busy machine."""
    device: Device = "cpu"
    """Device: cpu or cuda."""
    node_gpus: int | None = None
    """GPUs of each machine; null: as many as the run needs."""
    node_cores: int | None = None
    """Processor cores of each machine; null: unknown."""
    node_memory_gb: float | None = None
    """Memory of each machine in GB, beside its GPUs; null: unknown."""
    memory_gb: float | None = None
    """Memory of one device in GB (on cpu: of one machine), for `rlx plan`; null asks this machine."""
    gpu: GpuName | None = None
    """GPU that `rlx plan` estimates time for: a100, h100, h200, gh200, b200, h20, l40s, l4, a10, a40, a6000,
    rtx5090, rtx4090 or rtx3090; null: this machine's. Of any other GPU rlx estimates memory and no time."""

    learner: Literal["torch", "deepspeed"] = "torch"
    """Learner: torch (one process) or deepspeed (one or many, with ZeRO)."""
    learner_dtype: Dtype = "float32"
    """Precision of the learner's forward and backward pass: float32 or bfloat16; its optimizer keeps float32."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """ZeRO stage: 1 shards optimizer state, 2 also gradients, 3 also weights; 0 nothing."""
    offload: bool = False
    """Keep the optimizer's state in the machine's memory instead of the device's."""
    recompute: bool = False
    """Recompute activations in the backward pass instead of keeping them: a third more arithmetic, far less memory."""
    micro_batch_tokens: int = 4096
    """Tokens of one forward and backward pass; memory depends on it, the update does not. A longer episode goes
    alone, and is recomputed."""

    engine: Literal["torch", "vllm"] = "torch"
    """Sampling engine: torch or vllm."""
    dtype: Dtype = "float32"
    """Precision of the engine's weights and caches: float32 or bfloat16; gap/engine shows the difference to the
    learner."""
    tensor_parallel: int = 1
    """Devices one engine is spread over (vllm)."""
    num_servers: int = 0
    """Engines in processes of their own, beside the learner's; 0: each learner process has its own engine."""
    engine_memory: float | None = None
    """Share of a device's memory that a vllm engine takes for weights and cache; null: chosen by what the episodes
    need and the learner leaves."""
    staleness: int = 0
    """Updates that rollouts may lag behind; above 0 the next step's rollouts run beside the update (needs servers)."""
    importance_cap: float | None = None
    """Upper bound of a token's importance weight, min(learner's probability / engine's, cap). It corrects for stale
    policies and for an engine with other arithmetic; null: no weights."""
    num_slots: int = 64
    """Completions that are decoded at the same time by one engine."""
    num_live: int = 80
    """Episodes under way at the same time: more than slots, so that these stay full while tools run."""
    num_tool_workers: int = 2
    """Cores for environments and tools beside each process on a GPU; threads are as many as episodes wait."""
    tool_ticks: int = 1
    """Decoding ticks after which an observation is admitted (fixed: schedules never depend on the clock): about as
    many as a slow tool takes, for one that is later holds decoding up."""
    step_minutes: float = 60.0
    """Minutes that a step may take. A longer step counts as hanging: the run names the slowest process and stops."""

    def __post_init__(self) -> None:
        self.check_numbers()
        if self.num_processes % self.num_nodes:
            raise ValueError(f"num_processes={self.num_processes} cannot be spread over num_nodes={self.num_nodes}")
        if self.learner == "torch" and (self.num_processes > 1 or self.zero_stage or self.offload):
            raise ValueError("num_processes, zero_stage and offload need learner=deepspeed")
        if self.staleness and not self.num_servers:
            raise ValueError(f"staleness={self.staleness} needs num_servers of 1 or more: engines beside the learner")
        if self.is_split and (self.engine != "vllm" or self.device != "cuda"):
            raise ValueError(f"tensor_parallel={self.tensor_parallel} needs engine=vllm and device=cuda")
        if self.is_split and self.num_processes > 1 and not self.num_servers:
            raise ValueError(
                f"tensor_parallel={self.tensor_parallel} beside {self.num_processes} learner processes needs "
                "num_servers of 1 or more: engines with devices of their own"
            )
        self.check_machine()

    def check_machine(self) -> None:
        """Refuse more GPUs or cores than each machine has."""
        need, have = self.devices_per_node, self.node_gpus
        if self.device == "cuda" and have is not None and need > have:
            used = f"{self.processes_per_node} for learner processes"
            used += f" and {need - self.processes_per_node} for engines" if need > self.processes_per_node else ""
            refuse(
                "node_gpus",
                have,
                f"at least {need}, as a machine needs {used}: fewer num_processes, num_servers or a smaller "
                f"tensor_parallel, or more num_nodes (num_processes={self.num_processes}, "
                f"num_servers={self.num_servers}, tensor_parallel={self.tensor_parallel})",
            )
        cores = self.cpus_per_task * self.processes_per_node
        if self.node_cores is not None and cores > self.node_cores:
            refuse(
                "node_cores",
                self.node_cores,
                f"at least {cores}, as each of {self.processes_per_node} processes of a machine takes "
                f"{self.cpus_per_task}: a smaller num_threads or num_tool_workers",
            )

    def check_numbers(self) -> None:
        """Check the range of each number."""
        within(1, MANY, num_nodes=self.num_nodes, num_processes=self.num_processes)
        within(1, 1024, num_threads=self.num_threads, num_tool_workers=self.num_tool_workers)
        within(1, MANY, tensor_parallel=self.tensor_parallel, tool_ticks=self.tool_ticks)
        within(1, 1024, node_gpus=self.node_gpus)
        within(1, MANY, node_cores=self.node_cores)
        above(0, MANY, node_memory_gb=self.node_memory_gb)
        within(1, MANY, num_slots=self.num_slots, num_live=self.num_live)
        within(0, MANY, num_servers=self.num_servers, staleness=self.staleness)
        within(1, 10**9, micro_batch_tokens=self.micro_batch_tokens)
        above(0, 1, engine_memory=self.engine_memory)
        above(0, memory_gb=self.memory_gb, importance_cap=self.importance_cap)
        above(0, MANY, step_minutes=self.step_minutes)

    def players(self, size: int) -> list[int]:
        """Return those of `size` processes that play: all, or one for each server where there are fewer servers."""
        num = min(size, self.num_servers) if self.num_servers else size
        return [index * size // num for index in range(num)]

    def node_of(self, server: int, size: int) -> int:
        """Return the machine of a server, where the process runs that plays with it."""
        players = self.players(size)
        return players[server % len(players)] // max(size // self.num_nodes, 1)

    @property
    def is_split(self) -> bool:
        """Flag: each engine uses several devices. vLLM's own processes then sample, by vLLM's rules."""
        return self.tensor_parallel > 1

    @property
    def loaded_dtype(self) -> Dtype:
        """Return the precision in which a learner loads the weights. DeepSpeed loads those of its forward pass; the
        torch learner loads the stored float32."""
        return self.learner_dtype if self.learner == "deepspeed" else "float32"

    @property
    def tolerance(self) -> float:
        """Bound of the mean difference of log-probs between engine and learner."""
        return max(TOLERANCE[self.dtype], TOLERANCE[self.learner_dtype])

    @property
    def engine_share(self) -> float:
        """Return the engine's share of a device. The default, before a share is chosen, suits most models."""
        if self.engine_memory is not None:
            return self.engine_memory
        return 0.9 if self.num_servers else 0.4

    @property
    def num_engines(self) -> int:
        """Count the engines: the servers, or one in each learner process."""
        return self.num_servers or max(1, self.num_processes // self.tensor_parallel)

    @property
    def num_devices(self) -> int:
        """Count the devices of learner processes, of servers, and of an engine beside the learner."""
        return max(self.num_processes + self.num_servers * self.tensor_parallel, self.tensor_parallel)

    @property
    def processes_per_node(self) -> int:
        """Count the learner processes of each machine."""
        return self.num_processes // self.num_nodes

    @property
    def devices_per_node(self) -> int:
        """Count the devices of learner processes and servers on the machine that has most of them."""
        servers = Counter(self.node_of(server, self.num_processes) for server in range(self.num_servers))
        most = max(servers.values(), default=0)
        return max(self.processes_per_node + most * self.tensor_parallel, self.tensor_parallel)

    @property
    def cpus_per_task(self) -> int:
        """Count the cores of one learner process: its threads, its share of the servers' threads, and on GPUs its
        tools'."""
        servers = -(-self.num_servers * self.num_threads // self.num_processes)
        return self.num_threads + servers + (self.num_tool_workers if self.device == "cuda" else 0)

    @property
    def effective_zero_stage(self) -> int:
        """Return the stage that DeepSpeed runs. bfloat16 below stage 2 runs as stage 2, with the same numbers:
        DeepSpeed's other stages keep no float32 gradients."""
        is_low = self.learner == "deepspeed" and self.learner_dtype != "float32"
        return max(self.zero_stage, 2) if is_low else self.zero_stage


SEGMENTS = "expandable_segments:True"
"""Setting of torch's GPU allocator."""

KERNELS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Number of compiled products that oneDNN and torch's layer over it keep. torch compiles the few kernels of
FlexAttention in the process itself: its pool would start up to 32 processes beside every learner."""


def set_threads(num_threads: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Choose thread counts, passive waiting and memory settings. Call it before torch is imported.

    Spinning waits on a busy machine made one small product 145 times slower, hence OMP_WAIT_POLICY. On a GPU no two
    batches have one shape, which would fragment its memory, hence growing segments. vLLM turns them off around the
    memory that sleeps. On a CPU oneDNN compiles a kernel for each number of rows, and two micro-batches hardly share
    one. Kernels are useful within one pass only, and the default of 1,024 takes more than a gigabyte.
    """
    for name in THREAD_VARIABLES:
        environ[name] = str(num_threads)
    environ["OMP_WAIT_POLICY"] = "PASSIVE"
    if "PYTORCH_CUDA_ALLOC_CONF" not in environ:
        environ.setdefault("PYTORCH_ALLOC_CONF", SEGMENTS)
    for name, num in KERNELS.items():
        environ.setdefault(name, num)
    environ["KMP_BLOCKTIME"] = "0"
    environ["TOKENIZERS_PARALLELISM"] = "true" if num_threads > 1 else "false"
