"""One environment as Gymnasium has it: every shipped option passes its checker, and plays by a run's own rules."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.environment import Environment, Episode
from rlx.environment.world import moves_of
from rlx.gym.single import TextEnv
from rlx.model.load import Model, load_tokenizer
from rlx.model.rendering import render
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.settings.folders import list_options, shipped_folder
from rlx.types import Action, Step, Task, Text, ToolUse
from tests.errors import raises_naming
from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = list(list_options("env", [shipped_folder("conf")]))
GUESS = "game:GuessTheNumber-v0"
SPOKEN = [rlx.gym.make(GUESS, protocol=protocol) for protocol in ("boxed", "direct", "tags")]


def made(name: str, **keywords: Any) -> TextEnv:
    env = rlx.gym.make(name, **keywords)
    if env.world.is_remote:
        pytest.skip(f"{name} fetches its tasks from a hub")
    try:
        env.reset()
    except MistakeError as error:
        if "is not installed" in str(error):
            pytest.skip(f"{name}: {error}")
        raise
    return env


@for_each("name", OPTIONS)
def test_gymnasiums_checker_passes_without_a_warning(name: str) -> None:
    env = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
    env.close()


@for_each("view", ["last", "observations", "history", "chat"])
def test_every_view_passes_the_checker(view: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(rlx.gym.make(GUESS, observation=view))


def play(env: TextEnv, *texts: str) -> list[Any]:
    return [env.step(text) for text in texts]


def test_the_same_seed_gives_the_same_tasks_and_whoever_draws_beside_changes_nothing() -> None:
    import random

    first, second = rlx.gym.make(GUESS), rlx.gym.make(GUESS)
    random.seed(1)
    ours = [first.reset(seed=5), first.reset(), first.reset()]
    random.seed(2)
    theirs = []
    for seed in (5, None, None):
        theirs.append(second.reset(seed=seed))
        second.sample_random_action()
        rlx.gym.make(GUESS, seed=9).reset()
    assert ours == theirs
    tasks = [task.key for task in islice(GuessTheNumber().tasks("train", 5), 3)]
    assert [info["task"] for _, info in ours] == tasks
    assert rlx.gym.make(GUESS, seed=5).reset() == ours[0]
    assert random.random() == random.Random(2).random()


def test_a_game_is_played_by_text_alone() -> None:
    env = rlx.gym.make(GUESS)
    observation, _ = env.reset(options={"task": task_of(30)})
    assert observation == (
        "Put your number in \\boxed{}.\nGuess the number that I think of. You have 10 guesses.\n"
        "\nIt is a number from 1 to 50.\n"
    )
    assert play(env, r"Half is \boxed{25}.", r"\boxed{30}") == [
        ("\nhigher than 25\n", 0.0, False, False, {}),
        ("\ncorrect\n", 1.0, True, False, {"success": True, "status": "done"}),
    ]
    with pytest.raises(ResetNeeded):
        env.step(r"\boxed{1}")


def task_of(secret: int, max_turns: int = 10) -> Task:
    from rlx.env.game.guess_the_number import describe

    return describe(secret, 1, 50, max_turns)


def test_a_limit_of_turns_is_an_end_and_told_to_be_one() -> None:
    env = rlx.gym.make(GUESS)
    env.reset(options={"task": task_of(50, max_turns=1)})
    assert env.step(r"\boxed{1}")[1:] == (0.0, True, False, {"success": False, "status": "truncated"})


def test_a_turn_that_was_cut_is_no_turn() -> None:
    env = rlx.gym.make(GUESS)
    env.reset(options={"task": task_of(30)})
    assert env.step(r"\boxed{30}")[1:3] == (1.0, True)
    env.reset(options={"task": task_of(30)})
    _, reward, terminated, _, info = env.step(rlx.gym.Cut(r"\boxed{30}"))
    assert (reward, terminated) == (-0.1, True)
    assert info == {"success": False, "status": "done", "invalid": "the turn was cut off: say less"}


def test_short_turns_are_heard_once_and_long_ones_not_kept() -> None:
    env = rlx.gym.make(GUESS)
    env.reset(options={"task": task_of(30)})
    said = (r"\boxed{1}", r"\boxed{1}", "x" * 100_000 + r"\boxed{2}")
    assert [env.step(text)[0] for text in said] == [
        "\nhigher than 1\n",
        "\nyou guessed 1 before\n",
        "\nhigher than 2\n",
    ]
    assert env.spoken.cached_hear.cache_info()[:2] == (1, 1)
    assert env.another(seed=1).spoken_parts is env.spoken_parts


def test_what_an_observation_holds() -> None:
    told = {}
    for view in ("last", "observations", "history", "chat"):
        env = rlx.gym.make(GUESS, observation=view, protocol=Direct())
        told[view] = [env.reset(options={"task": task_of(30)})[0], *(step[0] for step in play(env, "25\n", "40\n"))]
    first = "Guess the number that I think of. You have 10 guesses.\nIt is a number from 1 to 50.\n"
    assert told["last"] == [first, "higher than 25\n", "lower than 40\n"]
    assert told["observations"] == [first, f"{first}higher than 25\n", f"{first}higher than 25\nlower than 40\n"]
    assert told["history"] == [first, f"{first}25\nhigher than 25\n", f"{first}25\nhigher than 25\n40\nlower than 40\n"]
    assert told["chat"][1] == [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "25\n"},
        {"role": "user", "content": "higher than 25\n"},
    ]


def test_a_window_forgets_what_lies_before_it() -> None:
    env = rlx.gym.make(GUESS, observation="history", protocol="direct", window=0)
    env.reset(options={"task": task_of(30)})
    assert play(env, "25\n", "40\n")[-1][0] == "Guess the number that I think of. You have 10 guesses.\nlower than 40\n"


class Spoken:
    """A tokenizer: a token a letter."""

    def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        return "".join(f"<{one['role']}>{one['content']}" for one in messages) + "<assistant>" * add_generation_prompt

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [ord(letter) for letter in text]


def test_a_tokenizer_makes_chat_one_text() -> None:
    env = rlx.gym.make(GUESS, observation="chat", protocol="direct", tokenizer=Spoken())
    env.reset(options={"task": task_of(30)})
    assert play(env, "25\n")[-1][0].endswith("<assistant>25\n<user>higher than 25\n<assistant>")


DATED = (
    "{%- if not date_string is defined %}{% set date_string = strftime_now( '%d %b %Y' ) %}{% endif -%}"
    '{{ date_string }} {{ strftime_now("%Y") }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}'
)


def test_a_chat_template_that_tells_the_date_tells_that_of_training() -> None:
    """Llama 3's; training renders it in a process of its own (rlx.model.rendering)."""
    tokenizer = load_tokenizer(Model(path="nano"))
    tokenizer.chat_template = DATED
    env = rlx.gym.make(GUESS, observation="chat", protocol="direct", tokenizer=tokenizer)
    seen, _ = env.reset(options={"task": task_of(30)})
    (trained,) = render(tokenizer, [[{"role": "user", "content": seen.partition("<user>")[2]}]])
    assert seen == trained
    assert seen.startswith("26 Jul 2024 2024<user>")
    assert tokenizer.chat_template == DATED


