"""Fit of output rows: an action becomes as likely as its description of several tokens d_1 ... d_n.

    log p(a | h) = w.h - log Z(h)   ~   log p(d_1 ... d_n | h) = W[d_1].h - log Z(h) + r(h)
    r(h) = sum over j > 1 of log p(d_j | h, d_1 ... d_{j-1})
    w = W[d_1] + delta,   delta = argmin over delta of  mean over i of (delta.h_i - r(h_i))^2 + RIDGE s |delta|^2

s is the mean square of a hidden state's components. The hidden states h_i are those of texts that the model itself
samples after training prompts, and of paths through an environment's buttons: of each, where the action may be chosen.
The condition is that of Yue et al. 2025, appendix D.1, which a row meets for one token exactly, and for several only
approximately: r is not linear in h. All is a function of the model, the prompts and the seed, in float64 from the
hidden states on.

A model that caps or scales its logits does so to all terms of the condition but r: the fit is of the logits before.

Shapes: B prompts, N places, H hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from rlx.model.ground import Ground
from rlx.model.logits import LogitShape, family_of, logit_shape

LENGTH = 24
"""Tokens of the model's own text after a prompt, at most."""
BATCH = 64
"""Prompts that are read side by side."""
RIDGE = 0.01


def fit_rows(
    model: Any, descriptions: Mapping[str, tuple[int, ...]], grounds: Sequence[Ground], seed: int
) -> dict[str, Tensor]:
    """Return a row for each description of several tokens, by the action's name."""
    rng = torch.Generator().manual_seed(seed)
    places = [place for part in parts(grounds) for place in read(model, descriptions, part, rng)]
    head_VH = model.get_output_embeddings().weight.detach()
    shape, rows = logit_shape(model.config.to_dict()), {}
    for name, ids in descriptions.items():
        action_places = [place for place in places if name in place.may] or places
        hidden_NH = torch.stack([place.hidden for place in action_places])
        rest_N = torch.tensor([place.rests[name] for place in action_places], dtype=torch.float64)
        first_H = head_VH[ids[0]].double()
        if not shape.is_plain:
            first_N = hidden_NH @ first_H.cpu()
            rest_N = shape.invert(shape.apply(first_N) + rest_N) - first_N
        rows[name] = (first_H + ridge(hidden_NH, rest_N)).to(head_VH.dtype)
    return rows


def ridge(hidden_NH: Tensor, rest_N: Tensor) -> Tensor:
    """The delta of the module's docstring, in closed form."""
    moments_HH = hidden_NH.T @ hidden_NH / len(hidden_NH)
    moments_HH += RIDGE * moments_HH.diagonal().mean() * torch.eye(len(moments_HH), dtype=moments_HH.dtype)
    return torch.linalg.solve(moments_HH, hidden_NH.T @ rest_N / len(hidden_NH))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A hidden state where actions may be chosen."""

    hidden: Tensor
    may: frozenset[str]
    rests: Mapping[str, float]
    """For each description the log-prob of all but its first token."""


def parts(grounds: Sequence[Ground]) -> Iterator[Sequence[Ground]]:
    """Yield prompts of like length together, so that little is padded."""
    ordered = sorted(grounds, key=lambda ground: len(ground.prompt))
    return (ordered[first : first + BATCH] for first in range(0, len(ordered), BATCH))


@torch.no_grad()
def read(
    model: Any, descriptions: Mapping[str, tuple[int, ...]], grounds: Sequence[Ground], rng: torch.Generator
) -> Iterator[Place]:
    """Yield the places of prompts that are read side by side, each with a text of the model's own and then its path."""
    ends = ending_ids(model)
    reader = Reader(model)
    hidden_BH = reader.begin([ground.prompt for ground in grounds])
    num_sampled = torch.randint(LENGTH + 1, (len(grounds),), generator=rng).tolist()
    ways = [Way(ground, num) for ground, num in zip(grounds, num_sampled)]
    while any(not way.is_over for way in ways):
        if any(way.may for way in ways):
            rests = {name: log_probs.tolist() for name, log_probs in rests_of(reader, descriptions).items()}
            hidden = hidden_BH.double().cpu()
            for row, way in enumerate(ways):
                if way.may:
                    yield Place(
                        hidden=hidden[row], may=way.may, rests={name: rests[name][row] for name in descriptions}
                    )
        drawn = draw(reader.logits(hidden_BH), rng)
        hidden_BH = reader.go_on([way.go_on(token, ends) for way, token in zip(ways, drawn)])


