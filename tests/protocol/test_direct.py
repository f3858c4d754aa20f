from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlx.environment.dialect import Dialect
from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.tags import Tags
from rlx.types import Action, Move, Stop, Task, Text, Verb
from tests.errors import raises_naming
from tests.loops import for_each

GUESS = Verb(name="guess", description="guess", argument="number")
MAZE = (
    Verb(name="left", description="turn left"),
    Verb(name="say", description="say something", argument="words"),
    Verb(name="answer", description="give the answer", argument="text"),
)
PYTHON = Verb(name="python", description="run Python", argument="code")
TASK = Task(id="t", prompt=(Text("Go."),), data={})


def act(name: str, text: str = "") -> Action:
    return Action(kind="act", name=name, text=text)


@for_each(
    "declared, text, action",
    [
        ((), "7\n", Action(kind="answer", text="7")),
        ((), "7\nand more", Action(kind="answer", text="7")),
        ((), "7", Action(kind="answer", text="7")),  # ended by the model itself
        ((), "\n", Action(kind="invalid", text="say something")),
        ((GUESS,), "25\n", act("guess", "25")),
        ((GUESS,), "guess 25\n", act("guess", "guess 25")),  # the bare completion is the argument
        (MAZE, "left\n", act("left")),
        (MAZE, " left \n", act("left")),
        (MAZE, "say hello you\n", act("say", "hello you")),
        (MAZE, "answer 42\n", Action(kind="answer", text="42")),
        (MAZE, "left now\n", Action(kind="invalid", text="say one of: left, say WORDS, answer TEXT")),
        (MAZE, "say\n", Action(kind="invalid", text="say one of: left, say WORDS, answer TEXT")),
        (MAZE, "up\n", Action(kind="invalid", text="say one of: left, say WORDS, answer TEXT")),
    ],
)
def test_a_turn_is_read_as_it_stands(declared: tuple[Verb, ...], text: str, action: Action) -> None:
    assert Direct().bind((), declared).parse(text, "stop") == action


DIALECTS: tuple[Dialect, ...] = (
    Answer(),
    Tags().bind((PYTHON,), ()),
    Tags().bind((PYTHON,), MAZE),
    Direct(),
    Direct().bind((), (GUESS,)),
    Direct().bind((), MAZE),
    Boxed(),
    Boxed().bind((PYTHON,), (GUESS,)),
    Boxed().bind((PYTHON,), MAZE),
)
SAID = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["<answer>1</answer>", "<python>\n1\n</python>", "<left></left>", "left\n", "7\n", "say it\n", "\\boxed{7}"]
    ),
)


@given(SAID, st.sampled_from(["length", "context"]), st.sampled_from(DIALECTS))
def test_a_turn_that_was_cut_is_never_an_action(text: str, stop: Stop, dialect: Dialect) -> None:
    assert dialect.parse(text, stop).kind == "invalid"


@given(SAID, st.sampled_from(["stop", "eos"]), st.sampled_from(DIALECTS))
def test_parse_is_total(text: str, stop: Stop, dialect: Dialect) -> None:
    assert dialect.parse(text, stop).kind in ("answer", "call", "act", "invalid")


ARGUMENT = st.text(st.characters(exclude_characters="\n<", exclude_categories=("Cs", "Cc", "Z")), min_size=1)


@given(st.sampled_from(DIALECTS[1:]), st.sampled_from([*MAZE, GUESS, PYTHON]), ARGUMENT)
def test_what_can_be_written_is_read_back(dialect: Dialect, verb: Verb, argument: str) -> None:
    kind = {"answer": "answer", "python": "call"}.get(verb.name, "act")
    text = argument if verb.argument else ""
    action = Action(kind=kind, name="" if kind == "answer" else verb.name, text=text)  # type: ignore[arg-type]
    try:
        written = dialect.write(Move(thought="", action=action))
    except ValueError:
        return
    assert dialect.parse(written, "stop") == action
    assert written.endswith((*dialect.stops, "}"))


def test_what_a_stop_would_cut_cannot_be_said() -> None:
    with raises_naming(ValueError, "protocol.stops", "protocol=fenced"):
        Direct().write(Move(thought="", action=Action(kind="answer", text="two\nlines")))
    assert Direct(stops=()).write(Move(thought="", action=Action(kind="answer", text="two\nlines"))) == "two\nlines"


def test_tags_speak_the_tools_and_actions_of_any_environment() -> None:
    tags = Tags().bind((PYTHON,), MAZE)
    assert tags.stops == ("</python>", "</left>", "</say>", "</answer>")
    assert tags.parse("<think>hm</think><left></left>", "stop") == act("left")
    assert tags.parse("<say>hi</say>", "stop") == act("say", "hi")
    assert tags.open(TASK) == (
        "Think in <think>, run Python in <python>, turn left in <left>, say something in <say>, "
        "read its <observation>, and finish with <answer>.\nGo.\n"
    )
    assert Tags().bind((), (GUESS,)).open(TASK) == (
        "Think in <think>, guess in <guess>, and read its <observation>.\nGo.\n"
    )
    assert Tags().bind((), (GUESS,)).parse("<answer>7</answer>", "stop").kind == "invalid"


@for_each("names", [("think",), ("observation",), ("a b",), ("<x>",), ("go", "go"), ("",)])
def test_names_that_no_tag_can_have_are_refused(names: tuple[str, ...]) -> None:
    with raises_naming(ValueError, "env:"):
        Tags().bind((), tuple(Verb(name=name, description="go") for name in names))


def test_observations_and_prompts_are_lines() -> None:
    assert Direct().open(TASK) == "Go.\n"
    assert Direct(instruction="Play.").open(TASK) == "Play.\nGo.\n"
    assert Direct().render((Text("higher\x1b[2J"), Text("on"))) == "higher[2J\non\n"


WALKS = (
    Verb(name="turn_left", description="turn left", phrase="turn left"),
    Verb(name="drop", description="drop it"),
    Verb(name="walk_to", description="walk to a place", argument="place", phrase="walk to"),
)


@for_each(
    "text, action",
    [
        ("turn left", Action(kind="act", name="turn_left", text="")),
        (" Turn  Left\n", Action(kind="act", name="turn_left", text="")),
        ("drop", Action(kind="act", name="drop", text="")),
        ("walk to the red ball", Action(kind="act", name="walk_to", text="the red ball")),
    ],
)
def test_a_phrase_says_an_action_of_several_words(text: str, action: Action) -> None:
    assert Direct().bind((), WALKS).parse(text, "stop") == action
    written = Direct().bind((), WALKS).write(Move(thought="", action=action))
    assert Direct().bind((), WALKS).parse(written, "stop") == action
    assert written == " ".join(text.lower().split()) + "\n"


@for_each("text", ["turn_left", "turn", "left", "turn left now", "drop it", "walk to", "walk", "turnleft"])
def test_another_text_than_the_phrase_says_nothing(text: str) -> None:
    said = Direct().bind((), WALKS).parse(text, "stop")
    assert said == Action(kind="invalid", text="say one of: turn left, drop, walk to PLACE")


def test_tags_have_the_name_of_an_action_with_a_phrase() -> None:
    tags = Tags().bind((), WALKS)
    assert tags.parse("<turn_left></turn_left>", "stop") == Action(kind="act", name="turn_left", text="")
    assert "turn left in <turn_left>" in tags.open(Task(id="1", prompt=(Text("Go."),), data={}))