@pytest.mark.parametrize(
    ("view", "turn"), [("observations", ""), ("history", "so \\boxed{25}"), ("chat", "so \\boxed{25}")]
)
def test_a_prompt_template_holds_the_episode_in_one_message(view: str, turn: str) -> None:
    env = rlx.gym.make(GUESS, protocol=Boxed(prompt_template="qwen3_general"), observation=view)
    env.reset(seed=0)
    seen, *_ = env.step(r"so \boxed{25}")
    text = seen[0]["content"] if view == "chat" else seen
    assert text.startswith("Question: Put your number in \\boxed{}.\nGuess the number")
    assert f"from 1 to 50.\n{turn}\nlower than 25\nPlease reason step by step" in text


def test_an_experts_words_win() -> None:
    env = rlx.gym.make(GUESS)
    env.reset(seed=2)
    total, over = 0.0, False
    for move in moves_of(env.world, env.task, 0, ()):
        _, reward, over, _, info = env.step(env.dialect.write(move))
        total += reward
    assert (total, over, info) == (1.0, True, {"success": True, "status": "done"})


def test_split_and_task_are_chosen_by_options() -> None:
    env = rlx.gym.make(GUESS, num_test=2)
    test = [task.key for task in GuessTheNumber(num_test=2).tasks("test", 0)]
    assert env.reset(seed=0, options={"split": "test"})[1]["task"] == test[0]
    assert [env.reset()[1]["task"] for _ in range(3)] == [test[1], test[0], test[1]], "all of them, and again"
    assert env.reset(options={"task": 1})[1]["task"] == test[1]
    with raises_naming(ValueError, "options:", "task=2", "test"):
        env.reset(options={"task": 2})
    for wrong in (test[1], -1, True, 1.0, None):
        with raises_naming(MistakeError, "options:", "task=", 1000000):
            env.reset(options={"task": wrong})
    with raises_naming(ValueError, "options:", "'tsk'", "task"):
        env.reset(options={"tsk": 2})
    with raises_naming(ValueError, "options:", "split='tset'", "train", "test"):
        env.reset(options={"split": "tset"})


