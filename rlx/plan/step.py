"""Hold the estimate of a step: what it does (`Load`), how well (`Efficiency`), how long it takes (`StepTime`)."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.model.shape import Shape


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """Share of each peak that is reached, and costs that do not depend on size. The defaults are for GPUs."""

    update: float = 0.49
    """Share of the peak that products of a very wide model reach, with everything between."""
    attention: float = 0.42
    """Share of the peak that attention over long contexts reaches, both ways: fitted with `update` to eleven updates of
    prime-rl and rlx on H100 and H200, and what FlexAttention alone reached there (docs/performance.md)."""
    half_width: float = 600.0
    """Width of a model that reaches half of `update`."""
    prefill: float = 0.50
    decode: float = 0.60
    """Share of the memory's bandwidth."""
    links: float = 0.70
    tick: float = 0.005
    """Seconds of a decoding tick beside the model: schedule, launches."""
    row: float = 20e-6
    """Seconds of a tick for every row in it: sampling, log-probs, input and output."""
    layer: float = 0.0
    """Seconds of a layer in a decoding tick beside its arithmetic."""
    launch: float = 2e-3
    """Seconds of a layer in one pass over a micro-batch, whatever its size."""
    handover: float = 2.5
    """Seconds in which a vLLM engine falls asleep for the update and wakes after it."""
    host: float = 1.3e-6
    """Seconds of Python for every sampled token of a step, on every process."""
    hop: float = 20e-6
    """Seconds of one sum over the devices of an engine."""
    http: float = 1.0e9
    """Bytes a second of weights to one server."""

    def of_update(self, shape: Shape) -> float:
        """Return the share of the peak that updates of a model reach: narrow models have small products."""
        return self.update * shape.width / (shape.width + self.half_width)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Episodes of one step: their tokens, and how many share a prompt. With several agents, tokens and turns are those
    of one agent's own episode."""

    episodes: int = 256
    samples: int = 16
    prompt: int = 100
    sampled: int = 200
    observed: int = 50
    """Tokens of tools' answers, prefilled but not sampled."""
    turns: int = 1
    """Turns of an episode."""
    contexts: float = 1.0
    """Contexts of an episode: the first, and another for every turn that forgot. They share the episode's tokens."""
    longest: int = 0
    """Sampled tokens of the longest episode; 0: all are alike."""
    agents: float = 1.0
    """Agents of an episode, each with a context of its own."""
    learners: float = 1.0
    """Own episodes per episode that the update learns from."""
    reference: bool = False
    critic: bool = False
    plays: bool = True
    """A policy samples them; demonstrations cost no rollout."""
    epochs: int = 1
    """Passes of the update over them."""
    updates: int = 1
    """Optimizer steps of all passes together."""
    trained: int | None = None
    """Parameters of adapters, where these alone are trained: no gradient of the others is taken, sent or stepped."""

    @property
    def context(self) -> float:
        """Tokens that a sampled token sees, on average."""
        return self.prompt + (self.sampled + self.observed) / self.contexts / 2

    @property
    def context_end(self) -> int:
        """Tokens of a context at its end."""
        return round(self.prompt + (self.sampled + self.observed) / self.contexts)

    @property
    def learned_share(self) -> float:
        """Share of the episodes' tokens that the update learns from: those in the contexts of trained agents."""
        return self.learners / self.agents

    @property
    def tokens(self) -> float:
        """Tokens that an update passes over: a group's prompt stands once."""
        return self.episodes * self.learners * (self.prompt / self.samples + self.sampled + self.observed)


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of a step's parts, and of the whole as they overlap."""

    decode: float
    prefill: float
    compute: float
    messages: float
    optimizer: float
    sync: float
    overlaps: bool
    host: float = 0.0

    @property
    def rollout(self) -> float:
        return self.decode + self.prefill

    @property
    def update(self) -> float:
        return max(self.compute, self.messages) + self.optimizer + self.host

    @property
    def seconds(self) -> float:
        both = max(self.rollout, self.update) if self.overlaps else self.rollout + self.update
        return both + self.sync

    @property
    def limit(self) -> str:
        """Name of the largest part."""
        parts = {
            "decode": self.decode,
            "prefill": self.prefill,
            "update": self.compute,
            "messages": self.messages if self.messages > self.compute else 0.0,
            "optimizer": self.optimizer,
            "sync": self.sync,
            "host": self.host,
        }
        return max(parts, key=lambda name: parts[name])
