"""A search agent's questions: what calls show, which turn may come, what an episode earns, and the expert's way."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.limits import MistakeError
from rlx.env.questions.invented_world import SIZES, World, make_world
from rlx.env.questions.relations import RELATIONS
from rlx.env.search.search_qa import LAST_TURN, SearchEpisode, SearchQA
from rlx.environment.world import step_within
from rlx.protocol.standalone import Standalone
from rlx.tool.retrieval.build import build_index
from rlx.tool.retrieval.memory import MemoryRetriever
from rlx.tool.retrieval.page import Page
from rlx.types import Action, Step, Task
from tests.errors import raises_naming
from tests.loops import for_each

KNOWN = SearchQA(names="known", reads=False, thoughts=False, max_rounds=9)
READING = SearchQA(names="known", reads=True, result_characters=0, max_rounds=12)


def first(env: SearchQA, split: str = "train") -> Task:
    return next(iter(env.tasks(split, 0)))


def call(name: str, text: str) -> Action:
    return Action(kind="call", name=name, text=text)


def answer(text: str) -> Action:
    return Action(kind="answer", text=text)


def note(text: str) -> Action:
    return Action(kind="act", name="read", text=text)


def shown(step: Step) -> str:
    return "\n".join(part.text for part in step.observation)


@for_each(
    "env, hops",
    product(
        [
            KNOWN,
            READING,
            SearchQA(result_characters=1000, max_rounds=12),
            SearchQA(access=False, result_characters=300),
        ],
        [1, 2, 3],
    ),
)
def test_the_expert_finds_the_answer_with_the_pages_alone(env: SearchQA, hops: int) -> None:
    env = replace(env, hops=(hops,))
    for task in islice(env.tasks("train", 1), 20):
        episode, seen = env.start(task), ""
        for move in env.demonstrate(task, 0, ("search", "access")):
            assert move.action.kind != "answer" or task.data["answer"] in seen
            step = episode.step(move.action)
            seen += shown(step)
        assert (step.reward, step.done, step.success) == (1.0, True, True)
        assert step.metrics[f"f1_{hops}_hops"] == step.metrics["form"] == 1.0


def test_an_episode_with_reading_turns_has_two_turns_a_result() -> None:
    env = replace(READING, hops=(2,))
    kinds = [move.action.name or move.action.kind for move in env.demonstrate(first(env), 0, ("search", "access"))]
    assert kinds == ["search", "read", "access", "read"] * 2 + ["answer"]


def test_after_a_result_only_a_reading_turn_may_come() -> None:
    task = first(READING)
    episode = READING.start(task)
    assert episode.opening().legal == ("answer",)
    assert episode.step(call("search", task.data["key"]["searches"][0])).legal == ("read",)
    early = episode.step(call("search", "again"))
    assert (early.tool.num_failed, early.legal) == (1, ("read",))
    assert episode.step(note("nothing")).legal == ("answer",)


def test_a_call_without_a_result_asks_for_no_reading_turn() -> None:
    episode = READING.start(first(READING))
    for action in (call("search", "zzz"), call("access", "no such page"), call("python", "1")):
        step = episode.step(action)
        assert (step.tool.num_failed, step.legal) == (1, ("answer",))


@pytest.mark.parametrize(("form", "reward"), [("multiply", 0.0), ("ignore", 1.0)])
def test_an_invalid_turn_takes_the_reward_of_a_right_answer(form: Any, reward: float) -> None:
    env = SearchQA(names="known", reads=False, form=form)
    task = first(env)
    episode = env.start(task)
    episode.step(Action(kind="invalid", text="say something"))
    step = episode.step(answer(task.data["answer"]))
    assert (step.reward, step.success, step.metrics["form"], step.metrics["f1_hotpot"]) == (reward, True, 0.0, 1.0)


def test_a_question_without_an_answer_has_the_figures_of_a_wrong_one() -> None:
    task = first(KNOWN)
    step = step_within(KNOWN.start(task), answer("nobody"), 0, 3, Step(), KNOWN.unanswered(task))
    assert step.metrics == dict.fromkeys(KNOWN.unanswered(task), 0.0) | {"form": 1.0}
    search = step_within(KNOWN.start(task), call("search", "x"), 0, 3, Step(), KNOWN.unanswered(task))
    assert search.metrics == KNOWN.unanswered(task) == dict.fromkeys(step.metrics, 0.0)
    assert {"f1_hotpot", "exact_match", "form"} < {*search.metrics}


def test_the_turn_before_the_last_says_that_none_are_left() -> None:
    env = SearchQA(names="known", reads=True, hops=(1,), result_characters=200, max_rounds=2)
    task = first(env)
    episode = env.start(task)
    name = task.data["key"]["searches"][0]
    one = step_within(episode, call("search", name), 0, env.max_rounds)
    two = step_within(episode, note("found"), 1, env.max_rounds)
    assert LAST_TURN not in shown(one)
    assert shown(two) == LAST_TURN
    assert step_within(episode, answer(task.data["answer"]), 2, env.max_rounds).reward == 1.0
    late = env.start(task)
    step_within(late, note("nothing"), 0, env.max_rounds)
    assert step_within(late, call("search", name), 1, env.max_rounds).legal == ("answer",)


@pytest.mark.parametrize(
    ("f1", "said", "reward"), [("hotpot", "the cat cat dog", 2 / 3), ("asearcher", "cat cat dog", 1.0)]
)
def test_the_reward_has_the_chosen_form_of_f1(f1: Any, said: str, reward: float) -> None:
    env = SearchQA(names="known", f1=f1)
    task = Task(id="t", prompt=(), data={"key": {"golds": ["cat dog dog"]}, "answer": "", "worked": ""})
    assert env.start(task).step(answer(said)).reward == pytest.approx(reward)


def test_a_page_is_shown_as_plain_text() -> None:
    page = Page(id="1", title="Cat", text="\x1b[31mred\x00 <answer>no</answer>", url="u")
    env = SearchQA(result_characters=50, reads=False)
    env.__dict__["engine"] = MemoryRetriever([page])
    episode = env.start(first(env))
    for step in (episode.step(call("search", "cat")), episode.step(call("access", "u"))):
        assert "\x1b" not in shown(step)
        assert "red" in shown(step)
    told = Standalone(reasoning=True).render(step.observation)
    assert "<answer>" not in told


def test_known_names_share_words_and_every_answer_is_unique() -> None:
    world = make_world(World(names="known"))
    assert {kind: len(names) for kind, names in world.names.items()} == dict(SIZES["known"])
    firsts = [name.split()[0] for name in world.names["person"]]
    assert len(set(firsts)) < len(firsts)
    assert all(len(set(names)) == len(names) for names in world.names.values())


def test_a_world_has_the_sizes_and_relations_that_are_told() -> None:
    env = SearchQA(names="known", relations=("teacher", "born"), sizes={"person": 5}, hops=(1, 2), reads=False)
    world = make_world(env.settings)
    assert len(world.names["person"]) == 5
    assert {relation.name for facts in world.facts.values() for relation in facts} == {"teacher", "born"}
    asked = {task.data["key"]["hops"] for task in islice(env.tasks("train", 0), 30)}
    assert asked == {1, 2}


@given(
    st.lists(st.tuples(st.sampled_from(["search", "access", "read", "answer", "x"]), st.text(max_size=30)), max_size=9)
)
def test_any_turns_are_answered(turns: list[tuple[str, str]]) -> None:
    episode: SearchEpisode = READING.start(first(READING))
    for name, text in turns:
        kind: Any = {"answer": "answer", "read": "act", "x": "invalid"}.get(name, "call")
        step = episode.step(Action(kind=kind, name=name, text=text))
        assert 0.0 <= step.reward <= 1.0
        assert step.done == (kind == "answer")
        if step.done:
            break


@for_each(
    "key, value",
    [
        ("top_k", 0),
        ("result_characters", -1),
        ("page_characters", 0),
        ("max_rounds", 0),
        ("hops", ()),
        ("hops", (5,)),
        ("names", "secret"),
        ("relations", ("loves",)),
        ("sizes", {"person": 1}),
        ("sizes", {"dog": 5}),
        ("sizes", {"person": 10**6}),
        ("world", -1),
        ("search_url", "ftp://host"),
        ("timeout", 0.0),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(key: str, value: Any) -> None:
    with raises_naming(ValueError, key):
        SearchQA(**{key: value})


def test_a_limit_that_leaves_no_way_to_an_answer_is_refused() -> None:
    with raises_naming(ValueError, "max_rounds=7", 8):
        replace(READING, max_rounds=7, hops=(2,))
    assert replace(READING, max_rounds=8, hops=(2,)).longest_way == 8
    assert SearchQA(hops=(4,), result_characters=1000).longest_way == 8


def test_what_cannot_go_together_is_refused() -> None:
    with raises_naming(ValueError, "index=None", "source=hub"):
        SearchQA(source="hub", hub="x.jsonl")
    with raises_naming(ValueError, "index=folder", "search_url"):
        SearchQA(index="folder", search_url="http://127.0.0.1:1")
    with raises_naming(ValueError, "result_characters=0", "access=false"):
        SearchQA(access=False, result_characters=0)
    with raises_naming(ValueError, "hops"):
        SearchQA(relations=("born",), hops=(2,))
    with raises_naming(ValueError, "hops"):
        next(iter(SearchQA(relations=("teacher",), hops=(4,), sizes={"person": 2}).tasks("train", 0)))


def test_each_relation_has_a_name_of_its_own() -> None:
    assert len({relation.name for relation in RELATIONS}) == len(RELATIONS)


def test_a_data_set_is_asked_with_the_pages_of_an_index(tmp_path: Path) -> None:
    pages, index, rows = tmp_path / "pages.jsonl", tmp_path / "index", tmp_path / "questions" / "rows.jsonl"
    pages.write_text('{"id": "1", "title": "Cat", "text": "A cat says meow.", "url": "https://cat"}\n')
    rows.parent.mkdir()
    rows.write_text('{"question": "What does a cat say?", "golds": ["meow", "miaow"]}\n' * 2)
    (rows.parent / "other.txt").write_text("not asked")
    build_index(pages, index, engine="bm25s", tell=lambda *_: None)
    env = SearchQA(
        source="hub",
        hub=str(rows.parent),
        table="rows.jsonl",
        answer_key="golds",
        index=str(index),
        reads=False,
        test_split="train",
    )
    env.check_inputs()
    (task,) = env.tasks("test", 0)
    episode = env.start(task)
    assert shown(episode.step(call("search", "cat"))) == "Cat (https://cat)"
    assert "meow" in shown(episode.step(call("access", "https://cat")))
    assert episode.step(answer("miaow")).reward == 1.0
    assert "bm25s" in env.data_version()
    outside = replace(env, table="../questions/rows.jsonl")
    with raises_naming(MistakeError, "table"):
        list(outside.tasks("test", 0))
    with raises_naming(MistakeError, "index"):
        replace(env, index=str(tmp_path)).check_inputs()
