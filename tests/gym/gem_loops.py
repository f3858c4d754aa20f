"""Call patterns of GEM's training scripts with a policy that draws its turns, for GEM and for rlx.gym alike.

    python gem_loops.py gem|rlx.gym LOOP     prints what the loop collected, as JSON

Written anew after examples/ of GEM's repository: train_oat, train_oat_mt and train_verl (collect), the evaluation of
train_oat (evaluate), train_oat_grpo (groups), train_rl2 (turns), train_openrlhf (agent) and train_tinker (adapter).
"""

from __future__ import annotations

import json
import random
import sys
from copy import deepcopy
from importlib import import_module
from typing import Any

import numpy as np

EASY = "game:GuessTheNumber-v0-easy"
INVALID = "<｜INVALID_ACTION｜>"


class Tokenizer:
    """A tokenizer of words."""

    chat_template = "tool"

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool) -> str:
        return "".join(f"<{one['role']}>{one['content']}\n" for one in messages) + "<assistant>" * add_generation_prompt

    def encode(self, text: str) -> list[str]:
        return text.split()


class Policy:
    """Random numbers; each fourth turn fails, as where a prompt is too long."""

    def __init__(self, fails: bool = True) -> None:
        self.rng, self.fails, self.num = random.Random(5), fails, 0

    def act(self, observations: Any) -> tuple[list[str], list[bool]]:
        actions, failed = [], []
        for observation in observations:
            assert isinstance(observation, str)
            self.num += 1
            failed.append(self.fails and self.num % 4 == 0)
            actions.append(INVALID if failed[-1] else rf"I say \boxed{{{self.rng.randint(1, 10)}}}.")
        return actions, failed


def collect(gem: Any, fns: Any, wrappers: str = "concat", keep: bool = False, async_mode: bool = False) -> Any:
    made = fns(wrappers, tokenizer=Tokenizer())
    seeds = [{"seed": 7 + i} for i in range(3)]
    env = gem.make_vec([EASY] * 3, vec_kwargs=seeds, wrappers=made, async_mode=async_mode)
    policy, finished, uses = Policy(), [], []
    episodes: list[list[Any]] = [[] for _ in range(env.num_envs)]
    obs, _ = env.reset()
    while sum(map(len, finished)) < 40:
        action, failed = policy.act(obs)
        next_obs, reward, terminated, truncated, info = env.step(action)
        done = terminated | truncated
        for i in range(env.num_envs):
            if failed[i]:
                if keep and episodes[i]:
                    episodes[i][-1]["reward"] += float(reward[i])
                    finished.append(deepcopy(episodes[i]))
                    name = "prev_ep_step_counter" if done[i] else "step_counter"
                    uses.append(info[i].get(name, 0))
                episodes[i].clear()
                if not done[i]:
                    next_obs[i] = env.envs[i].reset()[0]
            else:
                episodes[i].append({"obs": obs[i], "reward": float(reward[i]), "done": bool(done[i])})
                if done[i]:
                    finished.append(deepcopy(episodes[i]))
                    uses.append(info[i].get("prev_ep_step_counter", 0))
                    episodes[i].clear()
        obs = next_obs
    ends = [episode[-1]["done"] for episode in finished]
    types = [type(obs).__name__, str(reward.dtype), str(done.dtype)]
    return {"types": types, "ends": keep or all(ends), "num_uses": len(uses)}


