"""A run, wholly described: what `rlx.training.train` needs, built by `rlx.settings` from the composed configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.base.limits import LARGEST_SEED, above, at_least, not_empty, refuse, within
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import dialect_of, parts_of, trained_parts
from rlx.hardware.profile import SPLIT_TEMPERATURES, Hardware
from rlx.model.recipe import MOST_DOUBLINGS
from rlx.protocol.drawn import Choosing
from rlx.run.policies import Frozen, Other, Served, check_policies, measured_agents, trained_agents
from rlx.types import Sampling

if TYPE_CHECKING:
    from rlx.algo.parts import Algorithm
    from rlx.evaluation.evaluate import Evaluate
    from rlx.model.load import Model
    from rlx.runs.track import Track


STEPS = 10**9
"""More than anyone takes."""
NOTHING_TO_ENTER = "the environment has no tools and no actions (env=lend env@env.env=NAME lends Python)"
COLDEST, HOTTEST = 0.01, 1000.0
"""Temperatures to train at: log-probs divided by a smaller one leave a float32, and by a larger one all are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """A stage before the run's own: `steps` updates with `algo`, cached by the content that determines it. Stages
    before it make a curriculum."""

    algo: Algorithm | None = None
    """Algorithm of the stage."""
    steps: int = 0
    """Updates of the stage."""
    seed: int = 0
    """Seed of the stage, so that runs with other seeds share one warm start."""
    extend: int = 0
    """Number of times that the stage's length may double. It doubles while the loss still falls and the policy fails
    on 32 training tasks: more than a fifth of its turns are invalid, or it earns nothing. 0: never."""
    env: Environment | None = None
    """Environment of the stage (+env@warm_start.env=countdown_hard); null: that of the next stage."""
    protocol: Dialect | None = None
    """Protocol of the stage (+protocol@warm_start.protocol=answer); null: that of the next stage."""
    sampling: Sampling | None = None
    """Sampling of the stage (+sampling@warm_start.sampling=long); null: that of the next stage."""
    before: WarmStart | None = None
    """Stage before this one (+warm_start@warm_start.before=tool_sft); null: the unchanged model."""

    def __post_init__(self) -> None:
        within(0, STEPS, steps=self.steps)
        within(0, MOST_DOUBLINGS, extend=self.extend)
        within(0, LARGEST_SEED, seed=self.seed)
        if self.steps and self.algo is None:
            raise ValueError(f"steps={self.steps} needs an algo: leave it out, or choose warm_start=sft")


STAGE_KEYS = frozenset(key.name for key in fields(WarmStart))
IN_STAGE = ", in the warm start"


def name_in_stage(message: str) -> str:
    """Return a stage's error with the key that the run's configuration has for it. A stage has the `policies`,
    `hardware` and `evaluate` of its run, which have no key below warm_start."""
    if message.startswith("warm_start."):
        return f"warm_start.before.{message.removeprefix('warm_start.')}"
    key = re.split(r"\W", message, maxsplit=1)[0]
    if key in STAGE_KEYS:
        return f"warm_start.{message}"
    return message if message.endswith(IN_STAGE) else message + IN_STAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """When a run saves itself, and how much of its past it keeps."""

    interval: int = 10
    """Steps between checkpoints; the last step always makes one."""
    minutes: float | None = None
    """A checkpoint also when the last is older than this; null: by steps alone."""
    keep: int = 2
    """Newest checkpoints kept."""
    trajectories_interval: int = 10
    """Steps between those whose trajectories are kept, step 1 always among them; 0 keeps only evaluation's."""
    accept: str = ""
    """State of code, packages and data to go on with, as the refusal of a resumed run names it; empty: that of the
    checkpoint."""

    def __post_init__(self) -> None:
        within(1, STEPS, interval=self.interval, keep=self.keep)
        within(0, STEPS, trajectories_interval=self.trajectories_interval)
        above(0, minutes=self.minutes)


