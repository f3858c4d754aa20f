"""Prompts and contexts of BabyAI-Text agents beside the paper's text, and contexts without invalid turns' own text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.babyai.babyai import BabyAI
from rlx.environment import Environment, Episode
from rlx.environment.world import dialect_of
from rlx.gym.views import messages_of
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.final_answer import FinalAnswer
from rlx.protocol.history import History, first_prompt
from rlx.protocol.standalone import Standalone
from rlx.rollout.episode import Scene, World
from rlx.rollout.measure import measure
from rlx.rollout.speech import Speech
from rlx.runs.codec import from_json, to_json
from rlx.settings.folders import read_option
from rlx.types import Action, Completion, Fork, Group, Start, Step, Stop, Task, Text, Trajectory, Turn, Verb
from tests.errors import raises_naming
from tests.loops import for_each

ACTIONS = """\
- turn left
- turn right
- go forward
- pick up
- drop
- toggle
"""
DIRECT = f"""\
You are an agent. Your goal is to pick up a blue box.

Below are actions you may choose:

{ACTIONS}
Note: Only output a valid action (up to two words) and nothing else. PLAY!
"""
REASONING = f"""\
You are an intelligent agent. Your goal is to pick up a blue box. Before outputting your final answer, think \
step-by-step (in at most 10 words) about which action best advances your goal. Your response should end with "final \
answer: [answer]", where [answer] is a chosen valid action (up to two words and nothing else) from below:

{ACTIONS}
PLAY!
"""
"""Appendix B of "Incentivizing both Grounding and Reasoning in Large Language Models with Online Reinforcement
Learning", by hand. Its bold face is left out."""
VIEW = """\
You see a wall 2 steps left
You see a grey key 1 step left and 1 step forward
You see a purple ball 2 steps forward
You see a red ball 1 step right and 2 steps forward
"""
NONSENSE = "ragazialis.imgur castle Immediate Formatting mismehrtub dorsews ralloonexist Innov"
WARNING = (
    "Invalid format. Think step-by-step and end your response with 'final answer: [answer]', where [answer] is one of: "
    "turn left, turn right, go forward, pick up, drop, toggle, done.\n"
)
"""Appendix C, by hand."""
TASK = Task(id="t", prompt=(Text("Pick up a blue box."),), data={"goal": "pick up a blue box"})
OPENING = (Text(VIEW.rstrip("\n")),)


def option(name: str, **keys: Any) -> Any:
    found = {key: value for key, value in read_option("protocol", name).items() if key != "_target_"}
    kind = Direct if "direct" in name else FinalAnswer
    return dialect_of(BabyAI(), kind(**{**found, "reasoning": False, **keys}))


def reply(dialect: Any, text: str, seen: str, invalid: bool = False, stop: Stop = "eos") -> Turn:
    ids = (*text.encode(), END)
    done = Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop=stop)
    return Turn(
        prompt_ids=(), completion=done, action=dialect.parse(text, stop), observation=(Text(seen),), invalid=invalid
    )


def messages(dialect: Any, past: Sequence[Turn], opening: tuple[Text, ...] = OPENING) -> list[tuple[str, str]]:
    said = [bytes(one for one in turn.completion.token_ids if one < END).decode() for turn in past]
    return [(one["role"], one["content"]) for one in messages_of(dialect.context(TASK, opening, past), said)]


@for_each(
    "name, expected",
    [
        ("babyai_direct", DIRECT),
        ("babyai_reasoning", REASONING),
        ("direct_goal", "Your goal is to pick up a blue box.\n"),
        ("final_answer_goal", "Your goal is to pick up a blue box. Think first.\n"),
    ],
)
def test_the_prompts_are_as_they_are_printed(name: str, expected: str) -> None:
    assert messages(option(name), ()) == [("system", expected), ("user", VIEW)]
    assert first_prompt(option(name), TASK, OPENING) == expected + VIEW


END = 256


@pytest.mark.parametrize(("sanitise", "shown"), [(False, NONSENSE), (True, "Generated invalid action")])
def test_an_invalid_turn_is_shown_as_in_appendix_c(sanitise: bool, shown: str) -> None:
    dialect = option("babyai_reasoning", sanitise=sanitise)
    past = [reply(dialect, NONSENSE, "Error: …")]
    assert past[0].is_invalid
    expected = [("system", REASONING), ("user", VIEW), ("assistant", shown), ("user", WARNING)]
    assert messages(dialect, past) == expected


