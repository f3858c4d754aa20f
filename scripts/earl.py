"""Print what EARL's paper shows of trained policies (Yue et al. 2025), from each folder's newest evaluation.

    python scripts/earl.py swaps NAME=DIR ...            Table 2: swaps and comparisons, beside algorithms
    python scripts/earl.py strata NAME=DIR ...           Figure 4: right answers by the swaps that were needed
    python scripts/earl.py habits NAME=DIR ...           Table 4: interactions, hallucinations, planning phrases
    python scripts/earl.py lengths OUT.svg NAME=DIR ...  Figure 5: tokens of right answers
    python scripts/earl.py tree OUT.svg DIR              the decision tree of a greedy policy
    python scripts/earl.py untrained                     what nano's pretraining taught it of sorting

With `part=countdown` among them, of that part of a mixture alone.
For `swaps` and `tree` evaluate greedily over all orders of one size: `rlx eval run=DIR env=sorting/sort4
evaluate.temperature=0`, or `part=sort4` of a mixture that does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from rlx.base.console import one_line
from rlx.base.limits import MistakeError
from rlx.base.table import MISSING, Table, to_markdown
from rlx.env.sorting.sorters import SORTERS, average, network
from rlx.lab.decisions import tree_svg, trees_of
from rlx.lab.habits import habits, lengths_of_right, lengths_svg
from rlx.model.load import SHIPPED, Model, load_tokenizer
from rlx.rollout.measure import env_figures, mean
from rlx.rollout.stops import decoder
from rlx.runs.store import load, stored_files
from rlx.settings.build import build_part
from rlx.settings.saved import load_tree
from rlx.types import Trajectory

Named = Mapping[str, Sequence[Trajectory]]
SWAP = re.compile(r"swap ([A-D]) ([A-D])")


def evaluated(folder: Path, part: str = "") -> list[Trajectory]:
    """The episodes of the newest evaluation of what was trained; of a part of a mixture, if one is named."""
    files = [file for file in stored_files(folder) if file.stem.startswith("eval")]
    if not files:
        raise MistakeError(f"{folder} has no evaluation; begin one with `rlx eval run={folder}`")
    newest = max(files, key=lambda file: (file.stat().st_mtime, file.name))
    episodes = [episode for group in load(newest) for episode in group.trajectories]
    chosen = [episode for episode in episodes if part in ("", episode.task.env)]
    if not chosen:
        part_names = ", ".join(sorted({episode.task.env for episode in episodes} - {""})) or "none"
        raise MistakeError(f"{folder} evaluated nothing of a part {part!r:.60}; its parts: {part_names}")
    return chosen


def table(title: str, header: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    body = tuple((name, *cells) for name, cells in rows.items())
    return to_markdown(Table(title=title, header=("", *header), rows=body))


def untrained() -> str:
    """Ask nano, as it is shipped, for the swaps that bring each order of four, which it is told, into another."""
    from transformers import AutoModelForCausalLM

    tokenizer = load_tokenizer(Model(path="nano"))
    model = AutoModelForCausalLM.from_pretrained(SHIPPED / "nano")
    orders = list(permutations("ABCD"))
    replies = [complete(tokenizer, model, f"Now {' < '.join(order)}. Want A < B < C < D: ") for order in orders]
    pairs = [SWAP.findall(text) for text in replies]
    right = sum(swapped(order, swap_pairs) == sorted(order) for order, swap_pairs in zip(orders, pairs, strict=True))
    return f"{right} of {len(orders)} orders of four sorted, {sum(map(len, pairs)) / len(orders):.3f} swaps on average"


def complete(tokenizer: Any, model: Any, prompt: str) -> str:
    """Return the greedy continuation of a text."""
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    return str(tokenizer.decode(model.generate(ids, max_new_tokens=40, do_sample=False)[0, ids.shape[1] :]))


def swapped(order: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return an order after swaps of pairs of names."""
    now = list(order)
    for pair in pairs:
        first, second = map(now.index, pair)
        now[first], now[second] = now[second], now[first]
    return now


