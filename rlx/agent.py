"""What acts and what learns: one model, as a policy that samples from it and a learner that moves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from rlx.hardware import Hardware
from rlx.learner.torch import TorchLearner
from rlx.model.load import Model, decoder, encode_prompt, encode_text, load_model, load_tokenizer
from rlx.rollout.engine import Engine
from rlx.rollout.play import Rollout, Speech
from rlx.rollout.torch_engine import TorchEngine
from rlx.run import Run
from rlx.types import Dialect, Environment, Sampling

logging.disable_progress_bar()  # rlx draws its own


def nothing(*_: object) -> None:
    """Where there is nothing to do or to tell."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What acts: an engine and its speech."""

    engine: Engine
    speech: Speech
    hardware: Hardware

    def rollout(
        self,
        env: Environment,
        sampling: Sampling,
        stream: tuple[object, ...],
        *,
        prepare: Callable[[], None] = nothing,
        check: Callable[[], None] = nothing,
        progress: Callable[[int], None] = nothing,
    ) -> Rollout:
        """The policy in an environment, drawing its random numbers from `stream`."""
        return Rollout(
            env=env,
            speech=self.speech,
            engine=self.engine,
            sampling=sampling,
            stream=stream,
            num_live=self.hardware.num_live,
            num_workers=self.hardware.num_tool_workers,
            tool_ticks=self.hardware.tool_ticks,
            prepare=prepare,
            check=check,
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True)
class Agent:
    """What acts and learns."""

    policy: Policy
    learner: TorchLearner
    tokenizer: Any

    def sync(self) -> None:
        """Give the engine the learner's weights, if it has others."""
        if self.policy.engine.version != self.learner.num_updates:
            self.policy.engine.load(self.learner.weights(), self.learner.num_updates)

    def save(self, folder: Path) -> None:
        """A whole Hugging Face folder, with the learner's state beside the weights."""
        self.learner.save(folder)
        self.tokenizer.save_pretrained(folder)


def build_agent(run: Run, model: Model) -> Agent:
    """Load `model` once, and make of it what acts and what learns."""
    loaded: Any = load_model(model)
    learner = TorchLearner(
        loaded,
        optimizer=run.algo.optimizer,
        num_steps=run.steps,
        needs=run.algo.needs,
        micro_batch_tokens=run.hardware.micro_batch_tokens,
        temperature=run.sampling.temperature,
        device=run.hardware.device,
    )
    tokenizer = load_tokenizer(model)
    policy = policy_of(run, model, loaded, learner.weights(), tokenizer)
    return Agent(policy=policy, learner=learner, tokenizer=tokenizer)


def build_policy(run: Run, model: Model) -> Policy:
    """What only acts, for an evaluation."""
    loaded: Any = load_model(model)
    return policy_of(run, model, loaded, dict(loaded.state_dict()), load_tokenizer(model))


def policy_of(run: Run, model: Model, loaded: Any, weights: Any, tokenizer: Any) -> Policy:
    engine = TorchEngine(
        config=loaded.config,
        weights=weights,
        tokenizer=tokenizer,
        eos_ids=eos_ids(loaded),
        num_slots=run.hardware.num_slots,
        device=run.hardware.device,
        dtype=getattr(torch, run.hardware.dtype),
    )
    return Policy(engine=engine, speech=speech_of(run.protocol, model, tokenizer), hardware=run.hardware)


def eos_ids(loaded: Any) -> list[int]:
    """The ids that end a completion, by the model's own generation settings."""
    eos = loaded.generation_config.eos_token_id
    return [] if eos is None else [eos] if isinstance(eos, int) else list(eos)


def speech_of(dialect: Dialect, model: Model, tokenizer: Any) -> Speech:
    """The protocol spoken through this tokenizer."""
    return Speech(
        dialect=dialect,
        encode=partial(encode_text, tokenizer),
        decode=decoder(tokenizer),
        open=partial(encode_prompt, tokenizer, model),
    )
