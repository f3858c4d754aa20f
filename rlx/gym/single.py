"""One environment as Gymnasium has it: the agent's whole completion in, the observation's text out.

    reset   the next task of a stream that `seed` begins; the same seed, the same tasks
    step    text --protocol--> Action --> Step --protocol--> text; the same rules as a run's player (rlx.world)

An episode that ends by its limit of turns is `terminated`, and `info["status"]` says `truncated`: the limit is a rule
of the task, and nothing follows it whose value should be guessed (`truncated` here, as Gymnasium means it, would have
a trainer do so). What raises, raises; a vector goes on (rlx.gym.vector).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, get_args

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from rlx.gym.numbered import Numbered
from rlx.gym.spaces import AnyText, Messages, check_choice, check_text
from rlx.gym.views import View, history_of, messages_of, observations_of, templated
from rlx.limits import MANY, MistakeError, near
from rlx.protocol.history import first_prompt
from rlx.types import Action, Completion, Dialect, Environment, Episode, Move, Part, Step, Task, Turn
from rlx.world import (
    actions_of,
    cost_of,
    dialect_of,
    has_tries,
    is_replayable,
    lawful,
    only_legal,
    opening_of,
    pace_of,
    part_of,
    parts_of,
    rounds_of,
    step_within,
    tries_of,
)

CHOICES = ("split", "task")
SPLITS = ("train", "test")
SAID = Completion(token_ids=(), logprobs=(), stop="stop")
"""The tokens of a turn of which only the text is known."""


BRIEF = 64
"""Characters of a turn that is remembered: a game has few moves, which come again and again."""


First = Callable[[Task, tuple[Part, ...]], str]
"""What is seen before the first turn."""


class Cut(str):
    """The text of a completion that was cut by its length: never a valid turn, whatever it says."""

    __slots__ = ()


class SpokenPart:
    """A part of an environment, and how one speaks there."""

    def __init__(self, env: Environment, dialect: Dialect) -> None:
        if getattr(dialect, "summarise_at", None) is not None:
            raise MistakeError(
                "protocol.summarise_at: who samples here counts the tokens; give window, or sum up there"
            )
        self.env, self.dialect = env, dialect
        self.is_free, self.max_rounds = not hasattr(env, "cost"), rounds_of(env)
        self.first: First = getattr(dialect, "begin", None) or partial(first_prompt, dialect)
        self.heard_before = lru_cache(maxsize=4096)(self.hear_anew)

    def hear(self, text: str) -> Action:
        return self.hear_anew(text) if len(text) > BRIEF or isinstance(text, Cut) else self.heard_before(text)

    def hear_anew(self, text: str) -> Action:
        return self.dialect.parse(text, "length" if isinstance(text, Cut) else "stop")


class TextEnv(gymnasium.Env[Any, str]):
    """An rlx environment under a protocol."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        env: Environment,
        protocol: Dialect,
        *,
        observation: View = "last",
        tokenizer: Any = None,
        split: str = "train",
        seed: int | None = None,
        render_mode: str | None = None,
        spec: EnvSpec | None = None,
    ) -> None:
        """`seed`: of a first reset that gives none. `tokenizer`: makes `chat` one text, counts what tools say."""
        check_choice("observation", observation, get_args(View))
        check_choice("split", split, SPLITS)
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.world, self.protocol, self.observation, self.tokenizer = env, protocol, observation, tokenizer
        self.split, self.first_seed, self.render_mode, self.spec = split, seed, render_mode, spec
        self.observation_space = Messages() if observation == "chat" and tokenizer is None else AnyText()
        self.action_space = AnyText()
        self.tasks: Iterator[Task] | None = None
        self.episode: Episode | None = None
        self.spoken_parts: dict[str, SpokenPart] = {}
        self.numbers = lru_cache(maxsize=2)(partial(Numbered, env))

    @property
    def env_id(self) -> str:
        return self.spec.id if self.spec else type(self.world).__name__

    def reset(self, seed: int | None = None, *, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin the next task: of a seed's stream, or with `options` of a `split`, or a `task` that is given, or the
        one of that number in its split."""
        if self.tasks is None and seed is None:
            seed = self.first_seed
        super().reset(seed=seed)
        self.end()
        task = None if seed is not None or options or self.tasks is None else next(self.tasks, None)
        self.begin(task or self.choose(seed, options or {}))
        return self.observe(), {"task": self.task.key, **told_of(self.seen)}

    def choose(self, seed: int | None, options: Mapping[str, Any]) -> Task:
        """The task to play next."""
        if not isinstance(options, Mapping):
            raise MistakeError(f"options={options!r:.60}: expected a mapping, such as {{'split': 'test'}}")
        for name in options:
            if name not in CHOICES:
                raise MistakeError(f"options: there is no {name!r:.60}{near(str(name), CHOICES)}")
        check_choice("options: split", options.get("split", "train"), SPLITS)
        if isinstance(options.get("task"), Task):
            return options["task"]
        if seed is not None or self.tasks is None or "split" in options:
            self.split = options.get("split", self.split)
            self.stream_seed = int(self.np_random.integers(2**31)) if seed is None else seed
            self.tasks = self.world.tasks(self.split, self.stream_seed)
        if "task" in options:
            return self.numbered(options["task"])
        task = next(self.tasks, None)
        if task is None:  # all of the test has been played: again
            self.tasks = self.world.tasks(self.split, self.stream_seed)
            task = next(self.tasks)
        return task

    def numbered(self, index: Any) -> Task:
        """The task of that number in its split, from 0."""
        if not isinstance(index, Integral) or isinstance(index, bool) or not 0 <= int(index) <= MANY:
            expected = f"a Task, or its number in the split, from 0 to {MANY}"
            raise MistakeError(f"options: task={index!r:.60}: expected {expected}")
        found = self.numbers(self.split, self.stream_seed).at(int(index))
        if found is None:
            raise MistakeError(f"options: task={index}: the {self.split} split has fewer")
        return found

    def begin(self, task: Task) -> None:
        spoken = self.spoken_parts.get(task.env)
        if spoken is None:
            spoken = SpokenPart(part_of(self.world, task), dialect_of(self.world, self.protocol, task.env))
            self.spoken_parts[task.env] = spoken
        self.task, self.spoken, self.max_rounds = task, spoken, spoken.max_rounds
        self.said: list[str] = []
        self.past: list[Turn] = []
        self.episode = self.world.start(task)
        self.opening = self.seen = lawful(spoken.env, opening_of(self.episode))

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One turn; `Cut(text)` is one that was cut off."""
        episode = self.episode
        if episode is None:
            raise ResetNeeded("the episode is over, or was never begun: call reset() first")
        check_text(action)
        spoken = self.spoken
        meant = only_legal(spoken.hear(action), self.seen.legal)
        step = self.seen = lawful(spoken.env, step_within(episode, meant, len(self.said), self.max_rounds))
        self.said.append(action)
        info = told_of(step)
        if meant.kind == "invalid":
            info["invalid"] = meant.text
        if step.done:
            self.end()
        reward = step.reward if spoken.is_free else self.reward_of(step)
        return self.observe(meant), reward, step.done, False, info

    @property
    def part(self) -> Environment:
        return self.spoken.env

    @property
    def dialect(self) -> Dialect:
        return self.spoken.dialect

    def reward_of(self, step: Step) -> float:
        """Less what the use of tools costs."""
        return step.reward - cost_of(self.part, replace(step.tool, num_tokens=self.count(step.observation)))

    def count(self, observation: tuple[Part, ...]) -> int:
        """Tokens of what a tool said; none are known without a tokenizer."""
        if self.tokenizer is None or not self.seen.tool.num_calls:
            return 0
        return len(self.tokenizer.encode(self.dialect.render(observation), add_special_tokens=False))

    def observe(self, action: Action | None = None) -> Any:
        """What the agent sees when it has done that, by this environment's view."""
        if self.observation == "last" and action is not None:
            return self.spoken.dialect.render(self.seen.observation) if self.seen.observation else ""
        if action is None and self.observation != "chat":
            return self.spoken.first(self.about(), self.opening.observation)
        if action is not None:
            self.past.append(Turn(prompt_ids=(), completion=SAID, action=action, observation=self.seen.observation))
        pieces = self.dialect.context(self.about(), self.opening.observation, self.past)
        if self.observation == "observations":
            return observations_of(pieces)
        if self.observation == "history":
            return history_of(pieces, self.said)
        messages = messages_of(pieces, self.said)
        return messages if self.tokenizer is None else templated(messages, self.tokenizer)

    def about(self) -> Task:
        """The task as the agent is told it."""
        return self.task

    @property
    def is_slow(self) -> bool:
        """Whether a step of it, or of a part of it, may take long."""
        return any(pace_of(part) != "inline" for part in parts_of(self.world).values())

    def render(self) -> str | None:
        """The last that was seen, as it is told."""
        return self.dialect.render(self.seen.observation) if self.render_mode == "ansi" else None

    def sample_random_action(self) -> str:
        """A random well-formed turn: one of the environment's tries, or of the actions that need no words; random text
        where it has neither."""
        if has_tries(self.part):
            seed = int(self.np_random.integers(2**31))
            return self.say(next(iter(tries_of(self.part, replace(self.task, env=""), 1, seed))))
        legal = self.seen.legal
        names = [v.name for v in actions_of(self.part) if not v.argument and (legal is None or v.name in legal)]
        if not names:
            return self.action_space.sample()
        return self.say(Action(kind="act", name=names[int(self.np_random.integers(len(names)))], text=""))

    def say(self, action: Action) -> str:
        """The turn that means it."""
        return self.dialect.write(Move(thought="", action=action))

    def another(self, seed: int | None, **settings: Any) -> TextEnv:
        """A fresh one of the same settings but for these, on what this one was made of."""
        own = {name: getattr(self, name) for name in ("observation", "tokenizer", "split", "render_mode", "spec")}
        other = TextEnv(self.world, self.protocol, seed=seed, **{**own, **settings})
        other.spoken_parts = self.spoken_parts
        return other

    def spawn(self, same_state: bool = False, **keywords: Any) -> TextEnv:
        """Another of the same keywords but for these; in the same state by saying again all that was said."""
        if same_state and not is_replayable(self.world):
            raise ValueError(f"{self.env_id} does not replay: spawn it without same_state")
        other = self.remade(keywords)
        if same_state:
            other.reset(options={"task": self.task})
            for text in self.said:
                other.step(text)
        return other

    def remade(self, keywords: dict[str, Any]) -> TextEnv:
        """As it was made and is looked at, but for these."""
        from rlx.gym.named import make

        seen = {"observation": self.observation, "tokenizer": self.tokenizer}
        return make(**{**(self.spec.kwargs if self.spec else {}), **seen, **keywords})

    def end(self) -> None:
        """Close the episode, once."""
        episode, self.episode = self.episode, None
        if episode is not None and hasattr(episode, "close"):
            episode.close()

    def close(self) -> None:
        self.end()


def told_of(step: Step) -> dict[str, Any]:
    """What an `info` says of a step: only what there is to say."""
    info: dict[str, Any] = {}
    if step.legal is not None:
        info["legal"] = list(step.legal)
    if step.metrics:
        info["metrics"] = {name: float(value) for name, value in step.metrics.items()}
    if step.tool.num_calls:
        info["tool"] = {"calls": step.tool.num_calls, "failed": step.tool.num_failed}
    if step.done:
        info["success"], info["status"] = bool(step.success), "truncated" if step.truncated else "done"
    return info
