"""A greedy policy's decision tree, from its episodes: the action after each sequence of observations.

    compare A B -- A < B --> compare B C -- B < C --> answer A < B < C
               \\- A > B --> swap A B, compare B C ...

With greedy sampling a policy is such a tree (Yue et al. 2025, "Efficiency" and the picture in the appendix): of a task
family whose episodes all begin alike, and part by what is seen. What is always seen alike parts nothing, and stands in
one choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from rlx.base.console import one_line
from rlx.base.limits import MistakeError
from rlx.types import Trajectory, Turn

Steps = tuple[tuple[str, str], ...]
"""Pairs of an action and the observation after it."""
BOX, LINE, LEVEL, GAP = 92, 13, 46, 10
"""Sizes in a picture: a box's width, a line's height, what is between two levels and between two boxes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Actions in sequence, and the next choices by the observation after the last of them."""

    did: tuple[str, ...]
    after: Mapping[str, Choice]
    num: int
    """Episodes that come here."""
    num_right: int

    @property
    def leaves(self) -> Iterator[Choice]:
        if not self.after:
            yield self
        for choice in self.after.values():
            yield from choice.leaves


def trees_of(episodes: Sequence[Trajectory]) -> dict[str, Choice]:
    """A tree for each prompt; MistakeError where a policy did one thing and another after the same."""
    episodes_by_prompt: dict[str, list[Trajectory]] = {}
    for episode in episodes:
        if episode.status != "error":
            episodes_by_prompt.setdefault("\n".join(part.text for part in episode.task.prompt), []).append(episode)
    return {
        prompt: grow([(path_of(episode), episode.success) for episode in some])
        for prompt, some in episodes_by_prompt.items()
    }


def path_of(episode: Trajectory) -> Steps:
    return tuple((done_in(turn), " ".join(part.text for part in turn.observation)) for turn in episode.turns)


def done_in(turn: Turn) -> str:
    action = turn.action
    name = "" if action.kind == "invalid" else action.name
    return one_line(f"{name or action.kind} {action.text}".strip(), 40)


def grow(paths: Sequence[tuple[Steps, bool]]) -> Choice:
    """The tree of some paths that began alike."""
    did: list[str] = []
    branches: dict[str, list[tuple[Steps, bool]]] = {"": list(paths)}
    while len(branches) == 1:
        (rest,) = branches.values()
        if not any(path for path, _ in rest):
            break
        doing = sorted({path[0][0] if path else "nothing" for path, _ in rest})
        if len(doing) > 1:
            actions_text = " and ".join(map(repr, doing[:2]))
            raise MistakeError(f"after the same, {actions_text} were done: evaluate greedily (evaluate.temperature=0)")
        did += doing
        branches = {}
        for path, is_right in rest:
            branches.setdefault(path[0][1], []).append((path[1:], is_right))
    after = {observation: grow(some) for observation, some in sorted(branches.items())} if len(branches) > 1 else {}
    return Choice(did=tuple(did), after=after, num=len(paths), num_right=sum(is_right for _, is_right in paths))


def tree_svg(tree: Choice, title: str) -> str:
    """The tree as a picture, from the left to the right in the order of what is seen."""
    width = max(3, sum(1 for _ in tree.leaves)) * (BOX + GAP) + GAP
    parts: list[str] = []
    height = draw(tree, GAP, LEVEL, parts)[1]
    head = f'<text x="{GAP}" y="20" font-size="13">{escape(one_line(title, 120))}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + GAP}" font-family="sans-serif"'
            ' font-size="10" text-anchor="middle">',
            '<rect width="100%" height="100%" fill="white"/>',
            head.replace("<text ", '<text text-anchor="start" '),
            *parts,
            "</svg>\n",
        ]
    )


def draw(tree: Choice, left: float, top: float, parts: list[str]) -> tuple[float, float]:
    """Add a tree's shapes; return the middle of its box and the lower end of the tree."""
    tall = LINE * len(tree.did) + 8
    bottom, child_left, middles = top + tall, left, []
    for action, choice in tree.after.items():
        middle, end = draw(choice, child_left, top + tall + LEVEL, parts)
        middles.append((middle, action))
        child_left += sum(1 for _ in choice.leaves) * (BOX + GAP)
        bottom = max(bottom, end)
    mine = (middles[0][0] + middles[-1][0]) / 2 if middles else left + BOX / 2
    for middle, action in middles:
        parts.append(f'<path d="M{mine:g} {top + tall}L{middle:g} {top + tall + LEVEL}" stroke="#888" fill="none"/>')
        parts.append(
            f'<text x="{middle:g}" y="{top + tall + LEVEL - 6}" fill="#555">{escape(one_line(action, 16))}</text>'
        )
    fill = "#eef" if tree.after else "#dfd" if tree.num_right == tree.num else "#fdd"
    parts.append(
        f'<rect x="{mine - BOX / 2:g}" y="{top}" width="{BOX}" height="{tall}" rx="4" fill="{fill}" stroke="#444"/>'
    )
    for line, action in enumerate(tree.did):
        parts.append(f'<text x="{mine:g}" y="{top + LINE * (line + 1)}">{escape(one_line(action, 18))}</text>')
    return mine, bottom