def refuse_late(dialect: Dialect, key: str, longest: int) -> None:
    """Refuse a summary that has no room in the context that it sums up."""
    begins, tokens = dialect.summarise_at, dialect.summary_tokens
    if begins is not None and begins + tokens >= longest:
        limit = f"sampling.max_context={longest} less summary_tokens={tokens}"
        refuse(f"{key}.summarise_at", begins, f"an integer below {longest - tokens}, which is {limit}")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A choice of env x algo x model x hardware, built; `config` is the plain, resolved tree it was built from, `words`
    are those of a command line that chose it."""

    env: Environment
    protocol: Dialect
    algo: Algorithm
    model: Model
    hardware: Hardware
    sampling: Sampling
    """Sampling of training rollouts; evaluation has its own."""
    evaluate: Evaluate
    track: Track
    checkpoint: Checkpoint
    warm_start: WarmStart
    seed: int
    """Seed of every random stream."""
    steps: int
    """Updates of the run's own algorithm, after its warm start."""
    extend: int = 0
    """Largest number of extensions of a warm start, each of which doubles `steps` (rlx/run/warm_result.py)."""
    policies: Mapping[str, Other] = field(default_factory=dict)
    """Policies of agents that the run does not train (+policy@policies.AGENT=frozen); the run's own policy plays all
    others. `agent` is the agent of an environment with a single one."""
    max_error_share: float
    """Largest share of a step's episodes that may end in an error; more of them stop the run."""
    objective: str | tuple[str, ...] | None = None
    """Objective for a sweeper that optimises (`rlx train -m hydra/sweeper=optuna`): the name of a metric of evaluation
    or training, such as eval/reward or success/mean, or a list of names."""
    folder: Path
    config: Mapping[str, Any]
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        within(0, LARGEST_SEED, seed=self.seed)
        within(0, STEPS, steps=self.steps)
        within(0.0, 1.0, max_error_share=self.max_error_share)
        for name, env in parts_of(self.env).items():
            at_least(0, **{f"env.parts.{name}.env.max_rounds" if name else "env.max_rounds": env.max_rounds or 0})
        check_policies(self.env, self.policies, self.steps)
        self.check_engines()
        self.check_temperatures()
        self.check_context()
        if self.steps:
            self.check_space()
            self.check_entries()
            self.check_forks()
            self.check_watched()
            self.check_expert()
        self.before()

    def check_temperatures(self) -> None:
        """Refuse temperatures that the learner cannot train at or vLLM's own processes cannot sample at."""
        within(COLDEST, HOTTEST, **{"sampling.temperature": self.sampling.temperature})
        low, high = SPLIT_TEMPERATURES
        for key, value in (("sampling", self.sampling.temperature), ("evaluate", self.evaluate.temperature)):
            if self.hardware.is_split and value and not low <= value <= high:
                limit = f"0 or a number from {low:g} to {high:g} with hardware.tensor_parallel above 1"
                refuse(f"{key}.temperature", value, limit)

    def check_engines(self) -> None:
        """Refuse policies that cannot answer here: a second engine in a process with vLLM, and a server that several
        processes ask, or that has no rows for added actions."""
        if self.hardware.is_split and any(isinstance(dialect, Choosing) for dialect in self.dialects.values()):
            limit = "1 with a protocol that adds actions to the vocabulary, as another process samples"
            refuse("hardware.tensor_parallel", self.hardware.tensor_parallel, limit)
        for name, policy in self.policies.items():
            is_served = isinstance(policy, Served)
            if is_served and self.hardware.num_processes > 1:
                limit = f"1 with policies.{name}, as a server answers one process"
                refuse("hardware.num_processes", self.hardware.num_processes, limit)
            if is_served and any(isinstance(dialect, Choosing) for dialect in self.dialects.values()):
                fault = f"policies.{name}: a server has no rows for actions beyond the vocabulary"
                raise ValueError(f"{fault}: expected another protocol")
            if isinstance(policy, Frozen) and self.hardware.engine == "vllm":
                fault = f"policies.{name}: a process has one vLLM engine"
                raise ValueError(f"{fault}; start `rlx serve` and choose +policy@policies.{name}=served")

    @property
    def trained_agents(self) -> dict[str, tuple[str, ...]]:
        """Agents that the run's own policy plays, by `Task.env`."""
        return trained_agents(self.env, self.policies)

    @property
    def measured_agents(self) -> dict[str, tuple[str, ...]]:
        """Agent whose episodes an evaluation measures, by `Task.env`."""
        return measured_agents(self.env, self.policies)

    @property
    def is_served(self) -> bool:
        """Servers of others play some agent: equal configurations may have other weights there."""
        return any(isinstance(policy, Served) for policy in self.policies.values())

    def check_context(self) -> None:
        """Refuse a context that the model cannot hold, and a turn that the context cannot."""
        most, longest = self.model.max_context, self.sampling.max_context
        if longest > most:
            refuse("sampling.max_context", longest, f"an integer up to model.max_context={most}")
        for key, turn in (("sampling", self.sampling), ("evaluate", self.evaluate)):
            if turn.max_new_tokens >= longest:
                limit = f"an integer below sampling.max_context={longest}"
                refuse(f"{key}.max_new_tokens", turn.max_new_tokens, limit)
        for part, dialect in self.dialects.items():
            key = f"env.parts.{part}.protocol" if part else "protocol"
            refuse_late(dialect, key, longest)
            not_empty(**{f"{key}.stops": dialect.stops})

    def check_space(self) -> None:
        """Refuse an algorithm beyond the vocabulary where no protocol adds an action to it."""
        if self.algo.space != "expanded" or any(isinstance(dialect, Choosing) for dialect in self.dialects.values()):
            return
        has_any = any(env.tools or env.actions for env in parts_of(self.env).values())
        remedy = "protocol=expa beside it" if has_any else f"another algo, as {NOTHING_TO_ENTER}"
        if "space" in self.config["algo"]:
            refuse("algo.space", "expanded", remedy)
        raise ValueError(f"algo acts beyond the vocabulary, and no protocol adds an action: expected {remedy}")

    def check_entries(self) -> None:
        """Refuse an algorithm that forces entries where the protocol of a trained part has none."""
        if not self.algo.sample.forces:
            return
        for name, env in trained_parts(self.env).items():
            dialect = self.dialects[name]
            if dialect.entries:
                continue
            key = f"env.parts.{name}.protocol" if name else "protocol"
            has_any = bool(env.tools or env.actions)
            remedy = f"{key}=tags or {key}=expa" if has_any else f"another algo, as {NOTHING_TO_ENTER}"
            raise ValueError(f"algo forces a policy to enter a tool or an action: expected {remedy}")

    def check_forks(self) -> None:
        """Refuse an algorithm that forks episodes where an environment cannot repeat what was done in it."""
        for name, env in trained_parts(self.env).items() if self.algo.sample.num_forks else ():
            if not env.replayable:
                where = f"env.parts.{name}" if name else "env"
                fault = f"{where}: {type(env).__name__} does not replay, and algo forks its episodes"
                raise ValueError(f"{fault}: expected another env, or another algo")

    def check_watched(self) -> None:
        """Refuse an algorithm that asks for what the engine does not tell of ids that were not sampled."""
        if self.algo.sample.watches and self.hardware.engine == "vllm" and self.hardware.tensor_parallel > 1:
            fault = "algo asks for log-probs or entropies of ids that were not sampled"
            remedy = "1, another algo, or algo.uncertainty=surprise where it has that key"
            refuse("hardware.tensor_parallel", self.hardware.tensor_parallel, f"{remedy}, as {fault}")

    def check_expert(self) -> None:
        """Refuse an algorithm that imitates where the environment has no expert."""
        for name, env in trained_parts(self.env).items():
            if self.algo.imitates and not env.has_expert:
                imitated = f"its part {name}" if name else type(env).__name__
                fault = f"algo copies an expert, and env has none: {imitated} has no demonstrate"
                raise ValueError(f"{fault}; choose warm_start=none, or an algo that samples")

    @property
    def dialects(self) -> dict[str, Dialect]:
        """Protocol of each environment, by `Task.env`."""
        return {name: dialect_of(self.env, self.protocol, name) for name in parts_of(self.env)}

    def before(self) -> Run | None:
        """Return the warm start as a run; None where the run begins with the unchanged model."""
        warm = self.warm_start
        if warm.algo is None or not warm.steps:
            return None
        settings = self.config["warm_start"]
        parts = {part: settings[part] for part in ("env", "protocol", "sampling") if settings.get(part) is not None}
        first = {key: settings[key] for key in ("algo", "steps", "seed")}
        config = {**self.config, **parts, **first, "warm_start": settings.get("before") or {"algo": None}}
        try:
            return replace(
                self,
                algo=warm.algo,
                env=warm.env or self.env,
                protocol=warm.protocol or self.protocol,
                sampling=warm.sampling or self.sampling,
                hardware=replace(self.hardware, staleness=0),
                evaluate=replace(self.evaluate, interval=0, max_new_tokens=1),  # it is not evaluated
                steps=warm.steps,
                extend=warm.extend,
                seed=warm.seed,
                warm_start=warm.before or WarmStart(),
                config=config,
            )
        except ValueError as error:
            raise ValueError(name_in_stage(str(error))) from None

    def stages(self) -> list[Run]:
        """Its warm starts, the first one first, and the run."""
        before = self.before()
        return [*([] if before is None else before.stages()), self]
