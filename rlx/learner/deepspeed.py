"""DeepSpeed: the learner's weights, gradients and optimizer state spread over processes (ZeRO stages 0 to 3).

Rajbhandari et al. 2020, https://arxiv.org/abs/1910.02054

Losses are shares of one whole, so gradients add up over ranks; DeepSpeed averages them, hence the factor `size`.
Checkpoints are not DeepSpeed's, which are pickles for one layout, but the torch learner's: parameters are gathered one
at a time, so a run goes on with any learner, stage or number of processes.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from transformers import PreTrainedModel

from rlx.algo.parts import Columns, Critic, Need, Optimizer
from rlx.hardware.profile import Hardware
from rlx.hardware.pulse import nothing
from rlx.hardware.ranks import ALONE, PATIENCE, Ranks, part
from rlx.learner.learner import Learner, check_settings
from rlx.learner.lora import Weights, base_of, is_adapted
from rlx.learner.optimizer import build_adam
from rlx.learner.packing import Packed
from rlx.learner.scorer import Kind, Scorer, frozen_copy
from rlx.learner.state import (
    Tensors,
    read_progress,
    saved_model,
    with_progress,
    write_model,
    write_progress,
    write_state,
)
from rlx.learner.zero import MOMENTS, base_optimizer, engine_config, flats, num_trained
from rlx.protocol.automaton import Automaton


class DeepSpeedLearner(Learner):
    """See rlx.learner.learner for what learning is."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        optimizer: Optimizer,
        num_steps: int,
        hardware: Hardware,
        ranks: Ranks = ALONE,
        needs: frozenset[Need] = frozenset(),
        critic: Critic | None = None,
        temperature: float = 1.0,
        automaton: Automaton | None = None,
    ) -> None:
        """`temperature` and `automaton` are those of sampling."""
        check_settings("DeepSpeedLearner", temperature)
        start_deepspeed(hardware, ranks)
        self.ranks = ranks
        self.dtype: torch.dtype = getattr(torch, hardware.learner_dtype)
        low = self.dtype != torch.float32
        self.stage = hardware.effective_zero_stage
        self.device = torch.device("cuda", ranks.local_rank) if hardware.device == "cuda" else torch.device("cpu")
        self.optimizer = optimizer
        self.num_steps = num_steps
        self.num_updates = 0
        self.micro_batch_tokens = hardware.micro_batch_tokens
        self.gap_cap = hardware.importance_cap
        self.scorer = Scorer(
            model,
            temperature=temperature,
            automaton=automaton,
            recompute=hardware.recompute,
            critic=critic is not None,
        )
        start = frozen_copy(self.scorer) if "reference" in needs and not is_adapted(model) else None
        config = engine_config(hardware, self.stage, low, optimizer.max_gradient_norm, num_trained(self.scorer))
        self.engine = self.wrap(self.scorer, config, build_adam(self.scorer.trained(), optimizer, critic))
        self.start = None if start is None else self.wrap_start(start, config)
        self.open_moments()

    def wrap(self, scorer: Scorer, config: dict[str, Any], adam: torch.optim.Optimizer | None) -> Any:
        """DeepSpeed's engine around a module; tables of angles and the like keep their precision."""
        import deepspeed

        buffers = {name: x.clone() for name, x in scorer.named_buffers()}
        if self.stage == 3:
            self.cut(scorer, config)
        engine, *_ = deepspeed.initialize(model=scorer, optimizer=adam, config=config, dist_init_required=False)
        for name, x in buffers.items():
            owner, _, last = name.rpartition(".")
            scorer.get_submodule(owner).register_buffer(last, x.to(self.device), persistent=False)
        if self.stage == 3:
            base = base_of(scorer.model)
            for p in (*base.get_output_embeddings().parameters(), *base.parameters(recurse=False)):
                deepspeed.zero.register_external_parameter(scorer, p)
        return engine

    def cut(self, scorer: Scorer, config: dict[str, Any]) -> None:
        """Leave each rank its share, one parameter at a time: DeepSpeed's engine moves a whole model to the device
        before it does so."""
        import deepspeed

        for p in scorer.parameters():
            p.data = p.data.to(self.dtype)
        deepspeed.zero.Init(module=scorer, config_dict_or_path=config, dtype=self.dtype)

    def wrap_start(self, start: Scorer, config: dict[str, Any]) -> Any:
        """The frozen copy: spread out too under ZeRO 3, else whole on each rank."""
        if self.stage == 3:
            return self.wrap(start, config, None)
        for p in start.parameters():
            p.data = p.data.to(self.device, self.dtype)
        for name, x in list(start.named_buffers()):
            owner, _, last = name.rpartition(".")
            start.get_submodule(owner).register_buffer(last, x.to(self.device), persistent=False)
        return start

    def score(self, packed: Packed, state_m: Tensor, kind: Kind = "policy") -> Columns:
        return self.engine(packed, state_m, kind)

    def score_start(self, packed: Packed, state_m: Tensor) -> Columns:
        assert self.start is not None
        return self.start(packed, state_m)

    def adam_groups(self) -> list[dict[str, Any]]:
        return self.engine.optimizer.param_groups

    def clear(self) -> None:
        self.engine.optimizer.zero_grad()

    def backward(self, value: Tensor, is_last: bool) -> None:
        self.engine.set_gradient_accumulation_boundary(is_last)
        self.engine.backward(value * self.ranks.size)

    def move(self) -> float:
        if self.stage == 0:
            norm = torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), self.optimizer.max_gradient_norm)
            if norm.isfinite():
                self.engine.step()
            return norm.item()
        self.engine.step()
        return float(self.engine.get_global_grad_norm())

    def weights(self) -> Weights:
        return Weights(self.model, self.gathered if self.stage == 3 else None)

    def gathered(self, params: list[Tensor], source: int | None = None) -> AbstractContextManager[None]:
        """These parameters, whole on every rank for as long as the block lasts; what rank `source` writes, all get."""
        import deepspeed

        return deepspeed.zero.GatheredParameters(params, modifier_rank=source)

    def full(self, p: Parameter, key: str | None = None) -> Tensor:
        """A trained parameter in float32, or one of its moments, whole."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        if self.stage == 0:
            return p.detach() if key is None else self.engine.optimizer.state[p][key]
        return safe_get_full_fp32_param(p) if key is None else safe_get_full_optimizer_state(p, key)

    def set_full(self, p: Parameter, value: Tensor, key: str | None = None) -> None:
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        value = value.to(self.device, torch.float32)
        if key is not None and self.stage == 0:
            self.engine.optimizer.state[p][key].copy_(value)
        elif key is not None:
            safe_set_full_optimizer_state(p, value, key)
        else:
            if self.stage:
                safe_set_full_fp32_param(p, value)
            with self.gathered([p], source=0), torch.no_grad():
                p.data.copy_(value)

    def save(self, folder: Path | None, progress: Callable[[], None] = nothing) -> None:
        """Rank 0 writes tensors as they come, and the others keep step with it."""
        weights, state = (with_progress(named, self.in_step(progress)) for named in (self.exported(), self.state()))
        if folder is None:
            for _ in chain(weights, state):
                pass
            return
        write_model(folder, base_of(self.model), ((name, x.detach().float().cpu()) for name, x in weights))
        write_state(folder, state)
        write_progress(folder, self.num_updates)

    def in_step(self, progress: Callable[[], None]) -> Callable[[], None]:
        """Wait for rank 0 to have written a tensor: here, where the pulse can tell who is waited for, and not in
        DeepSpeed's next gather."""

        def step() -> None:
            self.ranks.wait()
            progress()

        return step

    def exported(self) -> Iterator[tuple[str, Tensor]]:
        """The weights under Hugging Face names, as exactly as they are kept."""
        masters = {} if is_adapted(self.model) else dict(self.scorer.trained())
        weights = self.weights()
        for name in weights.distinct():
            yield name, self.full(masters[name]) if name in masters else weights[name]

    def state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors that a resume needs besides the weights."""
        adam = base_optimizer(self.engine)
        num_taken = next(state["step"] for state in adam.state.values())
        for name, p in self.scorer.trained():
            beside = self.scorer.beside(name)
            if beside is not None:
                yield beside, self.full(p)
            yield f"adam.{name}.step", num_taken.clone()
            for key in MOMENTS:
                yield f"adam.{name}.{key}", self.full(p, key)

    def load(self, folder: Path, progress: Callable[[], None] = nothing) -> None:
        state, saved = Tensors(folder.glob("learner*.safetensors")), saved_model(folder)
        steps = [state[name] for name in state if name.endswith(".step")]
        self.open_moments(float(steps[0]) if steps else 0.0)
        for name, p in self.scorer.trained():
            beside = self.scorer.beside(name)
            self.set_full(p, saved[name] if beside is None else state[beside])
            for key in MOMENTS if steps else ():
                self.set_full(p, state[f"adam.{name}.{key}"], key)
            progress()
        self.num_updates = read_progress(folder)

    def close(self) -> None:
        """Also take DeepSpeed's engines apart, so that the weights are freed and not only unreachable from here."""
        if self.start is not None and self.stage == 3:
            dismantle(self.start)
        dismantle(self.engine)
        super().close()

    def open_moments(self, num_taken: float = 0.0) -> None:
        """Adam's moments as before its first step, or room for those after `num_taken`. DeepSpeed would only find those
        of the first group of parameters if the first step made them."""
        adam, zero = base_optimizer(self.engine), self.engine.optimizer
        for flat in flats(zero, self.stage):
            moments = {key: torch.zeros_like(flat) for key in MOMENTS}
            adam.state[flat] = {"step": torch.tensor(num_taken, device=flat.device), **moments}
        if self.stage in (1, 2):
            zero._hp_optimizer_states_linked = False
            zero._lazy_init_hp_params_optimizer_state()


