"""GEM's environments (Liu et al. 2025, arXiv:2510.01051). An observation stands between its prefix and its suffix; the
last one stands alone. An episode that is both terminated and truncated counts as terminated."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import gem
from gem.envs.registration import ENV_REGISTRY


def tasks() -> Iterable[str]:
    return ENV_REGISTRY


def play(task: str, options: Mapping[str, Any], seed: int) -> Generator[dict[str, Any], str, None]:
    env = gem.make(task, **options)
    text, info = env.reset(seed)
    agent_text = yield {"text": around(text, info)}
    while True:
        text, reward, terminated, truncated, info = env.step(agent_text)
        done = bool(terminated or truncated)
        agent_text = yield {
            "text": text if done else around(text, info),
            "reward": float(reward),
            "done": done,
            "truncated": bool(truncated and not terminated),
        }


def around(text: str, info: Mapping[str, Any]) -> str:
    return "\n".join(part.rstrip("\n") for part in (info.get("prefix", ""), text, info.get("suffix", "")) if part)
