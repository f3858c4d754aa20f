"""Values that conf/ computes from other values: `${rate:…}`, `${discount:}`, `${extend:…}` and `${turn:…}`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf


def rate(value: float, *, _root_: DictConfig) -> float:
    """Return a recipe's learning rate, times its factor where the model has adapters."""
    factor = 1.0 if _root_.model.lora is None else _root_.model.recipe.lora_factor
    if not (isinstance(value, int | float) and isinstance(factor, int | float)):
        return value  # the check of the key that is wrong names it
    return float(f"{value * factor:.12g}")  # as one would write it: 1e-05, not 9.999999999999999e-06


def discount(*, _root_: DictConfig) -> float:
    """Return the environment's discount of a turn; 1 where it has none, or where the parts of a mixture differ."""
    values = set(discounts(OmegaConf.to_container(_root_.env, resolve=True)))
    return values.pop() if len(values) == 1 else 1.0


def discounts(env: Any) -> Iterator[float]:
    """Yield the discount of each environment in the tree: of a mixture's parts, and of what a wrapper holds."""
    if not isinstance(env, Mapping):
        return
    parts, inner = env.get("parts"), env.get("env")
    if isinstance(parts, Mapping):
        for part in parts.values():
            yield from discounts(part.get("env") if isinstance(part, Mapping) else None)
    elif isinstance(inner, Mapping):
        yield from discounts(inner)
    else:
        yield as_discount(env.get("discount", read_declared(str(env.get("_target_")))))


def read_declared(target: str) -> Any:
    """Return the discount that an environment's class declares; what is wrong with a target is said elsewhere."""
    module, _, name = target.rpartition(".")
    try:
        return getattr(getattr(importlib.import_module(module), name), "discount", 1.0)
    except Exception:
        return 1.0


def as_discount(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 1.0


def extend(times: int, steps: int, suited: int) -> int:
    """Return `times` for the recipe's own number of steps, and 0 for a number of the user's, which is exact."""
    return times if steps == suited else 0


def turn(tokens: int, max_context: int) -> int:
    """Return a recipe's tokens of a turn, or half of the context where the user's own context is shorter."""
    if not (isinstance(tokens, int) and isinstance(max_context, int)):
        return tokens  # the check of the key that is wrong names it
    return tokens if tokens < max_context else max_context // 2


def least(first: int, second: int) -> int:
    """Return the smaller: a paper's context, or that of a model which has less."""
    return min(first, second) if isinstance(first, int) and isinstance(second, int) else first


def register() -> None:
    """Make the resolvers known to OmegaConf."""
    OmegaConf.register_new_resolver("discount", discount, replace=True)
    OmegaConf.register_new_resolver("turn", turn, replace=True)
    OmegaConf.register_new_resolver("least", least, replace=True)
    OmegaConf.register_new_resolver("extend", extend, replace=True)
    OmegaConf.register_new_resolver("rate", rate, replace=True)
