"""Build the policy and the learner of one model: an engine samples from the model, the learner updates its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.utils import logging

from rlx.environment import Environment
from rlx.hardware.profile import Hardware
from rlx.hardware.pulse import nothing
from rlx.hardware.ranks import ALONE, Ranks
from rlx.learner.learner import Learner
from rlx.learner.lora import base_of
from rlx.learner.torch import TorchLearner
from rlx.model.chat import end_of_turn, find_marks
from rlx.model.expand import actions_of
from rlx.model.load import Added, Model, encode_text, load_model, load_tokenizer, load_weights
from rlx.protocol.automaton import Automaton
from rlx.protocol.drawn import added_by, drawn_by, initial_by
from rlx.rollout.engine import Engine
from rlx.rollout.play import Rollout
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import link_all, token_here
from rlx.rollout.routed import RoutedEngine
from rlx.rollout.speech import Speech, speech_of
from rlx.rollout.torch.engine import TorchEngine
from rlx.rollout.vllm.engine import VllmEngine
from rlx.run.grounds import grounds_of
from rlx.run.policies import Other, Served, agent_of, distinct_policies, name_of
from rlx.run.run import Run
from rlx.runs.times import EpisodeTimes
from rlx.types import Sampling, Trajectory

if TYPE_CHECKING:
    from rlx.run.fleet import Fleet

logging.disable_progress_bar()  # rlx draws its own


@dataclass(frozen=True, kw_only=True)
class Policy:
    """An engine and its speech, which act."""

    engine: Engine
    speech: Speech
    hardware: Hardware
    others: Mapping[str, Speech] = field(default_factory=dict)
    """Speech of the agents that other policies play, by agent."""

    @property
    def trained_engine(self) -> Engine:
        """Engine that takes the run's weights."""
        return self.engine.trained_engine if isinstance(self.engine, RoutedEngine) else self.engine

    def close_others(self) -> None:
        """Let go of the policies that end with a stage."""
        if isinstance(self.engine, RoutedEngine):
            self.engine.close_others()

    def rollout(
        self,
        env: Environment,
        sampling: Sampling,
        stream: tuple[object, ...],
        *,
        max_rounds: int | None = None,
        prepare: Callable[[], None] = nothing,
        keep: bool = True,
        check: Callable[[], None] = nothing,
        progress: Callable[[Trajectory], None] = nothing,
        timed: Callable[[EpisodeTimes], None] = nothing,
    ) -> Rollout:
        """Return the player of the policy in an environment. `stream` keys its random numbers, and `max_rounds`
        overrides the limit of turns that the environment asks for."""
        return Rollout(
            env=env,
            speech=self.speech,
            engine=self.engine,
            others=self.others,
            sampling=sampling,
            stream=stream,
            max_rounds=max_rounds,
            num_live=self.hardware.num_live,
            tool_ticks=self.hardware.tool_ticks,
            prepare=prepare,
            keep=keep,
            check=check,
            progress=progress,
            timed=timed,
        )


@dataclass(frozen=True, kw_only=True)
class Trainee:
    """A model under training, as a policy that acts and a learner. Not an agent of an environment."""

    policy: Policy
    learner: Learner
    tokenizer: Any
    start: Model
    """The model that both began as, with rows for the actions that are `added`."""
    added: Added

    def sync(self) -> None:
        """Give the engine the learner's weights, if it has others."""
        if self.policy.engine.version != self.learner.num_updates:
            self.policy.engine.load(self.learner.weights(), self.learner.num_updates)

    def restore(self) -> None:
        """Give the engine back what it began with: a policy that is frozen acts as it did before an evaluation."""
        self.begin()
        self.policy.engine.rest()

    def begin(self, model: Model | None = None) -> None:
        """Give the engine the weights it began with, or those of another `model` of the same shape."""
        self.policy.engine.load(load_weights(model or self.start, self.policy.hardware.dtype, self.added), 0)

    def sync_later(self) -> Callable[[], None]:
        """Copy the weights as they are now; return a function for any thread that gives them to the engine."""
        return self.policy.engine.later(self.learner.weights(), self.learner.num_updates)  # type: ignore[attr-defined]

    def save(self, folder: Path | None, progress: Callable[[], None] = nothing) -> None:
        """Write a Hugging Face folder with the learner's state. Ranks without a folder send their part."""
        self.learner.save(folder, progress)
        if folder is not None:
            self.tokenizer.save_pretrained(folder)


