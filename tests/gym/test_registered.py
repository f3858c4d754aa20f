"""Environments of one's own class, as GEM's README and its paper write them, with all wrappers and vectors."""

from __future__ import annotations

import random
import string
from copy import deepcopy
from typing import Any

import pytest

import rlx.gym as gem
from rlx.base.limits import MistakeError
from rlx.gym.parsing import (
    TERMINAL_STATE,
    extract_code_from_model,
    extract_last_boxed_answer,
    extract_last_tagged_answer,
)
from rlx.gym.registered import REGISTERED
from rlx.gym.tools import ToolEnvWrapper
from tests.errors import raises_naming


class Reverse(gem.Env):
    """Reverse a string; as in GEM's code, texts come from the global generator and turns are counted by itself."""

    def __init__(self, length: int = 5, max_turns: int = 2, **_: Any) -> None:
        super().__init__()
        self.length, self.max_turns = length, max_turns

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        super().reset(seed)
        self.text, self.turn = "".join(random.choices(string.ascii_letters, k=self.length)), 0
        return f"Reverse {self.text}.", {"suffix": "Go on."}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        said = extract_last_boxed_answer(action)
        if said == self.text[::-1]:
            return TERMINAL_STATE, 1.0, True, False, {}
        over = self.turn == self.max_turns
        return f"Not {said}.", 0.0, over, over, {}

    def sample_random_action(self) -> str:
        return r"\boxed{x}"


class Spoken:
    """A tokenizer that shows what it is given."""

    chat_template = "tool"

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"[{one['role']}] {one['content']}" for one in messages) + "[assistant]"


class Echo:
    tool_type = "echo"

    def instruction_string(self) -> str:
        return "You may <echo>."

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        return "<echo>" in action, "fail" in action, "echoed", action


@pytest.fixture(autouse=True)
def names() -> Any:
    gem.register("custom:Reverse", Reverse, length=4)
    gem.register("custom:Reverse-hard", f"{__name__}:Reverse", length=9)
    yield
    REGISTERED.clear()


def test_a_registered_class_is_made_by_its_name() -> None:
    env: Any = gem.make("custom:Reverse", max_turns=5)
    assert (type(env), env.length, env.max_turns, env.env_id) == (Reverse, 4, 5, "custom:Reverse")
    assert env.entry_point is Reverse
    assert gem.make("custom:Reverse-hard").length == 9
    first, _ = env.reset(seed=3)
    assert env.reset(seed=3)[0] == first
    assert env.step(rf"so \boxed{{{env.text[::-1]}}}") == (TERMINAL_STATE, 1.0, True, False, {})
    copy = deepcopy(env)
    assert (copy.text, copy.unwrapped is copy, hasattr(env, "get_state")) == (env.text, True, False)


def test_its_names_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    gem.print_envs()
    assert "custom:Reverse-hard" in capsys.readouterr().out


def test_what_cannot_be_registered_is_refused() -> None:
    with raises_naming(MistakeError, "register:", "'custom:Reverse'", "already"):
        gem.register("custom:Reverse", Reverse)
    with raises_naming(MistakeError, "register:", "entry_point=5"):
        gem.register("custom:other", 5)  # type: ignore[arg-type]
    gem.register("custom:missing", "no.such:Thing")
    gem.register("custom:dict", dict)
    with raises_naming(MistakeError, "register:", "no.such:Thing", "imported"):
        gem.make("custom:missing")
    with raises_naming(MistakeError, "custom:dict", "rlx.gym.Env"):
        gem.make("custom:dict")


@pytest.mark.parametrize("async_mode", [True, False])
def test_a_vector_steps_it_beside_others(async_mode: bool) -> None:
    wrappers = gem.get_wrapper_fns("concat_with_action,episode_tracking")
    envs = gem.make_vec(
        ["custom:Reverse", "game:GuessTheNumber-v0"], wrappers=wrappers, async_mode=async_mode, max_turns=2
    )
    seen, _ = envs.reset()
    envs.step([r"\boxed{1}", r"\boxed{51}"])
    seen, _, terminated, _, infos = envs.step([r"\boxed{2}", r"\boxed{51}"])
    assert list(terminated) == [True, True]
    assert infos[0]["prev_ep_step_counter"] == infos[1]["prev_ep_step_counter"] == 2
    assert seen[0].startswith("Reverse ")
    envs.close()


def test_wrappers_show_its_episode_as_gem_does() -> None:
    seen = {}
    for name in ("concat", "concat_with_action", "concat_chat", "concat_chat_on_reset"):
        env = gem.WRAPPER_FACTORY[name](
            gem.make("custom:Reverse"), **({"tokenizer": Spoken()} if "chat" in name else {})
        )
        env.reset()
        env.unwrapped.text = "ab"  # type: ignore[attr-defined]
        seen[name] = env.step("a turn")[0].partition(".")[2]
    assert seen == {
        "concat": "\nNot None.\n",
        "concat_with_action": "\na turn\nNot None.\n",
        "concat_chat": "[assistant] a turn[user] Not None.[assistant]",
        "concat_chat_on_reset": "[assistant]\na turn\nNot None.\n",
    }


def test_tools_answer_beside_it() -> None:
    env: Any = ToolEnvWrapper(gem.make("custom:Reverse"), [Echo()], 0.1, 0.2, max_tool_uses=2)
    env = gem.get_wrapper_fns("concat_chat,episode_tracking")[0](env)
    assert env.reset()[0][0]["content"].endswith("You may <echo>.")
    observation, reward, *_, info = env.step("<echo>")
    assert ([one["role"] for one in observation], round(reward, 9)) == (["user", "assistant", "tool"], 0.3)
    assert env.step("<echo> fail")[1] == 0.1
    *_, info = env.step("<echo> no more")
    assert (info["use_tool"], info["tool_use_counter"], env.turn) == (False, 2, 1)
    angry: Any = ToolEnvWrapper(gem.make("custom:Reverse"), [Echo()], tool_execute_error_reward=-0.5)
    angry.reset()
    assert (angry.step("<echo> fail", verbose=True)[1], angry.step("<echo>")[1]) == (-0.5, 0.0)


def test_answers_are_read_by_gems_functions() -> None:
    assert extract_last_boxed_answer(r"\boxed{1} or \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert extract_code_from_model("```\na\n```\n```python\nprint(1)\n```") == "print(1)"
    assert extract_last_tagged_answer("<answer>1</answer> no, <answer> 2 </answer> done") == "2"
    assert extract_last_tagged_answer("<answer>Paris</answer></answer>") == "Paris"
    for read in (extract_last_boxed_answer, extract_code_from_model, extract_last_tagged_answer):
        assert read("nothing") is None
