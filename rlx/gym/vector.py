"""Many environments as Gymnasium's vector: exact seeds, autoreset that hands out the last observation, threads for the
slow alone, and one that fails stops no other.

    actions ──> those whose pace is inline: one after another, here
            └─> all others: a thread each, at most `num_threads` at once; the results do not depend on how many

An episode that raises is `truncated`, its `info` says the `error`, and the next task begins. rlx.rollout.scheduler is
not used: it goes by the ticks of an engine that samples, and here the trainer samples. Both take a turn as one piece of
work for any thread, and an environment's pace says where that work is done.

`autoreset`: `same_step` by default, like GEM, because no completion is wasted: the observation is the next episode's
first, and infos have `final_obs` and `final_info` of the last episode. With `next_step`, Gymnasium's default, a step
with an ignored action begins the next episode, so a policy samples one turn in vain each time.
`disabled` leaves it to `reset(options={"reset_mask": …})`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from numbers import Integral
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rlx.base.fault import LostServiceError, fault
from rlx.base.limits import MANY, MistakeError, near, within
from rlx.gym.spaces import AnyText, check_choice, check_text, require

Outcome = tuple[Any, float, bool, bool, dict[str, Any]]
T = TypeVar("T")
ENV_KWARGS = re.compile(r"env(\d+)_kwargs")
RESETS = ("seed", "options", "idx")
"""Keywords of an environment's reset."""
NOTHING: Mapping[str, Any] = {}
MODES = {mode.name.lower(): mode for mode in AutoresetMode}


class Infos(dict[str, Any]):
    """Gymnasium's columns by name, where column `_name` says which environments have a value. As in GEM, a number
    selects the info of one environment, `infos[3]`, and a slice those of several, `infos[:4]`."""

    def __init__(self, num: int = 0) -> None:
        super().__init__()
        self.num = num

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(self.num)[key]]
        return super().__getitem__(key)

    def __missing__(self, key: Any) -> dict[str, Any]:
        if not isinstance(key, (int, np.integer)):
            raise KeyError(key)
        return {name: self[name][key] for name in self if f"_{name}" in self and self[f"_{name}"][key]}

    def add(self, info: Mapping[str, Any], place: int) -> None:
        """Add the info of one environment; a mapping in it becomes columns within a column."""
        for name, value in info.items():
            if name not in self:
                self[name] = Infos(self.num) if isinstance(value, dict) else empty(value, self.num)
                self[f"_{name}"] = np.zeros(self.num, bool)
            if isinstance(value, dict):
                self[name].add(value, place)
            else:
                self[name][place] = value
            self[f"_{name}"][place] = True


def empty(value: Any, num: int) -> np.ndarray:
    """A column for such values."""
    return np.zeros(num, type(value)) if isinstance(value, (bool, int, float)) else np.full(num, None)


class TextVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments that step together. Environments of one option share its data, and have separate task streams."""

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, str]],
        *,
        autoreset: str = "same_step",
        asynchronous: bool = True,
        num_threads: int | None = None,
    ) -> None:
        """`asynchronous`: threads for those that are slow, `num_threads` at most; None: one for each."""
        check_choice("autoreset", autoreset, tuple(MODES))
        require((Integral, type(None)), "an integer or None", num_threads=num_threads)
        within(1, MANY, num_threads=num_threads)
        self.envs, self.num_envs, self.mode = list(envs), len(envs), MODES[autoreset]
        self.numbers = range(self.num_envs)
        self.metadata = {**self.envs[0].metadata, "autoreset_mode": self.mode}
        self.render_mode = self.envs[0].render_mode
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.slow = {i for i, env in enumerate(self.envs) if asynchronous and env.unwrapped.is_slow}  # type: ignore[attr-defined]
        num = min(num_threads or self.num_envs, len(self.slow))
        self.pool = ThreadPoolExecutor(num, thread_name_prefix="gym") if num else None
        self.seen: list[Any] = [self.blank()] * self.num_envs
        self.over = [True] * self.num_envs
        """Flag per environment: its episode has ended or has not begun."""

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        idx: int | Sequence[int] | None = None,
        **keywords: Mapping[str, Any],
    ) -> tuple[list[Any], Infos]:
        """Reset all, or those of `reset_mask`: environment i with seed + i, and its own of a list of tasks or of `idx`.
        As in GEM, `env3_kwargs={"idx": 7}` are keywords of the reset of environment 3."""
        require(Mapping, "options by name", options=options or {})
        env_keywords = self.keywords_of(keywords)
        choices = dict(options or {})
        mask = choices.pop("reset_mask", None)
        chosen = range(self.num_envs) if mask is None else np.flatnonzero(self.one_each("reset_mask", mask)).tolist()
        seeds = self.seeds_of(seed)
        numbers = self.one_each("idx", idx) if isinstance(idx, Sequence) else [idx] * self.num_envs
        reset_keywords = [
            {
                "seed": seeds[i],
                "options": self.choices_of(choices, i) or None,
                "idx": numbers[i],
                **env_keywords.get(i, {}),
            }
            for i in chosen
        ]
        results = self.all_of(self.begin, list(zip(chosen, reset_keywords)))
        infos = Infos(self.num_envs)
        for i, (observation, info) in zip(chosen, results):
            self.seen[i] = observation
            infos.add(info, i)
        return list(self.seen), infos

    def keywords_of(self, keywords: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
        """Return the keywords of single environments by their numbers."""
        env_keywords = {}
        for name, value in keywords.items():
            match = ENV_KWARGS.fullmatch(name)
            if match is None or int(match[1]) >= self.num_envs:
                last = f"env{self.num_envs - 1}_kwargs"
                raise MistakeError(f"reset: there is no keyword {name!r:.60}; expected env0_kwargs to {last}")
            require(Mapping, "keywords of its reset, such as {'idx': 0}", **{name: value})
            for key in value:
                if key not in RESETS:
                    raise MistakeError(f"{name}: there is no {key!r:.60}{near(str(key), RESETS)}")
            env_keywords[int(match[1])] = value
        return env_keywords

    def seeds_of(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, (int, np.integer)):
            return [int(seed) + i for i in range(self.num_envs)]
        return self.one_each("seeds", seed)

    def choices_of(self, choices: Mapping[str, Any], i: int) -> dict[str, Any]:
        """Return the reset options of environment `i`."""
        if not isinstance(choices.get("task"), (list, tuple)):
            return dict(choices)
        return {**choices, "task": self.one_each("tasks", choices["task"])[i]}

    def one_each(self, name: str, values: Sequence[Any]) -> Sequence[Any]:
        has_many = hasattr(values, "__len__") and not isinstance(values, str)
        if not has_many or len(values) != self.num_envs:
            description = f"{len(values)} {name}" if has_many else f"{name}={values!r:.60}"
            raise MistakeError(f"{description}: expected one for each of {self.num_envs} environments")
        return values

    def step(
        self, actions: Sequence[str] | Mapping[int, str]
    ) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Step each environment, or only those that a mapping names, in its order. Observations are a list, as in GEM:
        a trainer replaces the first observations of the episodes that it begins itself."""
        if not isinstance(actions, Mapping):
            actions = dict(enumerate(self.one_each("actions", actions)))
        for i, action in actions.items():
            if i not in self.numbers:
                raise MistakeError(f"there is no environment {i!r:.60}: expected 0 to {self.num_envs - 1}")
            check_text(action)
        if self.mode is AutoresetMode.DISABLED and any(self.over[i] for i in actions):
            raise ValueError("an episode that is over waits for reset(options={'reset_mask': …})")
        outcomes = self.all_of(self.turn, list(actions.items()))
        infos = Infos(len(outcomes))
        for place, (i, outcome) in enumerate(zip(actions, outcomes)):
            self.seen[i] = outcome[0]
            if outcome[4]:
                infos.add(outcome[4], place)
        observations, rewards, terminated, truncated, _ = zip(*outcomes) if outcomes else ((),) * 5
        return (
            list(observations),
            np.array(rewards, float),
            np.array(terminated, bool),
            np.array(truncated, bool),
            infos,
        )

    def all_of(self, work: Callable[..., T], arguments: Sequence[tuple]) -> list[T]:
        """Return the result of the work for each environment, whose number is the first of its arguments."""
        if self.closed:
            raise ClosedEnvironmentError("the environments are closed: make them anew")
        if self.pool is None:
            return [work(*args) for args in arguments]
        futures = [self.pool.submit(work, *args) for args in arguments if args[0] in self.slow]
        done = iter([work(*args) for args in arguments if args[0] not in self.slow])
        wait(futures)  # also where one raises: no thread steps an environment after this call
        waited = (future.result() for future in futures)
        return [next(waited if args[0] in self.slow else done) for args in arguments]

    def turn(self, i: int, action: str) -> Outcome:
        """Step one environment, and begin its next episode if the autoreset mode does so in this step."""
        if self.over[i] and self.mode is AutoresetMode.NEXT_STEP:
            observation, info = self.begin(i)
            return observation, 0.0, False, False, info
        try:
            outcome: Outcome = self.envs[i].step(action)  # type: ignore[assignment]
        except LostServiceError:  # no episode's own failure: none goes on without it
            raise
        except (Exception, SystemExit) as error:
            outcome = self.blank(), 0.0, False, True, {"error": fault(error), "status": "error"}
        return self.ended(i, outcome) if outcome[2] or outcome[3] else outcome

    def ended(self, i: int, outcome: Outcome) -> Outcome:
        """Return an episode's last step, with the beginning of the next where the same step resets."""
        self.over[i] = True
        if self.mode is not AutoresetMode.SAME_STEP:
            return outcome
        last, reward, terminated, truncated, last_info = outcome
        observation, info = self.begin(i)
        return observation, reward, terminated, truncated, {**info, "final_obs": last, "final_info": last_info}

    def begin(self, i: int, keywords: Mapping[str, Any] = NOTHING) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of one environment. An environment that fails to begin tries again at its next step."""
        try:
            observation, info = self.envs[i].reset(**{k: v for k, v in keywords.items() if v is not None})
        except (MistakeError, LostServiceError, gymnasium.error.Error):  # of whoever called, and of all episodes
            raise
        except (Exception, SystemExit) as error:
            return self.blank(), {"error": fault(error)}
        self.over[i] = False
        return observation, info

    def blank(self) -> Any:
        """Return the observation of an environment that has none."""
        return "" if isinstance(self.single_observation_space, AnyText) else []

    def close_extras(self, **kwargs: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown()
        for env in self.envs:
            env.close()