def draw(logits_BV: Tensor, rng: torch.Generator) -> list[int]:
    """Sample one id a row, at temperature 1, by the inverse of its cumulative probability."""
    cumulative_BV = logits_BV.softmax(-1).cumsum(-1).cpu()
    uniform_B = torch.rand(len(logits_BV), 1, generator=rng, dtype=torch.float64) * cumulative_BV[:, -1:]
    drawn = torch.searchsorted(cumulative_BV, uniform_B, right=True).clamp_max(logits_BV.shape[1] - 1)
    return [int(token_id) for token_id in drawn[:, 0]]


def rests_of(reader: Reader, descriptions: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return for each description, (B,), the log-prob of all but its first token; descriptions that begin alike are
    read together, and what the reader has read stays."""
    log_probs: dict[str, Tensor] = {}
    longer = {name: ids for name, ids in descriptions.items() if len(ids) > 1}
    for first, group in groupby(sorted(longer, key=lambda name: longer[name]), key=lambda name: longer[name][0]):
        names = list(group)
        before = reader.bookmark()
        logp_BV = reader.logits(reader.go_on([first] * reader.num_rows)).log_softmax(-1)
        deeper = rests_of(reader, {name: longer[name][1:] for name in names})
        reader.go_back(before)
        for name in names:
            log_probs[name] = logp_BV[:, longer[name][1]] + deeper.get(name, 0.0)
    return log_probs


def ending_ids(model: Any) -> Collection[int]:
    """Return the ids with which the model ends a text."""
    ends = model.generation_config.eos_token_id
    return () if ends is None else [ends] if isinstance(ends, int) else ends


@dataclass(slots=True)
class Way:
    """A prompt's text as it grows: the model's own tokens, then the ids of a path."""

    ground: Ground
    num_left: int
    """Tokens that the model itself may still add."""
    place: int = -1
    """Index of the path's id that was read last; -1 within the text."""

    @property
    def is_over(self) -> bool:
        return self.place >= len(self.ground.path)

    @property
    def may(self) -> frozenset[str]:
        """Actions that may be chosen here."""
        if self.place < 0:
            return self.ground.routes
        return next(iter(self.ground.choices[self.place + 1 : self.place + 2]), frozenset())

    def go_on(self, drawn: int, ends: Collection[int]) -> int:
        """Return the next id: the drawn one while the text goes on."""
        if self.place < 0 and self.num_left > 0 and drawn not in ends:
            self.num_left -= 1
            return drawn
        self.place += 1
        return 0 if self.is_over else self.ground.path[self.place]


@dataclass(slots=True)
class Reader:
    """A model that reads texts side by side, padded on their left, and can take its last id back."""

    model: Any
    mask: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.long))
    """Ones for ids and zeros for padding, (B, N)."""
    cache: Any = None
    shape: LogitShape = field(init=False)
    is_recurrent: bool = field(init=False)

    def __post_init__(self) -> None:
        config = self.model.config.to_dict()
        self.shape, self.is_recurrent = logit_shape(config), family_of(config).recurrent

    @property
    def num_rows(self) -> int:
        return len(self.mask)

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Return the hidden state after each prompt, (B, H)."""
        from transformers import DynamicCache

        longest = max(map(len, prompts))
        ids_BN = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        self.mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        self.cache = DynamicCache(config=self.model.config) if self.is_recurrent else DynamicCache()
        return self._read(ids_BN, (self.mask.cumsum(1) - 1).clamp_min(0))

    def go_on(self, ids: Sequence[int]) -> Tensor:
        """Return the hidden state after one more id of each text, (B, H)."""
        self.mask = torch.cat((self.mask, torch.ones(self.num_rows, 1, dtype=torch.long)), 1)
        return self._read(torch.tensor(ids)[:, None], self.mask.sum(1, keepdim=True) - 1)

    def bookmark(self) -> Any:
        """Return a copy of the cache where layers hold state, which cannot be cropped; None for other models."""
        return copy.deepcopy(self.cache) if self.is_recurrent else None

    def go_back(self, before: Any) -> None:
        """Forget the last id; `before` is the bookmark that was set before it."""
        self.mask = self.mask[:, :-1]
        if before is None:
            self.cache.crop(-1)
        else:
            self.cache = before

    def logits(self, hidden_BH: Tensor) -> Tensor:
        """Return the model's logits over its vocabulary."""
        return self.shape.apply((hidden_BH @ self.model.get_output_embeddings().weight.T).double())

    def _read(self, ids_BN: Tensor, positions_BN: Tensor) -> Tensor:
        device = self.model.get_output_embeddings().weight.device
        read = self.model.get_decoder()(
            input_ids=ids_BN.to(device),
            attention_mask=self.mask.to(device),
            position_ids=positions_BN.to(device),
            past_key_values=self.cache,
            use_cache=True,
        )
        hidden_BH: Tensor = read.last_hidden_state[:, -1]
        return hidden_BH
