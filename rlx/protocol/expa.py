"""Text, and actions beyond the vocabulary: routes that lead out of language into an environment, and its buttons there.

    agent:        Is it A? [ compare][ B][ A]          in brackets stands one choice each, with a row of its own in the
    environment:   B < A\\n                             model's head; the context holds it as it is written here
    agent:        [ swap][ A][ B]
    environment:   done\\n
    agent:        It is sorted.<eos>

Yue et al. 2025, "Expanding the Action Space of LLMs to Reason Beyond Language". A turn begins in language, where any
text may come and any route. A route leads to its verb's buttons (`rlx.base.buttons`), of which only those can be
pressed that may come there, and the last ends the turn. A verb without an argument is a route that ends the turn; one
whose argument is any text leads to text, which the button of a line's end finishes. Text that is ended without a route
is the answer, where the environment takes one; text that spells an action is text. Where a step says which declared
actions may come next (`Step.legal`), a turn begins in a state of language that has the routes of these alone: there is
one for each situation that the actions name (`Verb.when`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rlx.base.buttons import Buttons
from rlx.base.limits import MistakeError
from rlx.environment.world import legal_sets
from rlx.protocol.automaton import Actions, Automaton, State
from rlx.protocol.blocks import ANSWER, invalid, require_same_action, uncut
from rlx.protocol.direct import Lines, without_end
from rlx.protocol.drawn import ChoiceText, Choosing, Encode, Initial
from rlx.protocol.instruction import spell
from rlx.protocol.tags import refuse_names
from rlx.types import Action, Move, Part, Piece, Stop, Task, Turn, Verb

ENTER = "\n"
"""The button that finishes an argument of any text."""


@dataclass(frozen=True, kw_only=True)
class ExpA(Lines, Choosing):
    """Routes and buttons of whatever the environment lends and declares."""

    instruction: str | None = ""
    """The line before the task's own text, or a system message with {goal} and {actions}; empty: none, as the model
    has its routes; null: what each of them is for."""
    inline: bool = True
    """For chat models: observations continue the model's own message, so the template is for the prompt only (EARL's
    Algorithm 1). False: each observation is a message of the user or tool."""
    rows: Initial = "description"
    """Initial output rows of new actions: description (an action has the probability of its description; rows
    for several tokens are fitted while the model is loaded), word (the mean of its words' rows), first (its first
    word's row, as EARL's release has it)."""
    stops: tuple[str, ...] = ()
    """Stop strings of an answer, beside the model's end of sequence."""
    tool_verbs: tuple[Verb, ...] = ()
    """Tools of the environment, set by `bind`."""

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(verb.name for verb in self.tool_verbs)

    @property
    def routes(self) -> tuple[Verb, ...]:
        """Verbs whose routes lead out of language; an answer is text."""
        return (*self.tool_verbs, *(verb for verb in self.declared if verb.name != ANSWER))

    @cached_property
    def languages(self) -> tuple[frozenset[str], ...]:
        """The states of language, by the routes that lead out of each: first all, then as in each situation."""
        all_routes = frozenset(verb.name for verb in self.routes)
        return tuple(dict.fromkeys([all_routes, *(self.leading(legal) for legal in legal_sets(self.declared))]))

    def leading(self, legal: Iterable[str]) -> frozenset[str]:
        """The routes that may be taken where these of the declared actions are legal."""
        may = {*legal, *self.tools}
        return frozenset(verb.name for verb in self.routes if verb.name in may)

    def begins(self, legal: Sequence[str] | None) -> int:
        """Return the state of language for these legal actions. A set of no situation begins with all routes."""
        language = self.languages[0] if legal is None else self.leading(legal)
        return self.languages.index(language) if language in self.languages else 0

    @property
    def entries(self) -> Mapping[str, ChoiceText]:
        return {verb.name: (verb.name, route_text(verb)) for verb in self.routes}

    @property
    def answers(self) -> bool:
        """Flag of protocols in which text alone is an answer."""
        return not self.declared or any(verb.name == ANSWER for verb in self.declared)

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> ExpA:
        refuse_names([verb.name for verb in (*tools, *actions)])
        bound = replace(self, tool_verbs=tools, declared=actions)
        if not bound.routes:
            raise MistakeError("protocol=expa: the environment lends and declares nothing to do; use protocol=direct")
        return bound

    @property
    def introduction(self) -> str | None:
        if self.instruction is not None:
            return self.instruction or None
        return " ".join(f"{label(verb)}: {verb.description}." for verb in self.routes)

    def context(
        self, task: Task, opening: tuple[Part, ...], past: Sequence[Turn], legal: Sequence[str] | None = None
    ) -> Iterator[Piece]:
        turn = None
        for piece in super().context(task, opening, past, legal):
            gap = "" if turn is None or not piece.text else self.gap(past[turn], piece.text)
            yield piece._replace(text=gap + piece.text)
            turn = piece.turn

    def gap(self, turn: Turn, observation: str) -> str:
        """Return the text between a turn and its observation: after a button a line goes on, if it has room for all."""
        verb = next((verb for verb in self.routes if verb.name == turn.action.name), None)
        if verb is None or (verb.argument and verb.buttons is None):
            return "" if turn.completion.stop == "stop" else "\n"
        return "\n" if "\n" in observation[:-1] else "" if "".join(press(verb, turn.action.text)).endswith(" ") else " "

    @property
    def added(self) -> Mapping[str, str]:
        """Routes by their names, buttons by how they are written; verbs share buttons that are written alike."""
        descriptions: dict[str, str] = {}
        for verb in self.routes:
            for name, description in (verb.name, route_text(verb)), *((text, text) for text in pressed_in(verb)):
                if descriptions.setdefault(name, description) != description:
                    raise MistakeError(f"protocol=expa: two actions have the name {name!r:.60}; rename the verb")
        return descriptions

    def draw(self, actions: Actions | None, encode: Encode) -> Automaton:
        ids = {} if actions is None else {name: actions.first + i for i, name in enumerate(actions.names)}
        first = len(self.languages)
        inside: list[State] = []
        moves: dict[int, int] = {}
        for verb in self.routes:
            start = first + len(inside)
            states = states_of(verb, ids, first=start)
            if states:
                moves[ids[verb.name]] = start
            inside += states
        spoken = [speaking(frozenset(ids[name] for name in routes), moves, ids) for routes in self.languages]
        return Automaton(states=(*spoken, *inside), actions=actions)

    def understand(self, choices: Sequence[ChoiceText], stop: Stop) -> Action:
        routes = {verb.name: verb for verb in self.routes}
        start = next((place for place, (name, _) in enumerate(choices) if name in routes), None)
        if start is None:
            return uncut(self.answer("".join(text for _, text in choices)), stop)
        return uncut(self.take(routes[choices[start][0]], choices[start + 1 :]), stop)

    def answer(self, text: str) -> Action:
        reply = without_end(text, self.stops, self.reasoning).strip()
        if not self.answers:
            return invalid(f"choose one of: {', '.join(map(label, self.routes))}")
        return Action(kind="answer", text=reply) if reply else invalid("say something")

    def take(self, verb: Verb, after: Sequence[ChoiceText]) -> Action:
        """Return the action of a route with the choices after it."""
        if verb.buttons is not None:
            return self.action(verb, "".join(name for name, _ in after)[len(verb.buttons.between) :].rstrip())
        argument = "".join(text for _, text in after).strip()
        if verb.argument and (not argument or after[-1][0] != ENTER):
            return invalid(f"{verb.name} needs {verb.argument}, and the end of the line")
        return self.action(verb, argument)

    def action(self, verb: Verb, text: str) -> Action:
        return Action(kind="call" if verb in self.tool_verbs else "act", name=verb.name, text=text)

    def parse(self, text: str, stop: Stop) -> Action:
        """Return the action of written text: a thought, and a route with its argument; or an answer.

        After a thought only what buttons can press is an argument, as any text may go on.
        """
        stripped, routes = text.strip(), {verb.name: verb for verb in self.routes}
        for word in re.finditer(r"(?<!\S)\w+", stripped):
            verb, rest = routes.get(word[0]), stripped[word.end() :].strip()
            if verb is not None and bool(rest) == bool(verb.argument) and (not word.start() or can_press(verb, rest)):
                return uncut(self.action(verb, rest), stop)
        return uncut(self.answer(text), stop)

    def choose(self, move: Move) -> list[ChoiceText]:
        """The inverse of `understand`; a ValueError for what no choices mean."""
        action, name = move.action, move.action.name
        if action.kind == "answer":
            reply = f"{move.thought} {action.text.strip()}".strip() + (self.stops[0] if self.stops else "")
            parsed = self.answer(reply)
            require_same_action(parsed, replace(parsed, text=without_end(reply, self.stops)))
            return [("", reply)]
        verb = next((verb for verb in self.routes if verb.name == name), None)
        if verb is None or self.action(verb, action.text) != action:
            raise ValueError(f"protocol=expa: no turn says this {action.kind}: there is no route {name!r:.60} for it")
        thought = [("", move.thought)] if move.thought else []
        chosen = [*thought, (name, route_text(verb)), *argument_choices(verb, action.text.strip())]
        require_same_action(self.understand(chosen, "stop"), action)
        return chosen

    def write(self, move: Move) -> str:
        return "".join(text for _, text in self.choose(move))


