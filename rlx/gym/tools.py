r"""GEM's tools by their names, around any environment of text: a turn in which a tool finds a call is the tool's, all
others are the environment's.

    agent        6 * 7 is <python>print(6 * 7)</python>            so \boxed{42}
    answered by  PythonCodeTool: Code execution result: 42         the environment

A tool is whatever has GEM's two methods. This is for code that was written for GEM; where the agent is ours, an
environment lends a tool (rlx.tool.lend), whose prices are part of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from rlx.base.limits import MANY, MistakeError, within
from rlx.gym.registered import Env
from rlx.gym.single import TextEnv, info_of
from rlx.gym.spoken import Cut
from rlx.gym.state import check_state
from rlx.types import Action, Step, Task, Text, ToolUse

if TYPE_CHECKING:
    from rlx.tool.search import Pages

CODE = (("<python>", "</python>"), ("```python", "```"), ("```\npython", "```"))
QUERY = (("<search>", "</search>"),)
"""Text before and after a call."""
LAST = "\n\nThat was the last call of a tool: give your final answer."
Answer = tuple[bool, bool, str, str]
"""A call was found; it failed; its result; the turn up to its end."""


class GemTool(Protocol):
    """A tool with GEM's interface."""

    tool_type: str

    def instruction_string(self) -> str:
        """Return the line that tells the agent of the tool."""
        ...

    def execute_action(self, action: str) -> Answer: ...


class PythonCodeTool:
    """The block of code that ends first in a turn, run in rlx's sandbox, whose limits are applied: rlx.tool.python."""

    tool_type = "python_code"

    def __init__(
        self,
        timeout: float = 5,
        sandbox_type: str = "none",
        keep_error_last_line: bool = False,
        *,
        memory_mb: int = 512,
        max_characters: int = 20_000,
        output_characters: int = 4_000,
        interpreter: Literal["monty", "cpython"] = "cpython",
        truncate: bool = True,
        supply_imports: bool = True,
        contained: bool = True,
    ) -> None:
        """GEM's `sandbox_type` and `keep_error_last_line` change nothing: the kernel contains the code, and its errors
        are one line. As in GEM, long output is cut off and missing imports are supplied. `max_characters` of the code;
        `interpreter="monty"` needs nothing of the kernel."""
        from rlx.tool.python import Python  # the sandbox takes its time to load

        self.python = Python(
            interpreter=interpreter,
            seconds=float(timeout),
            memory_mb=memory_mb,
            max_characters=max_characters,
            output_characters=output_characters,
            truncate=truncate,
            supply_imports=supply_imports,
            contained=contained,
        )

    def instruction_string(self) -> str:
        return (
            "You may run Python while you think: put a whole script between <python> and </python>, or in a ```python "
            "block, and print what you want to know. Then give your answer in \\boxed{}."
        )

    def execute_action(self, action: str) -> Answer:
        call = first_call(action, CODE)
        if call is None:
            return False, True, "", action
        code, call_text = call
        result = self.python.run(code)
        return True, result.failed, f"Code execution result: {result.output}\n", call_text


class SearchTool:
    """The first query in a turn, asked of pages in memory or of a server: rlx.tool.search."""

    tool_type = "search"

    def __init__(
        self,
        num_workers: int = 1,
        search_url: str | None = None,
        topk: int = 3,
        timeout: float = 5,
        *,
        pages: Pages | None = None,
        max_characters: int = 1000,
    ) -> None:
        """`search_url`: a server of Search-R1's protocol, such as `rlx serve retriever`, and `timeout` the seconds of a
        try. Without it `pages` are searched, such as rlx.tool.search.read_pages(FILE); without these the server that
        the variable SEARCH_URL names, as in GEM, or the invented world's pages. GEM's `num_workers` changes nothing."""
        from rlx.env.questions.invented_world import pages as invented_pages
        from rlx.tool.search import Search

        if pages is None and search_url is None:
            search_url = os.environ.get("SEARCH_URL") or None
        search_pages = invented_pages() if pages is None and search_url is None else pages or []
        self.search = Search(
            pages=search_pages, top_k=topk, max_characters=max_characters, search_url=search_url, timeout=float(timeout)
        )

    def instruction_string(self) -> str:
        return (
            "You may search while you think: put your words between <search> and </search>, and read what comes back "
            "between <information> and </information>. Then give your final answer."
        )

    def execute_action(self, action: str) -> Answer:
        call = first_call(action, QUERY)
        if call is None:
            return False, True, "", ""
        query, call_text = call
        result = self.search.run(query.strip())
        return True, result.failed, f"\n\n<information>{result.output}</information>\n\n", call_text


