"""TextArena's games of one player (Guertler et al. 2025, arXiv:2504.11442): what is new to the player in each turn, and
the game's reward at its end, with the reason that it gives."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any

import textarena
from textarena.envs.registration import ENV_REGISTRY

RAW = "-raw"
"""End of the name of a game whose observations are single messages."""

INVALID = -1.0
"""The package's own reward of an invalid move that ends a game."""


def tasks() -> Iterable[str]:
    return [name for name in ENV_REGISTRY if name + RAW in ENV_REGISTRY]


def play(task: str, options: Mapping[str, Any], seed: int) -> Generator[dict[str, Any], str, None]:
    env = textarena.make(task + RAW, **options)
    try:
        env.reset(num_players=1, seed=seed)
    except AssertionError as error:
        raise ValueError(f"only games of one player can be played: {error}") from None
    agent_text = yield {"text": news(env)}
    while True:
        done, _ = env.step(agent_text)
        if not done:
            agent_text = yield {"text": news(env)}
            continue
        rewards, game_info = env.close()
        agent_text = yield {"text": str(game_info[0].get("reason") or ""), "reward": reward_of(rewards), "done": True}


def reward_of(rewards: Mapping[int, Any] | None) -> float:
    """Some games give the reason of an invalid move where its reward should stand."""
    reward = (rewards or {}).get(0, 0)
    return INVALID if isinstance(reward, str) else float(reward)


def news(env: Any) -> str:
    """Return the messages of the game that the player has not seen yet."""
    _, messages = env.get_observation()
    return "\n".join(text for sender, text, _ in messages if sender == textarena.GAME_ID)
