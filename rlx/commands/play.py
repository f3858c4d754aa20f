"""`rlx play`: an episode by hand, or by the environment's expert, and exactly what a model would see of it.

The player is a run's own (rlx.rollout.episode): contexts are the ids that a model would be given, shown as they decode,
and a turn is what its tokens mean. Text of tasks and tools is shown as it is, but for what a terminal would obey.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rlx.base.console import format_count, one_line
from rlx.base.fault import fault
from rlx.base.limits import MistakeError
from rlx.commands.by_agent import describe_end, describe_rewards, name_of
from rlx.commands.show import block, totals
from rlx.environment import Environment
from rlx.environment.world import moves_of, part_of
from rlx.protocol.blocks import end_at_stop
from rlx.rollout.episode import Scene, World
from rlx.types import Action, Completion, Sampling, Start, Status, Task

UNCLOSED = "left"
"""Status of an episode that nobody played to its end."""


class PlayError(MistakeError):
    """There is no such task, or no expert; the message is one line."""


def find_task(env: Environment, split: str, seed: int, number: int) -> Task:
    """A split's task by its number, from 1."""
    task = next(islice(env.tasks(split, seed), number - 1, None), None)
    if task is None:
        raise PlayError(f"--task {number}: the {split} split has fewer tasks")
    return task


def expert_turns(env: Environment, world: World, task: Task, seed: int) -> Iterator[str]:
    """Yield the turns of the environment's expert, as the protocol writes them."""
    part, dialect = part_of(env, task), world.speech.dialect
    if not part.has_expert:
        raise PlayError(f"--expert: {type(part).__name__} has no expert")
    return (dialect.write(move) for move in moves_of(part, task, seed, dialect.tools))


def typed_turns(stops: Sequence[str], prompt: str = "> ") -> Iterator[str]:
    """Turns from standard input, until it ends."""
    yield from turns_of(typed_lines(prompt, "a line" if "\n" in stops else "an empty line"), stops)


def typed_lines(prompt: str, end: str) -> Iterator[str]:
    """Lines as they are typed; only for a person a prompt, and at first what ends a turn."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    print(f"{end} ends your turn, Ctrl-D the episode")
    while True:
        try:
            yield input(prompt) + "\n"
        except EOFError:
            return


def turns_of(lines: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """A turn ends with what ends a model's, or with an empty line, which alone is none; one that is begun, with the
    input."""
    text = ""
    for line in lines:
        if line.strip("\r\n"):
            text += line
            if not any(stop in text for stop in stops):
                continue
        if text:
            yield spoken(text, stops)
        text = ""
    if text:
        yield spoken(text, stops)


def spoken(text: str, stops: Sequence[str]) -> str:
    """A turn as a model would have said it: no letters that cannot be, nothing after its end."""
    encodable = text.encode("utf-8", "replace").decode()
    return end_at_stop(encodable, stops) if any(stop in encodable for stop in stops) else encodable.rstrip("\r\n")


@dataclass
class Play:
    """An episode that is played turn by turn, and what is shown of it."""

    world: World
    task: Task
    sampling: Sampling
    tokens: bool = False
    """Flag of texts that are cut into their tokens."""
    by_expert: bool = False
    """Flag of an episode that the environment's expert plays."""
    status: Status | str = UNCLOSED
    error: str = ""
    ids_by_agent: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    """Token ids shown so far, by agent."""

    def run(self, turns: Iterator[str], tell: Callable[[str], None]) -> None:
        """Tell what there is to see, and at last how it ended, if by an interrupt."""
        with ExitStack() as stack:
            scene = Scene(self.world, Start(task=self.task, sample=0), stack)
            try:
                for text in self.live(scene, turns):
                    tell(text)
            except KeyboardInterrupt:
                tell("")
            except Exception as error:  # a run would go on with its other episodes
                self.status, self.error = "error", fault(error)
        tell(self.summary(scene))

    def live(self, scene: Scene, turns: Iterator[str]) -> Iterator[str]:
        context = scene.begin()
        while True:
            yield from self.describe_state(scene)
            yield self.describe_context(context, scene.agent)
            if len(context) >= self.sampling.max_context:
                self.status = "context"
                return
            completion = self.next_turn(scene, turns)
            if completion is None:
                return
            self.ids_by_agent[scene.agent] = context + completion.token_ids
            context = scene.act(context, completion)
            yield self.describe_turn(scene)
            if scene.step.done:
                self.status = "truncated" if scene.step.truncated else "done"
                yield from self.describe_state(scene)
                return

    def next_turn(self, scene: Scene, turns: Iterator[str]) -> Completion | None:
        """Return the next turn; None at the end of the input. An expert's summary is made here."""
        summary = self.world.speech.write_summary(scene.turns) if self.by_expert else None
        if summary is not None:
            return summary
        text = next(turns, None)
        return None if text is None else self.world.speech.spell(text)

    def describe_state(self, scene: Scene) -> Iterator[str]:
        """Show the picture of an environment that has one."""
        picture = scene.episode.picture()  # empty where the episode has none
        if picture:
            yield block("the environment, which the model does not see", picture)

    def describe_context(self, context: tuple[int, ...], agent: str) -> str:
        """Show the context of a model in the place of this agent: all tokens, or only those since its last turn."""
        previous, reader = self.ids_by_agent.get(agent, ()), one_line(agent, 30) or "the model"
        length = len(previous)
        if not length or context[:length] != previous:
            return block(f"{reader} sees {format_count(len(context), 'token')}", self.text(context))
        new = format_count(len(context) - length, "token")
        return block(f"{reader} sees {new} more, {len(context):,} in all", self.text(context[length:]))

    def describe_turn(self, scene: Scene) -> str:
        """Show a completed turn. Add the observation after the last turn only: later contexts contain the others."""
        turn, num = scene.turns[-1], len(scene.turns)
        ids = turn.completion.token_ids
        cut = " (a model's would be cut)" if len(ids) > self.sampling.max_new_tokens else ""
        name = name_of(f"turn {num}", turn.agent)
        title = f"{name}: {meaning(turn.action)}, {format_count(len(ids), 'token')}{cut}, {describe_rewards(turn)}"
        parts = [block(title, self.text(ids))]
        if scene.step.done and turn.observation:
            parts.append(block("observation", "".join(part.text for part in turn.observation)))
        return "\n".join(parts)

    def text(self, ids: Sequence[int]) -> str:
        decode = self.world.speech.decode
        return "|".join(decode([token_id]) for token_id in ids) if self.tokens else decode(list(ids))

    def summary(self, scene: Scene) -> str:
        """Return the outcome of the episode, its reward and its cost."""
        turns = scene.turns
        counts = totals(turns, sum(len(turn.completion.token_ids) for turn in turns))
        ended = describe_end(turns, bool(scene.step.success), f" ({self.status})", counts)
        return f"{ended}\nerror: {one_line(self.error)}" if self.error else ended


def meaning(action: Action) -> str:
    """Return the kind and name of a turn's action."""
    name = f" {one_line(action.name, 20)}" if action.name else ""
    return f"{action.kind}{name}"


def player(tree: dict[str, Any], env: Environment, task: Task) -> tuple[World, Sampling]:
    """The world of a task under a run's protocol and its model's tokenizer."""
    from rlx.model.load import load_tokenizer
    from rlx.rollout.episode import worlds_of
    from rlx.rollout.speech import speech_of
    from rlx.settings.build import build_part

    protocol, model, sampling = (build_part(tree, key) for key in ("protocol", "model", "sampling"))
    speech = speech_of(protocol, load_tokenizer(model), chat=model.chat)
    return worlds_of(env, speech)[task.env], sampling