def evaluate(gem: Any, fns: Any) -> Any:
    """The loop of an evaluation without numbers of tasks, which GEM 0.1.0 does not take."""
    env = gem.make_vec([EASY] * 4, wrappers=fns("concat,episode_tracking"), async_mode=False)
    policy = Policy(fails=False)
    obs, info = env.reset()
    obs, info = obs[:3], info[:3]
    done = np.array([False] * 3)
    episodes: list[list[dict[str, Any]]] = [[], [], []]
    while not all(done):
        action, _ = policy.act(obs)
        turns = iter(action)
        next_obs, reward, terminated, truncated, info = env.step({i: next(turns) for i, d in enumerate(done) if not d})
        too_long = np.array([len(Tokenizer().encode(one)) >= 9999 for one in next_obs])
        over = terminated | truncated | too_long
        at = 0
        for i in range(3):
            if not done[i]:
                told = {"reward": float(reward[at]), "done": bool(over[at]), "info": info[at], "obs": next_obs[at]}
                episodes[i].append(told)
                at += 1
        done[~done] = over
        obs = [one for one, d in zip(next_obs, over) if not d]
    last = [episode[-1] for episode in episodes]
    return [[sorted(turn["info"].keys() & {"step_counter", "prev_ep_step_counter"}), turn["done"]] for turn in last]


def groups(gem: Any, fns: Any, num_samples: int = 3) -> Any:
    """Groups of episodes of one start, by states where an environment has them, else by copies."""
    env = gem.make_vec([EASY] * 2, wrappers=fns("concat"), async_mode=False)
    has_states = hasattr(env.envs[0], "get_state") and hasattr(env.envs[0], "set_state")
    groups = []
    env.reset()
    for _ in range(4):
        first, _ = env.envs[0].reset()
        kept = deepcopy(env.envs[0].get_state() if has_states else env.envs[0])
        rewards = []
        for _ in range(num_samples):
            single = env.envs[1]
            if has_states:
                single.set_state(deepcopy(kept))
            else:
                single = deepcopy(kept)
            rewards.append(float(single.step(r"\boxed{5}")[1]))
        groups.append([isinstance(first, str), len(set(rewards))])
    return groups


def turns(gem: Any, fns: Any) -> Any:
    """Asynchronous turns of parts of a vector, as RL2's loop takes them."""
    env = gem.make_vec([EASY] * 4, wrappers=fns("concat"), async_mode=True)
    env.reset()
    policy, shapes = Policy(fails=False), []
    for chosen in ([2], [0, 3], [3, 1, 0]):
        action, _ = policy.act(["x"] * len(chosen))
        obs, reward, terminated, truncated, info = env.step(dict(zip(chosen, action)))
        told = [isinstance(info[place], dict) for place in range(len(chosen))]
        shapes.append([len(obs), len(reward), len(terminated), len(truncated), told])
    return shapes


def agent(gem: Any, fns: Any) -> Any:
    env = gem.make(EASY, seed=1_790_000_000_000_000_000)
    limit, observation = env.max_turns, env.reset(random.Random(1).randint(1, 10_000_000))[0]
    steps, over = 0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(r"\boxed{11}")
        over, steps = terminated or truncated, steps + 1
    return [limit, steps, isinstance(observation, str), float(reward)]


def adapter(gem: Any, fns: Any) -> Any:
    pool = [gem.make(EASY) for _ in range(2)]
    envs = [deepcopy(pool[0]) for _ in range(3)]
    outcome = []
    for env in envs:
        env.reset()
        _, reward, terminated, truncated, info = env.step("no box")
        metrics = {name: value for name, value in (info or {}).items() if isinstance(value, int | float)}
        outcome.append([float(reward), terminated or truncated, isinstance(metrics, dict)])
    return outcome


LOOPS: dict[str, Any] = {
    "train_oat": collect,
    "train_oat_mt": lambda gem, fns: collect(gem, fns, "concat_chat,episode_tracking", True),
    "train_verl": lambda gem, fns: collect(gem, fns, "concat_with_action,episode_tracking", False, True),
    "train_oat_evaluation": evaluate,
    "train_oat_grpo": groups,
    "train_rl2": turns,
    "train_openrlhf": agent,
    "train_tinker": adapter,
}

if __name__ == "__main__":
    package, loop = sys.argv[1:]
    factory = {"gem": "gem.wrappers.wrapper_factory", "rlx.gym": "rlx.gym.wrappers"}[package]
    if package == "gem":
        import_module("gem.envs")
    collected = LOOPS[loop](import_module(package), import_module(factory).get_wrapper_fns)
    print("\n" + json.dumps(collected))
