"""Figures of random play, which evaluations show beside a policy's as its floor.

    random_tries          an episode succeeds if any of `num_tries` random actions does, each in a fresh episode
    actions without them  whole episodes of random legal actions, under the evaluation's own limits of turns

The second floor has the figures of a policy that need no model: pass@k, reward, turns, and the environment's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from rlx.base.console import one_line
from rlx.base.fault import fault
from rlx.base.limits import MistakeError
from rlx.base.stream import stream_of
from rlx.environment import Environment
from rlx.environment.random_play import has_random_episodes, random_act, tries_of
from rlx.environment.world import give_luck, lawful, open_episode, part_of, parts_of, step_within
from rlx.evaluation.evaluate import Evaluate, evaluate, held_out, limits_of
from rlx.evaluation.figures import SPREAD, Score, name_figures, pass_ratios
from rlx.evaluation.passk import estimates
from rlx.rollout.episode import luck_of_turn, turn_of
from rlx.rollout.measure import EMPTY
from rlx.runs.summary import Estimate
from rlx.types import Action, Completion, Sampling, Start, Step, Task, Trajectory, Turn

MOST_TURNS = 1000
"""Turns of a random episode where neither the evaluation nor the environment limits them."""
SILENT = Completion(token_ids=(), logprobs=(), stop="stop")
"""Completion of a random turn: no model said anything."""
OF_EPISODES = ("reward", SPREAD, "episode/turns", "episode/truncated")
OF_A_MODEL = tuple(name for name in (*EMPTY, "tool/failed_rate") if name not in OF_EPISODES)
"""Figures that random episodes do not have."""
Tell = Callable[[], None]
"""Called after each task or episode: it may raise, to stop."""


Agents = Mapping[str, tuple[str, ...]]
"""Agents that are measured, by `Task.env`."""


class FloorError(MistakeError):
    """An environment in which random play fails; the message is one line."""


def do_nothing() -> None:
    """Go on after a task or an episode."""


def floor(
    settings: Evaluate,
    env: Environment,
    *,
    noun: str = "random",
    tell: Tell = do_nothing,
    agents: Agents | None = None,
) -> dict[str, Estimate]:
    """Return the figures of random play, `noun/stat`; none where a part of the environment has neither random tries
    nor random episodes, or `num_tries` is 0.

    A mixture with parts of both kinds has pass@k alone, each part by its own kind. All agents of an episode play at
    random, and `agents` are measured.
    """
    parts = parts_of(env).values()
    if settings.num_tries == 0 or not all(part.has_random_tries or has_random_episodes(part) for part in parts):
        return {}
    if not any(part.has_random_tries for part in parts):
        return floor_of_episodes(settings, env, noun, tell, agents)
    scores = [random_score(settings, env, task, tell) for task in held_out(settings, env)]
    return name_figures(noun, estimates(pass_ratios(scores, settings.ks), settings.num_resamples, settings.seed))


def floor_of_episodes(
    settings: Evaluate, env: Environment, noun: str, tell: Tell, agents: Agents | None
) -> dict[str, Estimate]:
    """Return the figures of `num_samples` random episodes of each held-out task, under each limit of turns."""

    def play(max_rounds: int | None, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        return [random_episode(env, start, max_rounds, settings.seed, tell) for start in starts]

    evaluations = evaluate(settings, env, play, max_context=1, noun=noun, agents=agents)
    return {
        name: figure
        for evaluation in evaluations
        for name, figure in evaluation.figures.items()
        if not is_of_a_model(name)
    }


def is_of_a_model(name: str) -> bool:
    """Tell whether a figure counts calls or tokens, which a random episode does not have."""
    return "/env/" not in name and any(name.endswith(f"/{stat}") for stat in OF_A_MODEL)


def floor_figures(settings: Evaluate, env: Environment) -> list[str]:
    """Return the names of the floor's figures, without those that the environment itself measures."""
    named = [f"pass@{k}" for k in settings.ks]
    return named if any(part.has_random_tries for part in parts_of(env).values()) else [*named, *OF_EPISODES]


def random_score(settings: Evaluate, env: Environment, task: Task, tell: Tell = do_nothing) -> Score:
    """Return the score of a task's samples, each of random tries or of one random episode; every sample draws anew."""
    part, num = part_of(env, task), settings.num_samples

    def succeeds(sample: int) -> bool:
        if not part.has_random_tries:
            rounds = limits_of(settings, env)[0]
            return random_episode(env, Start(task=task, sample=sample), rounds, settings.seed).success
        tries = tries_of(part, task, settings.num_tries, settings.seed * num + sample)
        return any(is_right(part, task, action) for action in tries)

    try:
        hits = sum(map(succeeds, range(num)))
    except FloorError:
        raise
    except Exception as error:
        raise FloorError(f"env: a random try fails in task {task.key!r:.60}: {one_line(fault(error))}") from error
    tell()
    return Score(task=task.key, num_samples=num, num_correct=hits)


def is_right(env: Environment, task: Task, action: Action) -> bool:
    """Tell whether an action taken at once, in a fresh episode, succeeds."""
    with open_episode(env, task) as episode:
        return episode.step(action).success is True


def random_episode(
    env: Environment, start: Start, max_rounds: int | None, seed: int, tell: Tell = do_nothing
) -> Trajectory:
    """Play a whole episode of random legal actions; FloorError where the environment fails."""
    task, part = start.task, part_of(env, start.task)
    turn_limit = part.max_rounds if max_rounds is None else max_rounds
    limit = MOST_TURNS if turn_limit is None else turn_limit
    try:
        turns, last, opening = walk(part, start, limit, seed)
    except Exception as error:
        error_text = one_line(fault(error))
        raise FloorError(f"env: a random episode fails in task {task.key!r:.60}: {error_text}") from error
    tell()
    return Trajectory(
        task=task,
        sample=start.sample,
        turns=tuple(turns),
        status="done" if last.done and not last.truncated else "truncated",
        success=last.done and bool(last.success),
        opening=opening.observation,
    )


def walk(env: Environment, start: Start, limit: int, seed: int) -> tuple[list[Turn], Step, Step]:
    """Return the turns of a random episode, its last step and its opening. It ends early where no action is legal."""
    rng, stream = Random(stream_of("floor", seed, start.task.key, start.sample)), ("floor", seed)
    turns: list[Turn] = []
    unanswered = env.unanswered(start.task)
    with open_episode(env, start.task) as episode:
        opening = step = lawful(env, episode.opening())
        while not step.done:
            action = random_act(env, start.task, step.legal, rng)
            if action is None:
                break
            luck, agent = luck_of_turn(stream, start, len(turns)) if episode.has_chance else 0, step.next_agent
            give_luck(episode, luck)
            after = step_within(episode, action, len(turns), limit, step, unanswered)
            step = lawful(env, after, step, len(turns) + 1)
            turns.append(turn_of(env, SILENT, action, step, luck, agent))
    return turns, step, opening
