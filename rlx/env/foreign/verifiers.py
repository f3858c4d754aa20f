"""Tasksets of verifiers (module `verifiers.v1`) with a single agent and without tools. verifiers runs an episode by
itself and asks a model over HTTP. Here, each episode has its own server, which answers with the agent's text.

    verifiers: task --> Talk, the harness --> its interception --> model(requests, replies) --> what is new --> agent
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from queue import Queue
from threading import Thread
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.utils.loaders import env_config_type, resolve_env_config

__all__ = ["Talk"]
HARNESS = __name__
"""Id of the harness: verifiers imports the module of this name."""
SETTINGS = {"textarena": {"game": "Wordle-v0"}}
"""Settings that a taskset requires and has no defaults for, by its id."""
Lines = Queue[dict[str, Any]]


class Talk(vf.Harness[vf.HarnessConfig]):
    """A harness that sends messages to the model and runs no program."""

    APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = True
    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: Mapping[str, str],
        data: Any,
        **_: Any,
    ) -> vf.ProgramResult:
        if mcp_urls:
            raise ValueError(f"it lends tools, which an agent of text cannot call: {', '.join(mcp_urls)}")
        system, prompt = self.resolve_prompt(data)
        prompt_messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(map(message_to_wire, prompt))
        )
        messages = [{"role": "system", "content": system}, *prompt_messages] if system else prompt_messages
        async with httpx.AsyncClient(timeout=None) as client:
            url, key = f"{endpoint}/chat/completions", {"Authorization": f"Bearer {secret}"}
            answer = await client.post(url, headers=key, json={"model": ctx.model, "messages": messages})
        return vf.ProgramResult(int(answer.is_error), "", answer.text if answer.is_error else "")


def tasks() -> None:
    """Any package that is installed may be one."""


def play(task: str, options: Mapping[str, Any], seed: int) -> Generator[dict[str, Any], str, None]:
    requests: Lines = Queue()
    replies: Queue[str] = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), model(requests, replies))
    for work in (server.serve_forever, lambda: requests.put(outcome(task, options, seed, server.server_port))):
        Thread(target=work, daemon=True).start()
    num_seen = 0
    while "messages" in (request := requests.get()):
        num_seen, news = len(request["messages"]) + 1, request["messages"][num_seen:]
        replies.put((yield {"text": "\n\n".join(str(message["content"]) for message in news)}))
    if "error" in request:
        raise RuntimeError(request["error"])
    yield {"text": "", "reward": request["reward"], "done": True}


def outcome(task: str, options: Mapping[str, Any], seed: int, port: int) -> dict[str, Any]:
    try:
        return {"reward": asyncio.run(reward(task, options, seed, port))}
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}


async def reward(task: str, options: Mapping[str, Any], seed: int, port: int) -> float:
    """Play the task of this number to its end and return its reward."""
    config = environment(task, options)
    env = vf.load_environment(config)
    chosen = next(islice(iter(env.taskset), seed, None), None)
    if chosen is None:
        raise ValueError(f"{task} has no task {seed}: say how many it has, env.num_tasks")
    client = vf.EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var="NONE")
    async with env.serving():
        episode = await env.run_episode(chosen, vf.ModelContext(model="agent", client=client))
    errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
    if errors or not episode.traces:
        raise RuntimeError(errors[-1].message if errors else "nothing was played")
    return float(episode.traces[-1].reward)


def environment(task: str, options: Mapping[str, Any]) -> Any:
    """Build the environment's configuration, with our agent in the only role."""
    taskset_options = {**SETTINGS.get(task, {}), **options.get("taskset", {})}
    data: dict[str, Any] = {**options, "taskset": {"id": task, **taskset_options}}
    roles = list(agent_config_fields(env_config_type(task, data.get("id", ""))(**data)))
    if len(roles) != 1:
        raise ValueError(f"only what asks one agent can be played, and {task} asks {', '.join(roles)}")
    agent_config = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}}
    return resolve_env_config({**data, roles[0]: {**data.get(roles[0], {}), **agent_config}})


def model(requests: Lines, replies: Queue[str]) -> type[BaseHTTPRequestHandler]:
    """A server that hands on what it is asked, and answers when there is an answer."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = {"role": "assistant", "content": replies.get()}
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            kind = {"id": "0", "object": "chat.completion", "created": 0, "model": "agent"}
            body = json.dumps({**kind, "choices": choices, "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Model