def start_deepspeed(hardware: Hardware, ranks: Ranks) -> None:
    """Import DeepSpeed for this device and initialize its process groups; a single process is a group of size 1."""
    os.environ["DS_ACCELERATOR"] = hardware.device
    os.environ.setdefault("LOCAL_RANK", str(ranks.local_rank))
    import deepspeed
    import torch.distributed as dist
    from deepspeed.utils import groups
    from torch._C._distributed_c10d import HashStore

    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")  # DeepSpeed's calls
    # On a GPU, DeepSpeed's barriers make torch warn that no `device_id` was given to init_process_group. The current
    # device is the right one: torch.cuda.set_device bound it to this rank before.
    warnings.filterwarnings("ignore", message=r"barrier\(\): using the device under current context")
    deepspeed.ops.__compatible_ops__ = {}  # else it runs a compiler to find its operators, and compiles one
    backend = "nccl" if hardware.device == "cuda" else "gloo"
    if not dist.is_initialized():
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=PATIENCE)
        atexit.register(part)
    deepspeed.init_distributed(backend, auto_mpi_discovery=False, verbose=False)
    if groups._WORLD_GROUP is None:
        groups._WORLD_GROUP = dist.new_group(timeout=PATIENCE)  # DeepSpeed's own would wait ten minutes


