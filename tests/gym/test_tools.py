"""GEM's tools by their names: whose turn it is, what is paid, how often, and what the agent is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.gym.tools import CODE, PythonCodeTool, SearchTool, ToolEnvWrapper, first_call
from rlx.gym.wrappers import get_wrapper_fns
from tests.errors import raises_naming

GUESS = "game:GuessTheNumber-v0"
CALL = "I compute: <python>print(6 * 7)</python> and go on"


def wrapped(names: str, **keywords: Any) -> Any:
    env: Any = rlx.gym.make(GUESS, seed=1, **keywords)
    for wrap in get_wrapper_fns(names):
        env = wrap(env)
    return env


def test_a_call_is_the_tools_and_all_else_the_environments() -> None:
    env, plain = wrapped("python_tool"), wrapped("")
    first, info = env.reset()
    assert (info["tool_use_counter"], info["prev_ep_tool_use_counter"], info["use_tool"]) == (0, 0, False)
    assert first.startswith(plain.reset()[0].partition("\n\n")[0])
    assert "<python>" in first
    seen, reward, terminated, truncated, info = env.step(CALL)
    assert (seen, reward, terminated, truncated) == (
        "\nCode execution result: 42\n\n",
        pytest.approx(0.3),
        False,
        False,
    )
    assert (info["parsed_action"], info["tool_type"]) == (CALL.removesuffix(" and go on"), "python_code")
    assert (info["use_tool"], info["tool_use_counter"], info["tool_success_counter"]) == (True, 1, 1)
    ours, theirs = env.step(r"so \boxed{25}"), plain.step(r"so \boxed{25}")
    assert ours[:4] == theirs[:4]


@pytest.mark.parametrize(
    ("names", "good", "bad"),
    [
        ("python_tool", 0.3, 0.05),
        ("python_tool_no_int_reward", 0, 0),
        ("python_tool_no_int_reward_last_line_error", 0, 0),
    ],
)
def test_rewards_are_gems(names: str, good: float, bad: float) -> None:
    env = wrapped(names)
    env.reset()
    assert env.step("```python\nprint(1)\n```")[1] == pytest.approx(good)
    seen, reward, *_, info = env.step("<python>1 / 0</python>")
    assert (reward, info["tool_success_counter"]) == (pytest.approx(bad), 1)
    assert "ZeroDivisionError" in seen


def test_a_search_is_paid_and_shown() -> None:
    env = wrapped("search_tool")
    assert "<search>" in env.reset()[0]
    env = ToolEnvWrapper(rlx.gym.make(GUESS, seed=1), [SearchTool(topk=1, pages=["Cat: a cat", "Dog: a dog"])], 0.3)
    env.reset()
    seen, reward, *_ = env.step("<think>?</think><search> dog </search>")
    assert (seen.strip(), reward) == ("<information>Dog: a dog</information>", 0.3)


def test_when_no_call_is_left_it_is_told_and_all_is_said_to_the_environment() -> None:
    env = ToolEnvWrapper(rlx.gym.make(GUESS, seed=1), [PythonCodeTool()], max_tool_uses=2)
    env.reset()
    assert "last call" not in env.step(CALL)[0]
    assert "last call" in env.step(CALL)[0]
    *_, terminated, _, info = env.step(CALL)
    assert (terminated, info["tool_use_counter"]) == (True, 2)
    assert env.reset()[1]["prev_ep_tool_use_counter"] == 2


def test_calls_are_no_turns_of_the_environment() -> None:
    env = ToolEnvWrapper(rlx.gym.make("logic", seed=1), [PythonCodeTool()])
    env.reset()
    for _ in range(3):
        assert not env.step(CALL)[2]
    *_, info = env.step(r"\boxed{True}")
    assert info["status"] == "done"


PATTERNS = [re.compile(one, re.DOTALL) for one in (r"<python>(.*?)</python>", r"```\n?python(.*?)```")]
"""GEM searches for each kind of block, and takes of those found the one that ends first."""


@given(st.lists(st.sampled_from(["<python>", "</python>", "```", "python", "\n", "x = 1", "<", "`"]), max_size=12))
def test_the_first_call_is_that_which_gem_finds(parts: list[str]) -> None:
    text = "".join(parts)
    found = min(filter(None, (one.search(text) for one in PATTERNS)), key=lambda one: one.end(), default=None)
    assert first_call(text, CODE) == (found and (found[1], text[: found.end()]))


def test_of_nested_blocks_the_inner_one_is_run_as_gem_does() -> None:
    nested = "<python>\n```python\nprint(1)\n```\n</python>"
    assert first_call(nested, CODE) == ("\nprint(1)\n", nested.removesuffix("\n</python>"))
    assert PythonCodeTool().execute_action(nested)[:3] == (True, False, "Code execution result: 1\n")


def test_a_text_of_openings_alone_is_read_at_once() -> None:
    assert first_call("<python>" * 200_000, CODE) is None


def test_the_code_that_runs_too_long_is_ended() -> None:
    is_call, failed, seen, _ = PythonCodeTool(timeout=0.2).execute_action("<python>while True: pass</python>")
    assert (is_call, failed) == (True, True)
    assert "TimeoutError" in seen


def test_the_history_holds_turns_up_to_their_calls() -> None:
    env = wrapped("python_tool,concat_with_action,episode_tracking")
    first, _ = env.reset()
    seen, *_, info = env.step(CALL)
    assert seen.startswith(first + CALL.removesuffix(" and go on"))
    assert seen.endswith("Code execution result: 42\n\n")
    assert info["cumulative_rewards"] == pytest.approx(0.3)
    messages, *_ = wrapped_chat()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]


def wrapped_chat() -> Any:
    env = wrapped("python_tool,concat_chat")
    env.reset()
    return env.step(CALL)


def test_a_tool_of_ones_own_is_asked_in_turn() -> None:
    class Echo:
        tool_type = "echo"

        def instruction_string(self) -> str:
            return "You may say it again."

        def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
            return "again" in action, "fail" in action, f"echo {action}", action

    env = ToolEnvWrapper(rlx.gym.make(GUESS, seed=1), [Echo(), PythonCodeTool()], 0.1, 0.2)
    assert "say it again" in env.reset()[0]
    assert env.step("again")[-1]["tool_type"] == "echo"
    assert env.step("again fail <python>1</python>")[-1]["tool_type"] == "python_code"
    *_, info = env.step("again fail")
    assert (info["tool_type"], info["tool_use_counter"], info["tool_success_counter"]) == ("echo", 3, 2)


def test_another_in_the_same_state_has_said_the_same() -> None:
    env = wrapped("python_tool,concat_with_action")
    env.reset()
    env.step(CALL)
    other = env.spawn(same_state=True)
    assert other.step(r"\boxed{7}") == env.step(r"\boxed{7}")


def test_a_vector_of_them_waits_for_tools_in_threads() -> None:
    envs = rlx.gym.make_vec([GUESS] * 2, wrappers=get_wrapper_fns("python_tool,concat"), async_mode=True, seed=1)
    assert envs.slow == {0, 1}
    envs.reset()
    _, rewards, *_ = envs.step([CALL, r"\boxed{50}"])
    assert rewards[0] == pytest.approx(0.3)
    envs.close()


@pytest.mark.parametrize(
    "order", ["python_tool,search_tool", "search_tool,python_tool", "python_tool,search_tool,concat"]
)
def test_a_tool_goes_around_an_environment_with_another_tool(order: str) -> None:
    env = wrapped(order)
    opening, _ = env.reset(seed=1)
    first = order.split(",")[0]
    said = {"python_tool": "<python>", "search_tool": "<search>"}
    assert opening.index(said[first]) < opening.index(next(text for name, text in said.items() if name != first))
    seen, reward, _, _, info = env.step("<python>print(41 + 1)</python>")
    assert "Code execution result: 42" in seen
    assert (reward, info["tool_type"]) == (pytest.approx(0.3), "python_code")
    state = env.get_state()
    _, reward, _, _, info = env.step("<search>nothing at all</search>")
    assert (reward, info["tool_type"], info["tool_use_counter"]) == (0.3, "search", 2)
    env.set_state(state)
    assert env.step(r"\boxed{5}")[4]["tool_use_counter"] == 1


def test_each_of_two_tools_has_its_own_number_of_uses() -> None:
    inner = ToolEnvWrapper(rlx.gym.make(GUESS, seed=1), [PythonCodeTool()], max_tool_uses=2)
    env: Any = ToolEnvWrapper(inner, [PythonCodeTool()], 1.0, max_tool_uses=1)
    env.reset(seed=1)
    call = "<python>print(6 * 7)</python>"
    assert [env.step(call)[1:3] for _ in range(3)] == [(1.0, False), (0.0, False), (0.0, False)]


def test_what_cannot_be_is_one_line() -> None:
    with raises_naming(MistakeError, "search_url='ftp://x'", "http://HOST:PORT"):
        SearchTool(search_url="ftp://x")
    with raises_naming(MistakeError, "wrapper python_tool", "EpisodeTracking"):
        wrapped("episode_tracking,python_tool")
    with raises_naming(MistakeError, "tool", "EpisodeTracking"):
        ToolEnvWrapper(wrapped("episode_tracking"), [PythonCodeTool()])


PEER = """
import json, sys, gem
from gem.tools.python_code_tool import PythonCodeTool
from gem.tools.tool_env_wrapper import ToolEnvWrapper
env = ToolEnvWrapper(gem.make("game:GuessTheNumber-v0-hard"), [PythonCodeTool()], 0.05, 0.25, 3)
env.reset(seed=1)
told = []
for text in json.loads(sys.argv[1]):
    seen, reward, terminated, truncated, info = env.step(text)
    told.append([reward, terminated, info["tool_use_counter"], info["tool_success_counter"], info.get("parsed_action"),
                 seen if "parsed_action" in info else None])
