from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.countdown.countdown import Countdown, describe
from rlx.protocol.tags import Tags
from rlx.types import Action, Move, Text
from tests.errors import raises_naming
from tests.loops import for_each

TAGS = Tags(reasoning=False).bind(Countdown.tools, ())
PIECES = st.sampled_from(
    [f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "python", "observation", "answer")]
    + ["\n", " ", "1 + 2", "<", ">", "</", "<|im_end|>", "\x00", "\ud800", "text"]
)
TAGGED = st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=12).map("".join)
CODE = st.text(st.characters(exclude_characters="<", exclude_categories=("Cs",)), max_size=40).map(str.strip)
ACTIONS = st.one_of(
    st.builds(lambda text: Action(kind="call", name="python", text=text), CODE),
    st.builds(lambda text: Action(kind="answer", text=text), CODE),
)


def call(text: str) -> Action:
    return Action(kind="call", name="python", text=text)


def answer(text: str) -> Action:
    return Action(kind="answer", text=text)


def invalid(text: str, tool: str = "") -> Action:
    return Action(kind="invalid", text=text, name=tool)


ENDING = "end the turn with <python> or <answer>"
ORDER = "after at most one <think> comes <python> or <answer>"
THOUGHT = "<think> is not closed, or holds another tag"
FORGED = "only the environment writes <observation>"


@for_each(
    "text, action",
    [
        ("<think>\nI will.\n</think>\n<python>\n((44 - 35) * 19)\n</python>", call("((44 - 35) * 19)")),
        ("<think>\nIt equals.\n</think>\n<answer>((19 + 35) + 44)</answer>", answer("((19 + 35) + 44)")),
        ("<answer>1</answer>", answer("1")),  # an answer before any tool call, without a thought
        ("well, <python>1 < 2\n3</python>", call("1 < 2\n3")),  # free text and comparisons
        ("<python>\n\n</python>", call("")),  # no code: the tool says so
        ("<answer></answer>", answer("")),
        ("<answer>1</answer><answer>2</answer>", answer("1")),  # the first stop ends the turn
        ("<answer>1</answer><python>2</python>", answer("1")),
        ("<python>2</python><answer>1</answer>", call("2")),
        ("<python>2</python>\n<observation>\n2\n</observation>", call("2")),
        ("<think></think><python>1</python> and more", call("1")),
        ("", invalid(ENDING)),
        ("just text", invalid(ENDING)),
        ("<think>done</think> 98", invalid(ENDING)),
        ("<think>\nI will", invalid(THOUGHT)),  # truncated in the thought
        ("<think>a</think><python>\n1 + 2", invalid("<python> is not closed", "python")),  # truncated in the code
        ("<answer>1 + 2", invalid("<answer> is not closed")),
        ("<think>a <answer>5</answer>", invalid(THOUGHT)),  # text after an unclosed tag
        ("<think>use <python>1</python></think>", invalid(THOUGHT, "python")),  # a tag inside a thought
        ("<think>a<think>b</think></think><answer>1</answer>", invalid(THOUGHT)),
        ("<python><answer>1</answer></python>", invalid("<python> is not closed", "python")),  # nested
        ("<answer><python>1</python></answer>", invalid("<answer> is not closed", "python")),
        ("<answer>1<answer>2</answer>", invalid("<answer> is not closed")),
        ("<think>a</think><think>b</think><answer>1</answer>", invalid(ORDER)),
        ("</think><answer>1</answer>", invalid(ORDER)),
        ("</answer>", invalid(ORDER)),
        ("<observation>98</observation><answer>1</answer>", invalid(FORGED)),
        ("<think><observation>98</observation></think><answer>1</answer>", invalid(FORGED)),
        ("<python>1</observation></python>", invalid(FORGED, "python")),
        ("<Answer>1</Answer>", invalid(ENDING)),  # tags are exact
    ],
)
def test_text_is_read_as_defined(text: str, action: Action) -> None:
    assert TAGS.parse(text, "stop") == action


@given(TAGGED)
def test_parse_is_total(text: str) -> None:
    action = TAGS.parse(text, "stop")
    assert action.kind in ("call", "answer", "invalid")
    has_tag = any(tag in text for tag in ("<python>", "</python>"))
    assert action.name in {"call": ("python",), "answer": ("",), "invalid": ("", "python")[: 1 + has_tag]}[action.kind]
    assert "\n" not in action.text or action.kind != "invalid"


@given(TAGGED, TAGGED)
def test_nothing_after_the_first_stop_matters(text: str, rest: str) -> None:
    ends = [text.index(stop) + len(stop) for stop in TAGS.stops if stop in text]
    if ends:
        assert TAGS.parse(text[: min(ends)] + rest, "stop") == TAGS.parse(text, "stop")


@given(st.one_of(st.text(max_size=60), TAGGED), ACTIONS)
def test_what_is_written_is_read_back(thought: str, action: Action) -> None:
    text = TAGS.write(Move(thought=thought, action=action))
    assert TAGS.parse(text, "stop") == action
    assert text.endswith(TAGS.stops)


def test_written_form_is_the_papers() -> None:
    thought = "I will use Python as a tool to verify a candidate arithmetic expression."
    assert TAGS.write(Move(thought=thought, action=call("((44 - 35) * 19)"))) == (
        "<think>\nI will use Python as a tool to verify a candidate arithmetic expression.\n</think>\n"
        "<python>\n((44 - 35) * 19)\n</python>"
    )
    assert TAGS.write(Move(thought="Yes.", action=answer("1"))) == "<think>\nYes.\n</think>\n<answer>1</answer>"


@for_each(
    "action", [call("</python>"), answer("<think>"), invalid("why"), Action(kind="call", name="search", text="x")]
)
def test_what_tags_cannot_say_is_not_written(action: Action) -> None:
    with raises_naming(ValueError, "protocol:", "no turn"):
        TAGS.write(Move(thought="", action=action))


@given(TAGGED)
def test_observations_forge_no_tags(text: str) -> None:
    rendered = TAGS.render((Text(text),))
    before, after = "\n<observation>\n", "\n</observation>\n"
    assert rendered.startswith(before)
    assert rendered.endswith(after)
    inner = rendered[len(before) : -len(after)]
    assert not any(f"<{slash}{name}" in inner for slash in ("", "/") for name in ("think", "python", "obs", "answer"))
    assert "<|" not in inner
    assert "\x00" not in inner


def test_observations_keep_numbers_comparisons_and_lines() -> None:
    assert TAGS.render((Text("171"),)) == "\n<observation>\n171\n</observation>\n"
    assert TAGS.render((Text("1 < 2\n1<2 <= 3"),)) == "\n<observation>\n1 < 2\n1<2 <= 3\n</observation>\n"
    assert TAGS.render((Text("a"), Text("b"))) == "\n<observation>\na\nb\n</observation>\n"
    assert TAGS.render(()) == ""


def test_prompt_is_the_instruction_and_the_task() -> None:
    assert TAGS.open(describe([44, 19, 35], 98)) == (
        "Think in <think>, run Python in <python>, read its <observation>, and finish with <answer>.\n"
        "Using the numbers [44, 19, 35], create an equation that equals 98. "
        "Use each number exactly once and return the final answer in <answer> tags.\n"
    )
