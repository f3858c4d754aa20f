"""Print what trained policies of Countdown try with the Python tool, from two stored evaluations of each run.

    python -m scripts.tries DIR ...        # the start's and the policy's episodes with eight rounds

Tries are counted over all episodes of a problem. A shape is an expression whose numbers are all the same letter.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rlx.base.console import one_line
from rlx.base.limits import MistakeError
from rlx.base.table import Table, to_markdown
from rlx.rollout.measure import actions, mean
from rlx.runs.folder import TRAJECTORIES
from rlx.runs.store import load
from rlx.types import Group

NUMBER, BLANKS = re.compile(r"\d+"), re.compile(r"\s+")
FILES = ("start-8", "eval-8")


def tries_of(group: Group) -> list[str]:
    """Return the expressions that the episodes of a problem ran, without blanks."""
    return [BLANKS.sub("", act.text) for act in actions(group.trajectories) if act.kind == "call"]


def describe(problems: Sequence[Sequence[str]]) -> list[str]:
    """Return tries and distinct tries a problem, the share with a product or quotient, and the most frequent shape."""
    tries = [expression for problem in problems for expression in problem]
    if not tries:
        return ["0", "0", "-", "-"]
    (shape, times), *_ = Counter(NUMBER.sub("N", expression) for expression in tries).most_common(1)
    return [
        f"{mean([len(problem) for problem in problems]):.1f}",
        f"{mean([len(set(problem)) for problem in problems]):.1f}",
        f"{mean(['*' in expression or '/' in expression for expression in tries]):.1%}",
        f"{one_line(shape, 40)} {times / len(tries):.1%}",
    ]


def successes(groups: Iterable[Group]) -> Mapping[int, float]:
    """Return the share of successful episodes by how many numbers their problem has."""
    outcomes: dict[int, list[bool]] = defaultdict(list)
    for episode in (episode for group in groups for episode in group.trajectories):
        outcomes[len(episode.task.data["numbers"])].append(episode.success)
    return {size: mean(outcomes[size]) for size in sorted(outcomes)}


def row(folder: Path, stem: str) -> tuple[str, ...]:
    groups = list(load(folder / TRAJECTORIES / f"{stem}.jsonl"))
    if not all(isinstance(group.task.data.get("numbers"), list) and "target" in group.task.data for group in groups):
        raise MistakeError(f"{one_line(str(folder), 200)} has episodes of another environment; name runs of Countdown")
    right = ", ".join(f"{size}: {share:.1%}" for size, share in successes(groups).items())
    return (f"{stem} of {one_line(str(folder), 200)}", *describe([tries_of(group) for group in groups]), right)


def main(folders: Sequence[str]) -> str:
    if not folders:
        raise MistakeError("name folders of runs: python -m scripts.tries DIR ...")
    header = ("", "tries", "distinct", "with * or /", "most frequent shape", "right, by numbers")
    body = tuple(row(Path(folder), stem) for folder in folders for stem in FILES)
    return to_markdown(Table(title="Tries a problem", header=header, rows=body))


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except (MistakeError, OSError) as error:
        sys.exit(one_line(str(error)))