def swaps(named: Named) -> str:
    """Over the episodes that were right; all of an algorithm's are."""
    sizes = {len(episode.task.data["numbers"]) for episodes in named.values() for episode in episodes}
    if len(sizes) != 1:
        raise MistakeError(f"these have {len(sizes)} sizes of tasks: evaluate one, such as env=sorting/sort4")
    costs = costs_of(*sizes)
    rows = {name: [f"{swapped:.3f}", f"{compared:.3f}", "100%"] for name, (swapped, compared) in costs.items()}
    for name, episodes in named.items():
        right = [env_figures(episode) for episode in episodes if episode.success]
        means = [mean(row[key] for row in right) for key in ("env/swaps", "env/comparisons")]
        share = mean(episode.success for episode in episodes)
        rows[name] = [*(f"{value:.3f}" if right else MISSING for value in means), f"{share:.0%}"]
    return table(f"To sort {sizes.pop()} numbers, on average", ("swaps", "comparisons", "right"), rows)


def costs_of(num: int) -> dict[str, tuple[float, float]]:
    """The network is one of four."""
    return {name: average(sorter, num) for name, sorter in SORTERS.items() if num == 4 or sorter is not network}


def strata(named: Named) -> str:
    figures = {name: [env_figures(episode) for episode in episodes] for name, episodes in named.items()}
    keys = sorted({key for rows in figures.values() for row in rows for key in row if key.startswith("env/sort_")})
    cells = {
        name: [share_of([row[key] for row in rows if key in row]) for key in keys] for name, rows in figures.items()
    }
    heads = [key.removeprefix("env/").replace("_", " ") for key in keys]
    return table("Right, by the swaps that were needed", heads, cells)


def share_of(values: Sequence[float]) -> str:
    return f"{mean(values):.1%} of {len(values)}" if values else MISSING


def habits_of(folders: Mapping[str, Path], named: Named) -> str:
    rows = {}
    for name, episodes in named.items():
        figures = habits(episodes, decoder(load_tokenizer(build_part(load_tree(folders[name]), "model"))))
        columns = ("interactions", "hallucinations", "plannings", "success")
        rows[name] = [f"{figures[key]:.3f}" if key in figures else MISSING for key in columns]
    return table("In an episode, on average", ("interactions", "hallucinations", "planning phrases", "right"), rows)


def draw_tree(episodes: Sequence[Trajectory], out: Path) -> str:
    """The largest of its trees."""
    trees = trees_of(episodes)
    if not trees:
        raise MistakeError("no episode of this evaluation has ended without an error: there is nothing to draw")
    prompt, tree = max(trees.items(), key=lambda item: item[1].num)
    out.write_text(tree_svg(tree, f"{prompt} ({tree.num_right} of {tree.num} right)"), encoding="utf-8")
    return f"{out}: {sum(1 for _ in tree.leaves)} ends of {tree.num} episodes, {tree.num_right} of them right"


def main(words: list[str]) -> str:
    parts = [word for word in words if word.startswith("part=")]
    command, *rest = [word for word in words if word not in parts] or [""]
    part = parts[-1].removeprefix("part=") if parts else ""
    if command == "untrained" and not rest:
        return untrained()
    if command == "tree" and len(rest) == 2:
        return draw_tree(evaluated(Path(rest[1]), part), Path(rest[0]))
    out, pairs = (rest[0], rest[1:]) if command == "lengths" and rest else ("", rest)
    if command not in ("swaps", "strata", "habits", "lengths") or not pairs or not all("=" in pair for pair in pairs):
        sys.exit(__doc__)
    folders = {name: Path(folder) for name, folder in (pair.split("=", 1) for pair in pairs)}
    named = {name: evaluated(folder, part) for name, folder in folders.items()}
    if command == "lengths":
        Path(out).write_text(
            lengths_svg({name: lengths_of_right(episodes) for name, episodes in named.items()}), encoding="utf-8"
        )
        return out
    return habits_of(folders, named) if command == "habits" else {"swaps": swaps, "strata": strata}[command](named)


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except MistakeError as error:
        sys.exit(f"earl: {one_line(str(error))}")
