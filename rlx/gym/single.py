"""One environment with Gymnasium's interface: the agent's whole completion in, the observation's text out.

    reset   the next task of a stream that `seed` begins; the same seed, the same tasks step    text --protocol-->
    Action --> Step --protocol--> text; the same rules as a run's player (rlx.environment.world)

An episode that ends by its limit of turns is `terminated`, and `info["status"]` says `truncated`. The limit is a rule
of the task, and nothing follows it: Gymnasium's `truncated` would have a trainer estimate what follows. Errors are
raised; a vector goes on without the episode (rlx.gym.vector).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, get_args

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from rlx.base.limits import MistakeError
from rlx.environment import Environment, Episode
from rlx.environment.dialect import Dialect
from rlx.environment.random_play import tries_of
from rlx.environment.world import cost_of, dialect_of, lawful, only_legal, part_of, parts_of, start_episode, step_within
from rlx.gym.keywords import names_of
from rlx.gym.spaces import AnyText, Messages, check_choice, check_text, require_seed
from rlx.gym.spoken import EMPTY_COMPLETION, SpokenPart
from rlx.gym.state import check_state, copy_of, require_replayable, state_of
from rlx.gym.stream import SPLITS, TaskStream
from rlx.gym.views import View, apply_template, chat_on_reset_of, history_of, messages_of, observations_of
from rlx.types import Action, Move, Part, Step, Task, Turn


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
        if observation == "chat_on_reset" and tokenizer is None:
            raise MistakeError("concat_chat_on_reset: give get_wrapper_fns a tokenizer, whose chat template it takes")
        check_choice("split", split, SPLITS)
        if seed is not None:
            require_seed(seed)
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.world, self.protocol, self.observation, self.tokenizer = env, protocol, observation, tokenizer
        self.stream = TaskStream(env, split)
        self.first_seed, self.render_mode, self.spec = seed, render_mode, spec
        self.observation_space = Messages() if observation == "chat" and tokenizer is None else AnyText()
        self.action_space = AnyText()
        self.episode: Episode | None = None
        self.spoken_parts: dict[str, SpokenPart] = {}
        self.take_keys()

    def take_keys(self) -> None:
        """Take the keys of the environment as attributes, by their names here and in GEM: `env.max_turns`,
        `env.max_number`. A `__getattr__` would slow down every access to an attribute of this class."""
        for name, key in names_of(getattr(self.world, "__dataclass_fields__", ())).items():
            if not hasattr(type(self), name) and not hasattr(self, name):
                setattr(self, name, getattr(self.world, key))

    @property
    def seed(self) -> int | None:
        """Seed of a first reset that gives none."""
        return self.first_seed

    @property
    def env_id(self) -> str:
        return self.spec.id if self.spec else type(self.world).__name__

    def reset(
        self, seed: int | None = None, *, options: Mapping[str, Any] | None = None, idx: int | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next task: of a seed's stream, or with `options` of a `split`, or a `task` that is given, or the
        one of that number in its split. As in GEM, `idx` is such a number too, and later resets go on behind it."""
        if self.stream.place is None and seed is None:
            seed = self.first_seed
        super().reset(seed=seed)
        self.end()
        self.begin(self.stream.choose(seed, options or {}, idx, self.np_random))
        return self.observe(), {"task": self.task.key, **info_of(self.seen)}

    @property
    def split(self) -> str:
        return self.stream.split

    @property
    def dataset(self) -> Sequence[Task]:
        """Tasks that `reset(idx=…)` numbers, for the test split of a data set. GEM's evaluations take its length."""
        return self.stream.dataset

    def begin(self, task: Task) -> None:
        spoken = self.spoken_parts.get(task.env)
        if spoken is None:
            spoken = SpokenPart(part_of(self.world, task), dialect_of(self.world, self.protocol, task.env))
            self.spoken_parts[task.env] = spoken
        self.task, self.spoken, self.max_rounds = task, spoken, spoken.max_rounds
        self.replies: list[str] = []
        self.past: list[Turn] = []
        self.episode = start_episode(self.world, task)
        self.opening = self.seen = lawful(spoken.env, self.episode.opening())

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one turn; `Cut(text)` marks a completion that was cut off."""
        episode = self.episode
        if episode is None:
            raise ResetNeeded("the episode is over, or was never begun: call reset() first")
        check_text(action)
        spoken = self.spoken
        parsed_action = only_legal(spoken.hear(action), self.seen.legal)
        answer = step_within(episode, parsed_action, len(self.replies), self.max_rounds)
        step = self.seen = lawful(spoken.env, answer, self.seen, len(self.replies) + 1)
        self.replies.append(action)
        info = info_of(step)
        if parsed_action.kind == "invalid":
            info["invalid"] = parsed_action.text
        elif step.invalid:
            info["invalid"] = "the environment rejects the action"
        if step.done:
            self.end()
        reward = step.reward if spoken.is_free else self.reward_of(step)
        return self.observe(parsed_action), reward, step.done, False, info

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
        """Return the observation after an action, by this environment's view."""
        if self.observation == "last" and action is not None:
            step = self.seen
            return self.spoken.render_answer(step.observation, step.invalid or action.kind == "invalid")
        if action is None and not self.observation.startswith("chat"):
            return self.spoken.first(self.about(), self.opening.observation)
        if action is not None:
            self.past.append(self.turn_of(action))
        pieces = self.dialect.context(self.about(), self.opening.observation, self.past, self.seen.legal)
        if self.observation == "observations":
            return observations_of(pieces)
        if self.observation == "history":
            return history_of(pieces, self.replies)
        if self.observation == "chat_on_reset":
            return chat_on_reset_of(pieces, self.replies, self.tokenizer)
        messages = messages_of(pieces, self.replies)
        return messages if self.tokenizer is None else apply_template(messages, self.tokenizer)

    def turn_of(self, action: Action) -> Turn:
        """Return the last turn, of which only the text is known."""
        step = self.seen
        return Turn(
            prompt_ids=(),
            completion=EMPTY_COMPLETION,
            action=action,
            observation=step.observation,
            invalid=step.invalid,
        )

    def about(self) -> Task:
        """The task as the agent is told it."""
        return self.task

    @property
    def is_slow(self) -> bool:
        """True if a step of the environment, or of a part of it, may take long."""
        return any(part.pace != "inline" for part in parts_of(self.world).values())

    def render(self) -> str | None:
        """Return the text of the last observation; None without `render_mode="ansi"`."""
        return self.dialect.render(self.seen.observation) if self.render_mode == "ansi" else None

    def sample_random_action(self) -> str:
        """A random well-formed turn: one of the environment's tries, or of the actions that need no words; random text
        where it has neither."""
        if self.part.has_random_tries:
            seed = int(self.np_random.integers(2**31))
            return self.say(next(iter(tries_of(self.part, replace(self.task, env=""), 1, seed))))
        legal = self.seen.legal
        names = [v.name for v in self.part.actions if not v.argument and (legal is None or v.name in legal)]
        if not names:
            return self.action_space.sample()
        return self.say(Action(kind="act", name=names[int(self.np_random.integers(len(names)))], text=""))

    def say(self, action: Action) -> str:
        """Return the turn that means an action."""
        return self.dialect.write(Move(thought="", action=action))

    def another(self, seed: int | None, **settings: Any) -> TextEnv:
        """Return a fresh environment of the same parts and settings, but for these settings."""
        current_settings = {
            name: getattr(self, name) for name in ("observation", "tokenizer", "split", "render_mode", "spec")
        }
        other = TextEnv(self.world, self.protocol, seed=seed, **{**current_settings, **settings})
        other.spoken_parts = self.spoken_parts
        return other

    def spawn(self, same_state: bool = False, **keywords: Any) -> TextEnv:
        """Return another environment with the same keywords but for these; with `same_state` in this one's state."""
        if same_state:
            require_replayable(self)
        other = self.remade(keywords)
        if same_state:
            other.set_state(self.get_state())
        return other

    def get_state(self) -> dict[str, Any]:
        """Return the state of the episode as data (rlx.gym.state)."""
        return state_of(self)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Bring the episode to a state of `get_state`, by a replay; the stream of tasks stays where it is."""
        check_state(state)
        self.end()
        self.begin(state["task"])
        for text in state["said"]:
            self.step(text)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy_of(self, memo)

    def remade(self, keywords: dict[str, Any]) -> TextEnv:
        """Make the environment again with its keywords and view, but for these keywords."""
        from rlx.gym.named import make

        view = {"observation": self.observation, "tokenizer": self.tokenizer}
        return make(**{**(self.spec.kwargs if self.spec else {}), **view, **keywords})

    def end(self) -> None:
        """Close the episode, once."""
        episode, self.episode = self.episode, None
        if episode is not None:
            episode.close()

    def close(self) -> None:
        self.end()


def info_of(step: Step) -> dict[str, Any]:
    """Return the info of a step, which holds only what applies."""
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
