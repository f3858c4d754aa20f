"""A decision tree is what a deterministic policy does, and its picture shows all of it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from rlx.base.limits import MistakeError
from rlx.env.sorting.sorting import Sorting
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of
from rlx.lab.decisions import Choice, grow, tree_svg, trees_of
from rlx.protocol.direct import Direct
from rlx.types import Completion, Trajectory, Turn
from tests.errors import raises_naming

NOTHING = Completion(token_ids=(), logprobs=(), stop="stop")


def episodes(expert: str, num: int) -> Iterator[Trajectory]:
    """An expert's, over all orders."""
    sizes = {"sizes": (num,), "shares": (1,), "test_sizes": (num,), "test_shares": (1,)}
    env = Sorting(**sizes, test="orders", expert=expert)  # type: ignore[arg-type]
    for task in env.tasks("test", 0):
        _, shown = demonstration(env, dialect_of(env, Direct()), task, 0)
        turns = tuple(
            Turn(prompt_ids=(), completion=NOTHING, action=one.move.action, observation=one.step.observation)
            for one in shown
        )
        yield Trajectory(task=task, sample=0, turns=turns, status="done", success=bool(shown[-1].step.success))


def depth(tree: Choice) -> int:
    """Comparisons summed over the episodes that come here."""
    own = sum(did.startswith("compare") for did in tree.did) * tree.num
    return own + sum(map(depth, tree.after.values()))


@pytest.mark.parametrize(("expert", "comparisons"), [("optimum", 4.667), ("pivot", 4.833)])
def test_an_expert_s_tree_over_all_orders_of_four_has_what_it_costs(expert: str, comparisons: float) -> None:
    (tree,) = trees_of(list(episodes(expert, 4))).values()
    assert (tree.num, tree.num_right) == (24, 24)
    assert tree.did == ("compare A B",)
    assert set(tree.after) == {"A < B", "A > B"}
    leaves = list(tree.leaves)
    assert [leaf.num for leaf in leaves] == [1] * 24, "each order has an end of its own"
    assert all(leaf.did[-1] == "answer A < B < C < D" for leaf in leaves)
    assert depth(tree) / 24 == pytest.approx(comparisons, abs=5e-4)


def test_what_is_always_seen_alike_parts_nothing() -> None:
    tree = grow(
        [((("swap A B", "done"), ("look", "x"), ("end", "")), True), ((("swap A B", "done"), ("look", "y")), False)]
    )
    assert tree.did == ("swap A B", "look")
    assert {what: (next_.did, next_.num_right) for what, next_ in tree.after.items()} == {
        "x": (("end",), 1),
        "y": ((), 0),
    }


def test_a_policy_that_is_not_greedy_has_no_tree() -> None:
    with raises_naming(MistakeError, "'a' and 'b'", "(evaluate.temperature=0)"):
        grow([((("a", "x"),), True), ((("b", "x"),), True)])


def test_the_picture_has_a_box_for_every_choice_and_nothing_of_a_text_is_markup() -> None:
    (tree,) = trees_of(list(episodes("optimum", 3))).values()
    picture = tree_svg(tree, "<b>three & no more</b>")
    root = ElementTree.fromstring(picture)
    texts = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert texts.count("answer A < B < C") == 6
    assert "<b>three & no more</b>" in texts
    assert {"A < B", "A > B"} <= set(texts)


def test_every_box_lies_inside_the_picture() -> None:
    (tree,) = trees_of(list(episodes("optimum", 3))).values()
    root = ElementTree.fromstring(tree_svg(tree, "three"))
    boxes = [one for one in root.iter() if one.tag.endswith("rect") and "x" in one.attrib]
    assert len(boxes) == 11  # five comparisons, and six orders
    assert all(float(one.attrib["x"]) >= 0 for one in boxes)
    assert max(float(one.attrib["x"]) + float(one.attrib["width"]) for one in boxes) <= float(root.attrib["width"])
    assert max(float(one.attrib["y"]) + float(one.attrib["height"]) for one in boxes) <= float(root.attrib["height"])
