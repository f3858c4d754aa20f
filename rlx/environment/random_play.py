"""Random actions of an environment: tries, each in a fresh episode, or actions of a whole random episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from rlx.base.limits import MANY
from rlx.environment import Environment
from rlx.types import Action, Task


def tries_of(env: Environment, task: Task, num: int, seed: int) -> Iterator[Action]:
    """Yield random well-formed actions of an environment that has some; text alone is an answer."""
    for attempt in env.random_tries(task, num, seed):
        yield attempt if isinstance(attempt, Action) else Action(kind="answer", text=attempt)


def try_once(env: Environment, task: Task, seed: int) -> None:
    """Draw random actions of a task, as an evaluation's floor does, so that a fault shows."""
    if env.has_random_tries:
        list(tries_of(env, task, 1, seed))
    elif has_random_episodes(env):
        random_act(env, task, None, Random(seed))


def has_random_episodes(env: Environment) -> bool:
    """Tell whether random actions make an episode: the environment declares actions, each needs no argument or gets a
    random one, and a seed repeats what they do."""
    verbs = env.actions
    is_complete = env.has_random_argument or not any(verb.argument for verb in verbs)
    return bool(verbs) and is_complete and env.pace != "live"


def random_act(env: Environment, task: Task, legal: Sequence[str] | None, rng: Random) -> Action | None:
    """Return one of the legal declared actions, each with the same probability; None where no action is legal."""
    verbs = [verb for verb in env.actions if legal is None or verb.name in legal]
    if not verbs:
        return None
    verb = rng.choice(verbs)
    text = ""
    if verb.argument:
        text = env.random_argument(task, verb.name, rng.randrange(MANY))
    return Action(kind="answer", text=text) if verb.name == "answer" else Action(kind="act", name=verb.name, text=text)