def label(verb: Verb) -> str:
    """Return a route's name and, in capitals, the meaning of its argument."""
    return spell(replace(verb, phrase=""))


def route_text(verb: Verb) -> str:
    """Return a route as it stands in a context: a word, apart from what is pressed after it."""
    apart = verb.buttons is not None and not verb.buttons.between
    return f" {verb.name} " if apart else f" {verb.name}"


def pressed_in(verb: Verb) -> Iterator[str]:
    """A verb's buttons, as they are written."""
    if verb.buttons is not None:
        names = dict.fromkeys(name for state in verb.buttons.states for name in state)
        yield from (verb.buttons.between + name for name in names)
    elif verb.argument:
        yield ENTER


def speaking(routes: frozenset[int], moves: Mapping[int, int], ids: Mapping[str, int]) -> State:
    """Language: all text, and these routes."""
    return State(
        forbidden=frozenset(ids.values()) - routes,
        moves={chosen: target for chosen, target in moves.items() if chosen in routes},
        ends=routes - moves.keys(),
    )


def states_of(verb: Verb, ids: Mapping[str, int], first: int) -> list[State]:
    """The states that a verb's route leads into, numbered from `first`; none where it ends the turn."""
    if verb.buttons is not None:
        return [pressing(state, verb.buttons, ids, first) for state in verb.buttons.states]
    others = frozenset(ids.values()) - {ids.get(ENTER, -1)}
    return [State(forbidden=others, ends=frozenset({ids[ENTER]}))] if verb.argument else []