def build_trainee(
    run: Run, model: Model, ranks: Ranks = ALONE, fleet: Fleet | None = None, engine: Engine | None = None
) -> Trainee:
    """Load `model` once, and make of it what acts and what learns; `engine`, of the stage before, takes its weights."""
    tokenizer = load_tokenizer(model)
    added = added_in(run, tokenizer)
    loaded: Any = load_model(model, dtype=run.hardware.loaded_dtype, added=added, seed=run.seed)
    speech = speech_in(run, model, loaded, tokenizer)
    learner = learner_of(run, loaded, ranks, speech.drawn.automaton)
    policy = policy_of(run, model, loaded, learner.weights(), tokenizer, speech, fleet, engine)
    policy.engine.rest(keep=run.algo.frozen_policy)
    return Trainee(policy=policy, learner=learner, tokenizer=tokenizer, start=model, added=added)


def added_in(run: Run, tokenizer: Any) -> Added:
    """Return what the run's protocols add to a model."""
    descriptions = {name: tuple(encode_text(tokenizer, text)) for name, text in added_by(run.dialects).items()}
    used = {token_id for ids in descriptions.values() for token_id in ids}
    return Added(
        descriptions=descriptions,
        blanks=frozenset(token_id for token_id in used if tokenizer.decode([token_id]).isspace()),
        initial=initial_by(run.dialects),
        grounds=partial(grounds_of, run, tokenizer, descriptions),
        seed=run.seed,
    )


def speech_in(run: Run, model: Model, loaded: Any, tokenizer: Any) -> Speech:
    """Return the model's speech, and what may be chosen, in the run's environments."""
    drawn = drawn_by(run.dialects, actions_of(base_of(loaded)), partial(encode_text, tokenizer))
    return speech_of(run.protocol, tokenizer, chat=model.chat, drawn=drawn, eos_ids=eos_ids(loaded))


def learner_of(run: Run, loaded: Any, ranks: Ranks, automaton: Automaton | None) -> Learner:
    """Build the learner of the run's hardware."""
    hardware = run.hardware
    common: dict[str, Any] = {
        "optimizer": run.algo.optimizer,
        "num_steps": run.steps,
        "needs": run.algo.needs,
        "critic": run.algo.critic,
        "temperature": run.sampling.temperature,
        "automaton": automaton,
    }
    if hardware.learner == "deepspeed":
        from rlx.learner.deepspeed import DeepSpeedLearner

        return DeepSpeedLearner(loaded, hardware=hardware, ranks=ranks, **common)
    return TorchLearner(
        loaded,
        micro_batch_tokens=hardware.micro_batch_tokens,
        gap_cap=hardware.importance_cap,
        device=hardware.device,
        dtype=getattr(torch, hardware.learner_dtype),
        recompute=hardware.recompute,
        **common,
    )


def build_policy(run: Run, model: Model, fleet: Fleet | None = None) -> Policy:
    """Build a policy without a learner, for an evaluation. A server's needs no weights here."""
    policy = run.policies.get(name_of(""))
    if isinstance(policy, Served):
        engine, speech = start_served(run, policy)
        return Policy(engine=engine, speech=speech, hardware=run.hardware)
    tokenizer = load_tokenizer(model)
    added = added_in(run, tokenizer)
    loaded: Any = load_model(model, dtype=run.hardware.dtype, added=added)
    speech = speech_in(run, model, loaded, tokenizer)
    return policy_of(run, model, loaded, dict(loaded.state_dict()), tokenizer, speech, fleet)


