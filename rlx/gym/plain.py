"""Wrappers of environments with GEM's interface (rlx.gym.registered): tools, and views of an episode's texts.

An environment of rlx has the same from its own parts (rlx.gym.tools, rlx.gym.views); these know only texts:

    concat  the observations      concat_with_action  the same and the turns, a line each      concat_chat  as messages
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from rlx.base.limits import MistakeError
from rlx.gym.registered import EnvWrapper
from rlx.gym.tools import LAST, GemTool, Pay, answer_of
from rlx.gym.views import View, apply_template

Env = gymnasium.Env[Any, str]


class ViewedTexts(EnvWrapper):
    """An environment whose observations hold the episode so far."""

    def __init__(self, env: Env, view: View, tokenizer: Any) -> None:
        super().__init__(env)
        if view == "chat_on_reset" and tokenizer is None:
            raise MistakeError("concat_chat_on_reset: give get_wrapper_fns a tokenizer, whose chat template it takes")
        self.view, self.tokenizer = view, tokenizer
        self.seen: list[tuple[str, str]] = []
        self.replies: list[str] = []

    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, **keywords)
        if self.view == "chat_on_reset":
            observation = apply_template([{"role": "user", "content": observation}], self.tokenizer)
        self.seen, self.replies = [("user", observation)], []
        return self.observe(info), info

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.replies.append(info.get("parsed_action", action))
        self.seen.append(("tool" if info.get("use_tool") else "user", observation))
        return self.observe(info), float(reward), terminated, truncated, info

    def observe(self, info: dict[str, Any]) -> Any:
        """Return the episode in this view. GEM's environments may add a `prefix` and a `suffix` in their info."""
        if self.view == "chat":
            messages = self.messages()
            return messages if self.tokenizer is None else apply_template(messages, self.tokenizer)
        turns = ["" if self.view == "observations" else reply for reply in self.replies]
        texts = [text for pair in zip([content for _, content in self.seen], [*turns, ""]) for text in pair]
        return info.get("prefix", "") + "".join(map(end_line, texts)) + info.get("suffix", "")

    def messages(self) -> list[dict[str, str]]:
        messages = []
        for place, (role, content) in enumerate(self.seen):
            messages.append({"role": role, "content": content})
            if place < len(self.replies):
                messages.append({"role": "assistant", "content": self.replies[place]})
        return messages


class ToolTexts(EnvWrapper):
    """An environment whose agent may also call tools."""

    def __init__(
        self,
        env: Env,
        tools: Sequence[GemTool],
        tool_reward: float = 0.0,
        tool_success_reward: float = 0.0,
        max_tool_uses: int | None = 10,
        *,
        tool_execute_error_reward: float = 0.0,
    ) -> None:
        super().__init__(env)
        self.tools, self.max_tool_uses = list(tools), max_tool_uses
        self.pay = Pay(tool_reward, tool_success_reward, tool_execute_error_reward)
        self.num_uses = self.num_successes = 0

    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        before = {f"prev_ep_{name}": value for name, value in self.counted().items()}
        self.num_uses = self.num_successes = 0
        observation, info = super().reset(seed=seed, **keywords)
        observation = "\n".join([observation, *(tool.instruction_string() for tool in self.tools)])
        return observation, {**info, **before, **self.counted(), "use_tool": False}

    def step(self, action: str, verbose: bool = False) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_left = self.max_tool_uses is None or self.num_uses < self.max_tool_uses
        tool_answer = answer_of(self.tools, action) if is_left else None
        if tool_answer is None:
            observation, reward, terminated, truncated, info = self.env.step(action)
            return observation, float(reward), terminated, truncated, {**info, **self.counted(), "use_tool": False}
        index, failed, observation, call_text = tool_answer
        self.num_uses, self.num_successes = self.num_uses + 1, self.num_successes + (not failed)
        observation += LAST * (self.num_uses == self.max_tool_uses)
        reward = self.pay.of(failed)
        tool_info = {"parsed_action": call_text, "tool_type": self.tools[index].tool_type, "use_tool": True}
        return observation, reward, False, False, {**tool_info, **self.counted()}

    def counted(self) -> dict[str, int]:
        return {"tool_use_counter": self.num_uses, "tool_success_counter": self.num_successes}


def end_line(text: str) -> str:
    return f"{text}\n" if text and not text.endswith("\n") else text