def pressing(state: Mapping[str, int | None], buttons: Buttons, ids: Mapping[str, int], first: int) -> State:
    targets = {ids[buttons.between + name]: target for name, target in state.items()}
    return State(
        allowed=frozenset(targets),
        moves={chosen: first + target for chosen, target in targets.items() if target is not None},
        ends=frozenset(chosen for chosen, target in targets.items() if target is None),
    )


def argument_choices(verb: Verb, text: str) -> Iterable[ChoiceText]:
    """An argument as it is chosen."""
    if verb.buttons is not None:
        return [(button, button) for button in presses(verb.buttons, text)]
    return [("", f" {text}"), (ENTER, ENTER)] if verb.argument else []


def can_press(verb: Verb, text: str) -> bool:
    """Return whether a verb's buttons write an argument, or there is none to write."""
    return not verb.argument if verb.buttons is None else bool(press(verb, text))


def press(verb: Verb, text: str) -> list[str]:
    """The buttons that write an argument; none where they cannot."""
    try:
        return [] if verb.buttons is None else list(presses(verb.buttons, text))
    except ValueError:
        return []


def presses(buttons: Buttons, text: str) -> Iterator[str]:
    """Yield the texts of the buttons that write an argument; where several buttons fit, the longest. The text may lack
    the blank at the end of the last button."""
    left, state = buttons.between + text, 0
    while True:
        fitting = [name for name in buttons.states[state] if f"{left} ".startswith(buttons.between + name)]
        if not fitting:
            raise ValueError(f"protocol=expa: no buttons write {text!r:.60}: none writes {left!r:.20}")
        name = max(fitting, key=len)
        yield buttons.between + name
        left, target = left[len(buttons.between + name) :], buttons.states[state][name]
        if target is None:
            break
        state = target
    if left:
        raise ValueError(f"protocol=expa: no buttons write {text!r:.60}: it is whole before {left!r:.20}")
