"""One environment as Gymnasium has it: the agent's whole completion in, the observation's text out.

    reset   the next task of a stream that `seed` begins; the same seed, the same tasks
    step    text --protocol--> Action --> Step --protocol--> text; the same rules as a run's player (rlx.world)

An episode that ends by its limit of turns is `terminated`, and `info["status"]` says `truncated`: the limit is a rule
of the task, and nothing follows it whose value should be guessed (`truncated` here, as Gymnasium means it, would have
a trainer do so). What raises, raises; a vector goes on (rlx.gym.vector).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, get_args

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from rlx.gym.spaces import AnyText, Messages
from rlx.gym.views import View, history_of, messages_of, observations_of, templated
from rlx.limits import MistakeError, near
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
    part_of,
    rounds_of,
    step_within,
    tries_of,
)

CHOICES = ("split", "task")
SPLITS = ("train", "test")
SAID = Completion(token_ids=(), logprobs=(), stop="stop")
"""The tokens of a turn of which only the text is known."""


class Cut(str):
    """The text of a completion that was cut by its length: never a valid turn, whatever it says."""

    __slots__ = ()


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
        if observation not in get_args(View):
            raise ValueError(f"observation={observation}: expected {', '.join(get_args(View))}")
        self.world, self.protocol, self.observation, self.tokenizer = env, protocol, observation, tokenizer
        self.split, self.first_seed, self.render_mode, self.spec = split, seed, render_mode, spec
        self.observation_space = Messages() if observation == "chat" and tokenizer is None else AnyText()
        self.action_space = AnyText()
        self.tasks: Iterator[Task] | None = None
        self.episode: Episode | None = None
        self.dialects = cache(lambda part: dialect_of(env, protocol, part))

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
        self.begin(self.choose(seed, options or {}))
        return self.observe(), {"task": self.task.key, **told_of(self.seen)}

    def choose(self, seed: int | None, options: Mapping[str, Any]) -> Task:
        """The task to play next."""
        for name in options:
            if name not in CHOICES:
                raise MistakeError(f"options: there is no {name!r:.60}{near(str(name), CHOICES)}")
        if options.get("split", "train") not in SPLITS:
            raise MistakeError(f"options: split={options['split']!r:.60}: expected {' or '.join(SPLITS)}")
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

    def numbered(self, index: int) -> Task:
        """The task of that number in its split, from 0."""
        found = next(islice(self.world.tasks(self.split, self.stream_seed), index, None), None)
        if found is None:
            raise MistakeError(f"options: task={index}: the {self.split} split has fewer")
        return found

    def begin(self, task: Task) -> None:
        self.task, self.part = task, part_of(self.world, task)
        self.dialect, self.max_rounds = self.dialects(task.env), rounds_of(self.part)
        self.is_free = not hasattr(self.part, "cost")
        self.said: list[str] = []
        self.past: list[Turn] = []
        self.episode = self.world.start(task)
        self.opening = self.seen = lawful(self.part, opening_of(self.episode))

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One turn; `Cut(text)` is one that was cut off."""
        episode = self.episode
        if episode is None:
            raise ResetNeeded("the episode is over, or was never begun: call reset() first")
        heard = self.dialect.parse(action, "length" if isinstance(action, Cut) else "stop")
        meant = only_legal(heard, self.seen.legal)
        step = self.seen = lawful(self.part, step_within(episode, meant, len(self.said), self.max_rounds))
        self.said.append(action)
        info = told_of(step)
        if meant.kind == "invalid":
            info["invalid"] = meant.text
        if step.done:
            self.end()
        reward = step.reward if self.is_free else self.reward_of(step)
        return self.observe(meant), reward, step.done, False, info

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
            return self.dialect.render(self.seen.observation) if self.seen.observation else ""
        if action is not None:
            self.past.append(Turn(prompt_ids=(), completion=SAID, action=action, observation=self.seen.observation))
        pieces = self.dialect.context(self.task, self.opening.observation, self.past)
        if self.observation == "observations":
            return observations_of(pieces)
        if self.observation in ("last", "history"):
            return history_of(pieces, self.said)
        messages = messages_of(pieces, self.said)
        return messages if self.tokenizer is None else templated(messages, self.tokenizer)

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
        return TextEnv(self.world, self.protocol, seed=seed, **{**own, **settings})

    def spawn(self, same_state: bool = False, **keywords: Any) -> TextEnv:
        """Another of the same keywords but for these; in the same state by saying again all that was said."""
        from rlx.gym.named import make

        if same_state and not is_replayable(self.world):
            raise ValueError(f"{self.env_id} does not replay: spawn it without same_state")
        other = make(**{**(self.spec.kwargs if self.spec else {}), **keywords})
        if same_state:
            other.reset(options={"task": self.task})
            for text in self.said:
                other.step(text)
        return other

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