def test_a_window_holds_the_system_message_and_the_last_nine() -> None:
    dialect = option("babyai_reasoning")
    texts = [f"Turn {index}. final answer: turn left" for index in range(6)]
    past = [reply(dialect, text, f"view {index}") for index, text in enumerate(texts)]
    past[3] = reply(dialect, "hm", "Error")
    past[5] = reply(dialect, texts[5], "Error", invalid=True)  # read, and rejected by the environment
    assert messages(dialect, past) == [
        ("system", REASONING),
        ("user", "view 1\n"),
        ("assistant", texts[2]),
        ("user", "view 2\n"),
        ("assistant", "Generated invalid action"),
        ("user", WARNING),
        ("assistant", texts[4]),
        ("user", "view 4\n"),
        ("assistant", "Generated invalid action"),
        ("user", WARNING),
    ]
    assert messages(dialect, past[:4])[1:4] == [("user", VIEW), ("assistant", texts[0]), ("user", "view 0\n")]
    raw = option("babyai_reasoning", sanitise=False, correction=None)
    assert messages(raw, past)[4:6] == [("assistant", "hm"), ("user", "Error\n")]
    assert messages(raw, past)[8:] == [("assistant", texts[5]), ("user", "Error\n")]


def test_the_observation_before_the_window_is_a_correction_too() -> None:
    dialect = option("babyai_reasoning", window=1)
    past = [reply(dialect, "hm", "Error"), reply(dialect, "final answer: drop", "view")]
    assert messages(dialect, past)[1:] == [("user", WARNING), ("assistant", "final answer: drop"), ("user", "view\n")]


def test_a_correction_lists_the_real_actions() -> None:
    dialect = option("babyai_direct")
    told = messages(dialect, [reply(dialect, "done", "Error")])[-1][1]
    assert told.endswith("one of: turn left, turn right, go forward, pick up, drop, toggle.\n")
    plain = FinalAnswer().bind((), BabyAI().actions)
    heard = plain.parse(NONSENSE, "eos").text
    assert heard.endswith("X is one of: turn left, turn right, go forward, pick up, drop, toggle")


def test_keys_that_contradict_each_other_are_refused_by_name() -> None:
    with raises_naming(ValueError, "window=0", "correction"):
        Direct(window=0, correction="No.")
    for keys, place in (({"sanitise": True}, "sanitise=True"), ({"correction": "No."}, "correction=No.")):
        with raises_naming(ValueError, place, "protocol=standalone"):
            Standalone(**keys)


MARKS = {
    ("", "system"): (301,),
    ("system", "user"): (END, 302),
    ("", "user"): (303,),
    ("user", "assistant"): (END, 304),
    ("assistant", "user"): (END, 305),
}


def speech(dialect: Any, *, chat: bool) -> Speech:
    """A token is a byte, and a turn ends with END."""
    return Speech(
        dialect=dialect,
        encode=lambda text: list(text.encode()),
        decode=lambda ids: bytes(one for one in ids if one < END).decode(errors="replace"),
        marks=MARKS if chat else {},
        end=END,
    )


def test_in_a_chat_the_replaced_text_is_a_message_and_other_turns_are_the_sampled_ids() -> None:
    dialect = option("babyai_reasoning")
    good, bad = reply(dialect, "A. final answer: drop", "seen"), reply(dialect, "hm", "Error")
    start = [301, *REASONING.encode(), END, 302, *VIEW.encode(), END, 304]
    first = [*good.completion.token_ids, 305, *b"seen\n", END, 304]
    second = [*b"Generated invalid action", END, 305, *WARNING.encode(), END, 304]
    assert list(speech(dialect, chat=True).context(TASK, OPENING, [good, bad])) == [*start, *first, *second]
    text = [*REASONING.encode(), *VIEW.encode(), *good.completion.token_ids, *b"seen\n"]
    hidden = [*b"Generated invalid action", END, *WARNING.encode()]  # ended as the turn was
    assert list(speech(dialect, chat=False).context(TASK, OPENING, [good, bad])) == [*text, *hidden]


def test_where_a_line_ends_a_turn_it_ends_the_replaced_text() -> None:
    for dialect in (Direct(sanitise=True), FinalAnswer(sanitise=True)):
        bound = dialect.bind((), BabyAI().actions)
        ids = tuple(b"hm")
        cut = Completion(token_ids=ids, logprobs=(0.0,) * 2, stop="length")
        turn = Turn(prompt_ids=(), completion=cut, action=bound.parse("hm", "length"), observation=(Text("Error"),))
        text = bytes(speech(bound, chat=False).context(TASK, (), [turn])).decode()
        assert text.endswith("Generated invalid action\nError\n")


