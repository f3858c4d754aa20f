"""Instructions with places for the goal and the actions: their text, the message it is, and where it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rlx.base.limits import MistakeError
from rlx.environment.dialect import Dialect
from rlx.gym.views import apply_template, messages_of
from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.expa import ExpA
from rlx.protocol.fenced import Fenced
from rlx.protocol.history import first_prompt
from rlx.protocol.standalone import Standalone
from rlx.protocol.tags import Tags
from rlx.types import Piece, Task, Text, Verb
from tests.errors import raises_naming
from tests.loops import for_each

TASK = Task(id="t", prompt=(Text("Fetch the {actions}."),), data={"goal": "fetch the {actions}"})
OPENING = (Text("You see a ball."),)
VERBS = (
    Verb(name="turn_left", description="turn left", phrase="turn left"),
    Verb(name="say", description="say something", argument="words"),
)
WORDS = "Your goal is to {goal}. You may:\n{actions}\nGo!"
FILLED = "Your goal is to fetch the {actions}. You may:\n- turn left\n- say WORDS\nGo!\n"
KINDS = (Direct, Boxed, Fenced, Tags, Answer, ExpA, Standalone)


@for_each("kind", KINDS)
def test_an_instruction_with_a_goal_is_a_system_message_and_all_that_is_told(kind: Any) -> None:
    dialect: Dialect = kind(instruction=WORDS).bind((), VERBS)
    pieces = list(dialect.context(TASK, OPENING, ()))
    assert pieces[0] == Piece("system", FILLED)
    assert {piece.role for piece in pieces[1:]} == {"user"}
    rest = "".join(piece.text for piece in pieces[1:])
    assert "Fetch the" not in rest
    assert "You see a ball." in rest
    assert dialect.begin(TASK, OPENING) == first_prompt(dialect, TASK, OPENING) == FILLED + rest  # type: ignore[attr-defined]
    assert dialect.open(TASK).startswith(FILLED)


@for_each("kind", KINDS)
def test_an_instruction_with_actions_alone_leaves_the_tasks_prompt(kind: Any) -> None:
    dialect: Dialect = kind(instruction="You may:\n{actions}").bind((), VERBS)
    first, *rest = dialect.context(TASK, OPENING, ())
    assert first == Piece("system", "You may:\n- turn left\n- say WORDS\n")
    assert "".join(piece.text for piece in rest).startswith("Fetch the {actions}.\n")


def test_an_instruction_without_places_stays_as_it_is() -> None:
    dialect = Boxed(instruction="Box it: \\boxed{}.").bind((), VERBS)
    assert list(dialect.context(TASK, (), ())) == [
        Piece("user", "Box it: \\boxed{}.\nFetch the {actions}.\n"),
        Piece("user", ""),
    ]


@pytest.mark.parametrize("data", [{}, {"goal": ""}, {"goal": 5}])
def test_a_goal_that_no_task_tells_is_refused_by_the_name_of_the_key_and_tells_no_answer(data: dict[str, Any]) -> None:
    task = Task(id="secret", prompt=(), data=data)
    with raises_naming(MistakeError, "protocol.instruction:", "task.data['goal']") as error:
        first_prompt(Direct(instruction="Reach {goal}.").bind((), VERBS), task)
    assert "secret" not in str(error.value), "a task of a word game is named by its answer"


def test_a_goal_that_a_part_of_a_mixture_does_not_tell_is_refused_by_the_name_of_the_part() -> None:
    with raises_naming(MistakeError, "protocol.instruction:", "game_hangman"):
        first_prompt(Direct(instruction="{goal}"), Task(id="t", env="game_hangman", prompt=(), data={}))


def test_actions_that_no_environment_declares_are_refused_by_the_name_of_the_key() -> None:
    with raises_naming(MistakeError, "protocol.instruction:", "actions"):
        first_prompt(Direct(instruction="{actions}"), TASK)


def test_a_prompt_template_holds_the_system_message_too() -> None:
    dialect = Direct(instruction=WORDS, prompt_template="Play. {episode}").bind((), VERBS)
    assert list(dialect.context(TASK, OPENING, ())) == [Piece("user", f"Play. {FILLED}You see a ball.\n")]


class Spoken:
    """A tokenizer with a chat template that shows, refuses or leaves out messages of the system."""

    chat_template = ""

    def __init__(self, has_system: bool, refuses: bool = True) -> None:
        self.has_system, self.refuses = has_system, refuses

    def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        if not self.has_system and self.refuses and messages[0]["role"] == "system":
            raise ValueError("System role not supported")
        shown = [one for one in messages if self.has_system or one["role"] != "system"]
        return "".join(f"[{one['role']}]{one['content']}" for one in shown) + "[assistant]"


@pytest.mark.parametrize("refuses", [True, False])
def test_a_gym_view_gives_the_system_message_to_the_user_where_the_template_has_none(refuses: bool) -> None:
    dialect = Direct(instruction=WORDS).bind((), VERBS)
    messages = messages_of(dialect.context(TASK, OPENING, ()), ())
    assert apply_template(messages, Spoken(True)) == f"[system]{FILLED}[user]You see a ball.\n[assistant]"
    assert apply_template(messages, Spoken(False, refuses)) == f"[user]{FILLED}You see a ball.\n[assistant]"