def first_call(text: str, fences: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return what stands between two fences, of the blocks of each kind the one that ends first, as GEM does, and the
    text up to its end. Where no closing follows an opening's first place, none follows a later one: a text of nothing
    but openings is read once."""
    calls = []
    for opening, closing in fences:
        start = text.find(opening)
        end = -1 if start < 0 else text.find(closing, start + len(opening))
        if end >= 0:
            calls.append((end + len(closing), text[start + len(opening) : end], text[: end + len(closing)]))
    return min(calls)[1:] if calls else None


def answer_of(tools: Sequence[GemTool], action: str) -> tuple[int, bool, str, str] | None:
    """Return the answer of the first tool that succeeds, else of the last that was called, and the tool's number."""
    answer = None
    for index, tool in enumerate(tools):
        is_call, failed, output, call_text = tool.execute_action(action)
        answer = (index, failed, output, call_text) if is_call else answer
        if is_call and not failed:
            break
    return answer


class Pay(NamedTuple):
    """Rewards of a call: `call`, plus `success` after a success; `error` replaces both after a failure, unless 0."""

    call: float
    success: float
    error: float

    def of(self, failed: bool) -> float:
        if failed and self.error:
            return self.error
        return self.call + self.success * (not failed)


class Layer(NamedTuple):
    """The tools of one wrapper, what they pay, and how many calls of them an episode may have."""

    tools: tuple[GemTool, ...]
    pay: Pay
    max_uses: int | None


class ToolEnvWrapper(TextEnv):
    """An environment whose agent may also call tools: the first tool that succeeds on a turn's call answers the turn.
    After `max_tool_uses` calls every turn goes to the environment inside, whose own tools come next. Calls do not count
    as turns of the environment."""

    def __new__(cls, env: Any, *values: Any, **keywords: Any) -> Any:
        """Choose the wrapper for environments of one's own class (rlx.gym.registered)."""
        if not isinstance(env.unwrapped, Env):
            return super().__new__(cls)
        from rlx.gym.plain import ToolTexts  # which has its tools from here

        return ToolTexts(env, *values, **keywords)

    def __init__(
        self,
        env: TextEnv,
        tools: Sequence[GemTool],
        tool_reward: float = 0.0,
        tool_success_reward: float = 0.0,
        max_tool_uses: int | None = 10,
        *,
        tool_execute_error_reward: float = 0.0,
    ) -> None:
        if not isinstance(env, TextEnv):
            raise MistakeError(f"a tool goes around the environment itself, not {type(env).__name__}")
        within(0, MANY, max_tool_uses=max_tool_uses)
        setting_names = ("observation", "tokenizer", "split", "render_mode", "spec")
        super().__init__(
            env.world, env.protocol, seed=env.first_seed, **{name: getattr(env, name) for name in setting_names}
        )
        self.inner, self.tools = env, list(tools)
        self.pay = Pay(tool_reward, tool_success_reward, tool_execute_error_reward)
        self.max_tool_uses = max_tool_uses
        inner = env.layers if isinstance(env, ToolEnvWrapper) else ()
        self.layers: tuple[Layer, ...] = (Layer(tuple(tools), self.pay, max_tool_uses), *inner)
        """Own tools, then those of the wrapper inside, which are asked later and told of earlier."""
        self.uses, self.num_successes = [0] * len(self.layers), 0

    @property
    def is_slow(self) -> bool:
        return True

    def about(self) -> Task:
        """Return the task with a line of each tool."""
        lines = [tool.instruction_string() for layer in reversed(self.layers) for tool in layer.tools]
        return replace(self.task, prompt=(*self.task.prompt, *map(Text, lines)))

    def reset(self, seed: int | None = None, *, options: Any = None, idx: Any = None) -> tuple[Any, dict[str, Any]]:
        before = {f"prev_ep_{name}": value for name, value in self.counted().items()}
        observation, info = super().reset(seed, options=options, idx=idx)
        return observation, {**info, **before, **self.counted(), "use_tool": False}

    def begin(self, task: Task) -> None:
        self.uses, self.num_successes = [0] * len(self.layers), 0
        self.answers: dict[int, tuple[int, int, bool, str]] = {}
        """Layer, tool, failure and result of the turns that a tool answered, for replays: no tool runs again."""
        super().begin(task)

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "answers": dict(self.answers), **self.counted()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        check_state(state)
        self.end()
        self.begin(state["task"])
        answers: Mapping[int, tuple[int, int, bool, str]] = state.get("answers", {})
        for turn, text in enumerate(state["said"]):
            if turn in answers:
                self.use(*answers[turn], text)
            else:
                super().step(text)

    def step(self, action: str, verbose: bool = False) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn; GEM's `verbose` prints nothing here."""
        may_call = self.episode is not None and not isinstance(action, Cut)
        answered = self.answer(action) if may_call else None
        if answered is None:
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, reward, terminated, truncated, {**info, **self.counted(), "use_tool": False}
        return self.use(*answered)

    def answer(self, action: str) -> tuple[int, int, bool, str, str] | None:
        """Return the answer of the outermost layer that has one and a call left, and the layer's number."""
        for place, (layer, num) in enumerate(zip(self.layers, self.uses, strict=True)):
            tool_answer = answer_of(layer.tools, action) if layer.max_uses is None or num < layer.max_uses else None
            if tool_answer is not None:
                return (place, *tool_answer)
        return None

    def use(
        self, place: int, index: int, failed: bool, output: str, call_text: str
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn that a tool answered."""
        layer = self.layers[place]
        tool = layer.tools[index]
        self.answers[len(self.replies)] = (place, index, failed, output)
        self.uses[place] += 1
        self.num_successes += not failed
        self.max_rounds = None if self.max_rounds is None else self.max_rounds + 1
        text = output + LAST * (self.uses[place] == layer.max_uses)
        count = ToolUse(num_calls=1, num_failed=int(failed), name=tool.tool_type)
        self.seen = Step(observation=(Text(text),), tool=count, legal=self.seen.legal)
        self.replies.append(call_text)
        reward = layer.pay.of(failed)
        info = {**info_of(self.seen), **self.counted(), "use_tool": True}
        observation = self.observe(Action(kind="call", name=tool.tool_type, text=call_text))
        return observation, reward, False, False, {**info, "parsed_action": call_text, "tool_type": tool.tool_type}

    def counted(self) -> dict[str, int]:
        return {"tool_use_counter": sum(self.uses), "tool_success_counter": self.num_successes}

    def another(self, seed: int | None, **settings: Any) -> ToolEnvWrapper:
        return self.around(self.inner.another(seed, **settings))

    def remade(self, keywords: dict[str, Any]) -> ToolEnvWrapper:
        return self.around(self.inner.remade(keywords))

    def around(self, env: TextEnv) -> ToolEnvWrapper:
        """Return the same tools around another environment."""
        call, success, error = self.pay
        wrapper: ToolEnvWrapper = ToolEnvWrapper(
            env, self.tools, call, success, self.max_tool_uses, tool_execute_error_reward=error
        )
        return wrapper