def policy_of(
    run: Run,
    model: Model,
    loaded: Any,
    weights: Mapping[str, Tensor],
    tokenizer: Any,
    speech: Speech,
    fleet: Fleet | None = None,
    engine: Engine | None = None,
) -> Policy:
    """Build a policy: an engine of this process, one that is there already, or that of the run's servers."""
    automaton = speech.drawn.automaton
    engine = engine if fleet is None else fleet.engine()
    if engine is None:
        engine = build_engine(run.hardware, model, loaded, weights, tokenizer, automaton)
    else:
        engine.use(automaton)
        engine.load(weights, 0)
    others = others_of(run, model, loaded, weights, tokenizer, speech)
    engines = {agent: engine for agent, (engine, _) in others.items()}
    return Policy(
        engine=RoutedEngine(engine, engines) if engines else engine,
        speech=speech,
        hardware=run.hardware,
        others={agent: spoken for agent, (_, spoken) in others.items()},
    )


def others_of(
    run: Run, model: Model, loaded: Any, weights: Mapping[str, Tensor], tokenizer: Any, speech: Speech
) -> dict[str, tuple[Engine, Speech]]:
    """Build the policies that the run does not train, by agent. Agents with equal policies share an engine: an engine
    is as large as a model, and a server has one caller."""

    def build(policy: Other) -> tuple[Engine, Speech]:
        if isinstance(policy, Served):
            return start_served(run, policy)
        if policy.model is not None:
            return start_frozen(run, policy.model)
        return build_engine(run.hardware, model, loaded, weights, tokenizer, speech.drawn.automaton), speech

    kinds = distinct_policies(run.policies)
    built = [build(policy) for policy in kinds]
    return {agent_of(name): built[kinds.index(policy)] for name, policy in run.policies.items()}


def start_frozen(run: Run, model: Model) -> tuple[Engine, Speech]:
    """Return the engine of another model, and its speech."""
    tokenizer = load_tokenizer(model)
    loaded: Any = load_model(model, dtype=run.hardware.dtype, added=added_in(run, tokenizer))
    speech = speech_in(run, model, loaded, tokenizer)
    weights = dict(loaded.state_dict())
    return build_engine(run.hardware, model, loaded, weights, tokenizer, speech.drawn.automaton), speech


def start_served(run: Run, policy: Served) -> tuple[Engine, Speech]:
    """Return the engine of a policy behind a server, and its speech."""
    model = policy.model or run.model
    links = link_all([policy.address or ""], token_here(), patience=policy.patience)
    return RemoteEngine(links, may_be_gone=True), speech_of(run.protocol, load_tokenizer(model), chat=model.chat)


def build_engine(
    hardware: Hardware,
    model: Model,
    loaded: Any,
    weights: Mapping[str, Tensor],
    tokenizer: Any,
    automaton: Automaton | None = None,
) -> Engine:
    """Build the engine of a hardware profile in this process."""
    common: dict[str, Any] = {
        "config": loaded.config,
        "weights": weights,
        "tokenizer": tokenizer,
        "eos_ids": ending_ids(model, loaded, tokenizer),
        "num_slots": hardware.num_slots,
        "device": hardware.device,
        "dtype": getattr(torch, hardware.dtype),
        "automaton": automaton,
    }
    if hardware.engine == "torch":
        return TorchEngine(**common)
    return VllmEngine(
        **common,
        max_context=model.max_context,
        memory=hardware.engine_share,
        tensor_parallel=hardware.tensor_parallel,
        sleeps=hardware.num_servers == 0,
    )


def ending_ids(model: Model, loaded: Any, tokenizer: Any) -> list[int]:
    """Return the ids that end a completion: the model's ends of sequence, and the end of turn of its chat template,
    which a base model's settings need not name."""
    model_ids = eos_ids(loaded)
    end = end_of_turn(tokenizer, find_marks(tokenizer), model_ids) if model.chat else None
    return model_ids if end is None or end in model_ids else [*model_ids, end]


def eos_ids(loaded: Any) -> list[int]:
    """Return the ids that end a completion, by the model's generation settings."""
    eos = loaded.generation_config.eos_token_id
    return [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
