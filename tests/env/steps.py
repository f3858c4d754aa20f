"""Steps of an episode, for tests of environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.environment import Episode
from rlx.types import Action, Step


def played(episode: Episode, actions: Iterable[Action]) -> Iterator[Step]:
    """Yield the steps up to the end."""
    for action in actions:
        step = episode.step(action)
        yield step
        if step.done:
            return