def test_one_user_message_holds_the_replaced_text_without_an_end() -> None:
    dialect = Boxed(sanitise=True, prompt_template="Play. {episode}").bind((), BabyAI().actions)
    turn = reply(dialect, "hm", "Error")
    context = list(speech(dialect, chat=True).context(TASK, (), [turn]))
    assert bytes(one for one in context if one < END).decode().endswith("\nGenerated invalid action\nError\n")
    assert context.count(END) == 1


class Shy(Environment, Episode):
    """An environment that rejects an action which its agent may say: pushing twice."""

    actions = (Verb(name="push", description="push"), Verb(name="pull", description="pull"))
    max_rounds = 9

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter(())

    def start(self, task: Task) -> Shy:
        self.pushed = 0
        return self

    def opening(self) -> Step:
        return Step(observation=(Text("ready"),))

    def step(self, action: Action) -> Step:
        is_invalid = action.kind == "invalid" or (action.name == "push" and self.pushed > 0)
        self.pushed += action.name == "push"
        return Step(observation=(Text("no" if is_invalid else "yes"),), reward=-1.0 * is_invalid, invalid=is_invalid)


def played(dialect: History, texts: Sequence[str], start: Start, contexts: list[tuple[int, ...]]) -> Trajectory:
    """Play the texts of a start's own turns, and note the context of each turn and the last."""
    spoken = speech(dialect, chat=True)
    with ExitStack() as stack:
        scene = Scene(World(env=Shy(), speech=spoken, max_rounds=9), start, stack)  # type: ignore[arg-type]
        context = scene.begin()
        for text in texts:
            contexts.append(context)
            ids = (*text.encode(), END)
            done = Completion(token_ids=ids, logprobs=(-1.0,) * len(ids), stop="eos")
            context = scene.act(context, done)
        contexts.append(context)
        return scene.end("done")


SAYS = st.lists(st.sampled_from(["push", "pull", "hm", "final answer: push", "A. final answer: pull"]), max_size=6)


@given(SAYS, st.integers(0, 6), st.sampled_from([None, 1, 3]), st.booleans())
def test_a_replay_and_a_fork_from_disk_have_the_same_contexts_and_train_what_was_sampled(
    texts: list[str], at: int, window: int | None, sanitise: bool
) -> None:
    kind = FinalAnswer(window=window, sanitise=sanitise, correction="Say {actions}.", stops_at=())
    dialect = kind.bind((), Shy.actions)
    contexts: list[tuple[int, ...]] = []
    whole = played(dialect, texts, Start(task=TASK, sample=0), contexts)
    assert [turn.prompt_ids for turn in whole.turns] == contexts[:-1]
    assert [bytes(turn.completion.token_ids[:-1]).decode() for turn in whole.turns] == texts
    stored = from_json(json.loads(json.dumps(to_json(whole))))
    assert stored == whole
    at = min(at, len(texts))
    for start in (
        Start(task=TASK, sample=0, prefix=stored.turns[:at]),
        Start(task=TASK, sample=1, prefix=stored.turns, fork=Fork(parent=0, turn=at)),
    ):
        again: list[tuple[int, ...]] = []
        assert played(dialect, texts[at:], start, again).turns == whole.turns
        assert again == contexts[at:]
    for turn in whole.turns:
        assert turn.is_invalid == (turn.observation == (Text("no"),))
    hidden = b"Generated invalid action"
    is_shown = any(hidden in bytes(one for one in context if one < END) for context in contexts)
    assert is_shown == (sanitise and any(turn.is_invalid for turn in whole.turns))


def test_turns_that_the_environment_rejects_are_stored_and_counted_as_invalid() -> None:
    dialect = FinalAnswer().bind((), Shy.actions)
    texts = ["final answer: push", "final answer: push", "hm", "Pull. final answer: pull"]
    trajectory = played(dialect, texts, Start(task=TASK, sample=0), [])
    assert [turn.is_invalid for turn in trajectory.turns] == [False, True, True, False]
    assert [turn.action.kind for turn in trajectory.turns] == ["act", "act", "invalid", "act"]
    found = measure([Group(task=TASK, trajectories=(trajectory,))])
    assert found["turn/invalid"] == 0.5
    assert (found["reply/reasoning_words"], found["reply/only_action"]) == (pytest.approx(1 / 3), 1.0)
    turns = to_json(trajectory)["turns"]
    assert ["invalid" in turn for turn in turns] == [False, True, True, False]
    assert ["reply" in turn for turn in turns] == [True, True, False, True]
    for turn in turns:
        turn.pop("invalid", None), turn.pop("reply", None)
    older = from_json({**to_json(trajectory), "turns": turns})
    assert [turn.is_invalid for turn in older.turns] == [False, False, True, False]