print(json.dumps(told))
"""


def test_gem_pays_and_counts_the_same(tmp_path: Any) -> None:
    python = os.environ.get("RLX_GEM_PYTHON")
    if not python:
        pytest.skip("RLX_GEM_PYTHON names no interpreter that has GEM")
    said = [
        "so ```python\nprint([1, 2])\n``` and <python>2</python>",
        "<python>raise ValueError(1)</python>",
        "<python> print('x') </python> \\boxed{3}",
        "<python>print(1)</python>",
    ]
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    settings = {**os.environ, "PYTHONPATH": "", "PATH": path}
    heard = subprocess.run(
        [python, "-c", PEER, json.dumps(said)], capture_output=True, text=True, cwd=tmp_path, env=settings, check=True
    )
    env = ToolEnvWrapper(rlx.gym.make("game:GuessTheNumber-v0-hard"), [PythonCodeTool()], 0.05, 0.25, 3)
    env.reset(seed=1)
    for text, (reward, terminated, uses, successes, parsed, seen) in zip(said, json.loads(heard.stdout)):
        ours = env.step(text)
        assert ours[1:3] == (pytest.approx(reward), terminated)
        assert (ours[4]["tool_use_counter"], ours[4]["tool_success_counter"]) == (uses, successes)
        assert ours[4].get("parsed_action") == parsed
        if parsed is not None and ours[4]["tool_success_counter"] and "Error" not in seen:
            assert seen.split()[:4] == ours[0].split()[:4]