def dismantle(engine: Any) -> None:
    """Destroy one of DeepSpeed's engines and drop the references to its module that DeepSpeed keeps elsewhere."""
    engine.destroy()
    leave_stack(engine.module)
    clear_caches()


def leave_stack(module: torch.nn.Module) -> None:
    """Remove a module and its children from ZeRO 3's stack of modules in forward."""
    from deepspeed.runtime.zero import parameter_offload

    # DeepSpeedZeRoOffload puts the whole module on this list of the process and never takes it off. A forward that
    # raised leaves its children there too. Modules of other engines stay: DeepSpeed reads the last one in a forward.
    module_ids = {id(child) for child in module.modules()}
    stack = parameter_offload.FWD_MODULE_STACK
    stack[:] = [other for other in stack if id(other) not in module_ids]


def clear_caches() -> None:
    """Clear the caches of ZeRO 3's coordinator class."""
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

    # The method __params_to_release has an unlimited lru_cache, inside a decorator's closure. The cache belongs to the
    # class, and its keys hold the coordinator and modules of each engine. Entries of other engines are computed again.
    for method in vars(PartitionedParameterCoordinator).values():
        for cell in getattr(method, "__closure__", None) or ():
            if hasattr(cell.cell_contents, "cache_clear"):
                cell.cell_contents.cache_clear()
