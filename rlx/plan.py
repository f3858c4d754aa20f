"""What a run would do, before anything is loaded: memory, tokens, steps and the command."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlx.hardware import BYTES, Hardware
from rlx.model.shape import Shape, find_shape, linear_maps, num_parameters

Tree = Mapping[str, Any]

LOGIT_TOKENS = 1024
"""Tokens whose logits exist at the same time."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of a learner and engine in one process, at most."""

    weights: int
    engine_weights: int
    reference_weights: int
    gradients: int
    optimizer: int
    kv_cache: int
    activations: int

    @property
    def total(self) -> int:
        return sum(getattr(self, name) for name in self.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Of one stage: steps to come, and episodes and tokens at most."""

    steps: int
    episodes: int
    tokens: int


def describe_plan(tree: Tree, words: Sequence[str]) -> str:
    """The whole answer of `rlx plan`, as text."""
    parts = [yaml.safe_dump(json.loads(json.dumps(tree)), sort_keys=False, allow_unicode=True).rstrip(), ""]
    shape = find_shape(tree["model"])
    parts += (
        describe_memory(tree, shape) if shape else ["model    its config.json is not here yet: no estimate of memory"]
    )
    warm = tree["warm_start"]
    if warm["steps"]:
        parts.append(describe_load("warm start", estimate_load(tree, warm["algo"], warm["steps"])))
    parts.append(describe_load("run", estimate_load(tree, tree["algo"], tree["steps"])))
    return "\n".join([*parts, f"command  {command(tree, words)}"])


def describe_memory(tree: Tree, shape: Shape) -> list[str]:
    num, trained = num_parameters(shape), num_trained(tree["model"], shape)
    memory = estimate_memory(tree, shape)
    names = [name for name in memory.__dataclass_fields__ if getattr(memory, name)]
    rows = [f"         {name.replace('_', ' '):<18} {size(getattr(memory, name)):>10}" for name in names]
    have = machine_memory() if tree["hardware"]["device"] == "cpu" else None
    verdict = f", and this machine has {size(have)}" if have else ""
    verdict += ": it will NOT fit" if have and memory.total > have else ""
    return [
        f"model    {num:,} parameters, {trained:,} of them trained, {tree['hardware']['dtype']}",
        f"memory   {size(memory.total)} at most{verdict}",
        *rows,
    ]


def describe_load(name: str, load: Load) -> str:
    return f"{name + ':':<12} {load.steps:,} steps, {load.episodes:,} episodes, at most {load.tokens:,} tokens"


def estimate_memory(tree: Tree, shape: Shape) -> Memory:
    """Upper bounds: every slot full to the context's end, every activation kept for the backward pass.

    The learner is float32; the engine has the profile's dtype.
    """
    hardware, number, learned = tree["hardware"], BYTES[tree["hardware"]["dtype"]], BYTES["float32"]
    num, trained = num_parameters(shape), num_trained(tree["model"], shape)
    context = tree["sampling"]["max_context"]
    return Memory(
        weights=num * learned,
        engine_weights=num * number,
        reference_weights=num * learned if tree["algo"].get("kl") else 0,
        gradients=trained * learned,
        optimizer=2 * trained * learned,
        kv_cache=2 * shape.layers * shape.key_heads * shape.head_size * number * hardware["num_slots"] * context,
        activations=activation_bytes(shape, hardware["micro_batch_tokens"], learned),
    )


def activation_bytes(shape: Shape, tokens: int, number: int) -> int:
    """Per layer and token: 8 vectors of the residual width, queries to values, 4 of the feed-forward; logits."""
    heads = (2 * shape.heads + 2 * shape.key_heads) * shape.head_size
    layer = 8 * shape.width + heads + 4 * shape.feed_forward
    logits = 3 * 4 * min(tokens, LOGIT_TOKENS) * shape.vocabulary
    return tokens * shape.layers * layer * number + logits


def num_trained(model: Tree, shape: Shape) -> int:
    """All parameters, or those of the adapters: rank x (in + out) of every map that has one."""
    lora = model.get("lora")
    if not lora:
        return num_parameters(shape)
    maps = linear_maps(shape)
    return shape.layers * lora["rank"] * sum(sum(maps[name]) for name in lora["targets"] if name in maps)


def estimate_load(tree: Tree, algo: Tree, steps: int) -> Load:
    """Tokens of prompts, completions and observations: no episode has more than the context holds."""
    episodes = steps * algo.get("num_prompts", 1) * algo.get("num_samples", 1)
    return Load(steps=steps, episodes=episodes, tokens=episodes * tree["sampling"]["max_context"])


def command(tree: Tree, words: Sequence[str]) -> str:
    hardware = Hardware(**{key: value for key, value in tree["hardware"].items() if key != "_target_"})
    start = f"torchrun --nproc-per-node {hardware.num_processes} -m rlx" if hardware.num_processes > 1 else "rlx"
    return shlex.join([*start.split(), "train", *words])


def machine_memory() -> int | None:
    """Bytes of this machine's memory, or of the limit its container sets."""
    limit = Path("/sys/fs/cgroup/memory.max")
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        text = limit.read_text().strip() if limit.is_file() else "max"
    except (OSError, ValueError):
        return None
    return min(whole, int(text)) if text.isdigit() else whole


def size(num_bytes: int) -> str:
    """1.5 GB, 12.0 MB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes / 1000:,.1f} kB"
