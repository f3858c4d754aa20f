"""Change that some model families make to their logits after the output matrix: a cap, then a factor.

    y = scale * cap * tanh(z / cap)

transformers and vLLM do this inside the model's forward pass. Rows of added actions get the same treatment as those of
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.model.families import FAMILIES, UNLISTED, Family, language_config

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitShape:
    """Cap and factor of a model's logits."""

    scale: float = 1.0
    cap: float | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether logits stay as they are."""
        return self.cap is None and self.scale == 1.0

    def apply(self, logits: Tensor) -> Tensor:
        """Return the changed logits; the same tensor if nothing changes."""
        if self.cap is not None:
            logits = (logits / self.cap).tanh() * self.cap
        return logits if self.scale == 1.0 else logits * self.scale

    def slope(self, changed: Tensor) -> Tensor | float:
        """Return the derivative of `apply` where its result is `changed`."""
        if self.cap is None:
            return self.scale
        return self.scale * (1 - (changed / (self.scale * self.cap)) ** 2)

    def invert(self, changed: Tensor) -> Tensor:
        """Return the logits before `apply`. Values beyond the cap count as close to the cap."""
        logits = changed / self.scale
        if self.cap is None:
            return logits
        return (logits / self.cap).clamp(-NEAR_CAP, NEAR_CAP).atanh() * self.cap


NEAR_CAP = 0.999
"""Largest share of a cap that is inverted."""
PLAIN = LogitShape()


def family_of(config: Mapping[str, Any]) -> Family:
    """Return the family of a loaded model's config, which passed `find_family` before."""
    return FAMILIES.get(str(language_config(config).get("model_type")), UNLISTED)


def logit_shape(config: Mapping[str, Any]) -> LogitShape:
    """Return the change of logits that a config asks for."""
    text, family = language_config(config), family_of(config)
    scale, cap = 1.0, text.get(family.logit_cap) if family.logit_cap else None
    if family.logit_scale is not None:
        key, how = family.logit_scale
        factor = float(text.get(key) or 1.0)
        scale = factor if how == "multiply" else 1 / factor
    return LogitShape(scale=scale, cap=float(cap) if cap else None)