def test_a_number_chooses_a_task_and_the_next_follow_as_in_gem(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{i} + 1", "answer": str(i + 1)}) + "\n" for i in range(12)))
    data = {"source": "hub", "hub": str(rows), "test_split": "train"}
    env = rlx.gym.get_wrapper_fns("episode_tracking")[0](rlx.gym.make("math", split="test", **data))
    assert len(env.dataset) == 12
    seen = [env.reset(idx=i)[1]["task"] for i in range(12)]
    assert seen == [task.key for task in env.dataset]
    assert env.reset(idx=3)[1]["task"] == seen[3]
    assert [env.reset()[1]["task"] for _ in range(9)] == [*seen[4:], seen[0]]
    with raises_naming(MistakeError, "idx=12", "test"):
        env.reset(idx=12)
    assert not hasattr(rlx.gym.make("math", source="hub", hub=str(rows)), "dataset"), "training has no end"
    assert not hasattr(rlx.gym.make(GUESS), "dataset")


@settings(max_examples=20)
@given(st.integers(0, 2**40), st.lists(st.text(max_size=20) | st.integers(0, 60).map(r"\boxed{{{}}}".format)))
def test_spawned_in_the_same_state_it_goes_on_alike(seed: int, texts: list[str]) -> None:
    env = rlx.gym.make(GUESS)
    env.reset(seed=seed)
    for text in texts:
        if env.step(text)[2]:
            return
    other = env.spawn(same_state=True)
    action = env.sample_random_action()
    assert env.step(action) == other.step(action)


def test_spawned_with_keywords_it_has_those() -> None:
    env = rlx.gym.make(GUESS, max_turns=3, observation="history")
    other = env.spawn(observation="last")
    assert (other.observation, other.world) == ("last", env.world)
    assert env.spawn(max_turns=4).world == rlx.gym.make(GUESS, max_turns=4).world


def test_a_random_action_can_be_read() -> None:
    for name in ("game:GuessTheNumber-v0", "game:FifteenPuzzle-v0", "game:Minesweeper-v0", "countdown"):
        env = rlx.gym.make(name, seed=3)
        env.reset()
        said = {env.sample_random_action() for _ in range(20)}
        assert len(said) > 2
        for text in said:
            assert env.dialect.parse(text, "stop").kind != "invalid"
        env.reset(seed=3)
        assert "invalid" not in env.step(env.sample_random_action())[4]


def test_gymnasium_makes_it_again_by_its_spec() -> None:
    env = rlx.gym.make("game:GuessTheNumber-v0-easy", seed=4)
    assert env.env_id == "game/guess_the_number_easy-v0"
    again = env.spec.make().unwrapped if env.spec else None
    assert again is not None
    assert again.reset() == env.reset()


@given(st.text() | st.just("\x1b[2J") | st.just("x" * 100_000) | st.just("\\boxed{" * 5000))
def test_whatever_is_said_has_an_outcome(text: str) -> None:
    for env in SPOKEN:
        env.reset(seed=0)
        observation, reward, *_ = env.step(text)
        assert observation in env.observation_space
        assert -0.1 <= reward <= 1.0


@dataclass(frozen=True)
class Priced(Environment):
    """A tool with a price, an answer, and a record of what was closed."""

    closed: list[int]
    max_rounds: int = 2

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([Task(id="t", prompt=(Text("say"),), data={})])

    def start(self, task: Task) -> PricedEpisode:
        return PricedEpisode(self.closed)

    def tool_cost(self, tool: ToolUse) -> float:
        return tool.num_calls * 0.5 + tool.num_tokens


@dataclass
class PricedEpisode(Episode):
    closed: list[int]

    def step(self, action: Action) -> Step:
        return Step(
            observation=(Text("ok"),), reward=2.0, tool=ToolUse(num_calls=1), metrics={"said": len(action.text)}
        )

    def close(self) -> None:
        self.closed.append(1)


def test_tools_cost_turns_are_limited_and_an_episode_is_closed_once() -> None:
    closed: list[int] = []
    env = TextEnv(Priced(closed), Boxed(), tokenizer=Spoken())
    env.reset(seed=0)
    told = {"metrics": {"said": 1}, "tool": {"calls": 1, "failed": 0}}
    assert env.step(r"\boxed{a}") == ("\nok\n", 2.0 - 0.5 - 4, False, False, told)
    env.step(r"\boxed{a}")
    assert env.step(r"\boxed{a}")[2:] == (True, False, {**told, "success": False, "status": "truncated"})
    assert closed == [1]
    env.close()
    env.reset()
    env.reset()
    assert closed == [1, 1]


def test_importing_it_brings_neither_torch_nor_hydra() -> None:
    code = "import rlx.gym, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert not {"torch", "transformers", "hydra", "omegaconf", "datasets"} & set(done.stdout.split())


def test_without_gymnasium_one_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import rlx.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: rlx.gym needs Gymnasium: pip install 'rlx[gym]'"


def test_a_mixture_speaks_as_each_of_its_parts_does() -> None:
    env = rlx.gym.make("mixture")
    firsts: dict[str, str] = {}
    for _ in range(2):
        text, _ = env.reset()
        firsts[env.task.env] = text
    assert "\\boxed" in firsts["first"]
    assert "\\boxed" not in firsts["second"], "its own protocol is direct"
    assert env.world.start(env.task).opening() == env.part.start(replace(env.task, env="")).opening()


def test_summaries_are_refused_where_nobody_counts_tokens() -> None:
    env = rlx.gym.make(GUESS, protocol=Direct(summarise_at=40))
    with raises_naming(ValueError, "protocol.summarise_at:", "window"):
        env.reset(seed=0)


@for_each("action", [None, b"25", 25, ["25"], float("nan")])
def test_what_is_no_text_is_no_action(action: Any) -> None:
    env = rlx.gym.make(GUESS)
    env.reset(seed=0)
    with raises_naming(MistakeError, type(action).__name__, "action"):
        env.step(action)
    assert env.step(r"\boxed{25}")[1] >= 0


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"split": "tset"}, "split='tset': expected train, test"),
        ({"render_mode": "human"}, "render_mode='human': expected None, ansi"),
        ({"observation": 5}, "observation=5: expected last, observations, history, chat, chat_on_reset"),
    ],
)
def test_a_word_that_is_not_known_is_refused_before_an_episode(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(MistakeError) as mistake:
        rlx.gym.make(GUESS, **keywords)
    assert str(mistake.value) == told


@for_each("options", ["split", 5, {"task": 10**9}, {"task": -1}])
def test_options_that_mean_no_task_are_refused_at_once(options: Any) -> None:
    with raises_naming(MistakeError, "options"):
        rlx.gym.make(GUESS).reset(options=options)


class Drawn(GuessTheNumber):
    """It knows how many tasks were drawn."""

    count: ClassVar = [0]

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        for task in super().tasks(split, seed):
            self.count[0] += 1
            yield task


def test_tasks_by_their_numbers_are_drawn_once_in_order_and_again_from_the_first() -> None:
    env = TextEnv(Drawn(), Boxed())
    first = [env.reset(seed=3, options={"task": i // 2})[1]["task"] for i in range(100)]
    assert Drawn.count[0] == 50
    again = [env.reset(seed=3, options={"task": i})[1]["task"] for i in (49, 7, 0)]
    assert again == [first[98], first[14], first[0]]
    assert first[::2] == [task.key for task in islice(GuessTheNumber().tasks("train", 3), 50)]
