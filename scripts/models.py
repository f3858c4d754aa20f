"""Write the table of model families in docs/models.md from rlx/model/families.py.

python scripts/models.py           # print it
python scripts/models.py --write   # put it into the page
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from rlx.model.families import ATTENTION, FAMILIES, FEED_FORWARD, SHARED_EXPERT, Family
from rlx.settings.folders import shipped_options

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
TABLE = re.compile(r"\| `model_type` \|.*?(?=\n\n)", re.DOTALL)
HEAD = ("`model_type`", "options", "learner", "forks", "torch engine", "vLLM", "LoRA adapts", "on a GPU")
GROUPS = {"attention": ATTENTION, "feed-forward": FEED_FORWARD, "shared expert": SHARED_EXPERT}
"""Groups of linear maps."""
INSTRUCT = "_instruct"
ON_GPUS = ("qwen2", "qwen3")
"""Types that an H200 computed (docs/performance.md)."""
WITH_VLLM = ("qwen2",)
"""Types whose tokens tests/cluster/test_vllm.py compares with the torch engine's."""


def table() -> str:
    """Return the table of all families."""
    options: dict[str, list[str]] = {kind: [] for kind in FAMILIES}
    shipped = shipped_options("model")
    for name, option in shipped.items():
        if (
            option["shape"] is not None
            and is_named_after(name, option["path"])
            and name.removesuffix(INSTRUCT) not in (shipped.keys() - {name})
        ):
            options[option["shape"]["model_type"]].append(name)
    lines = [HEAD, ("---",) * len(HEAD), *(row(kind, family, options[kind]) for kind, family in FAMILIES.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def is_named_after(name: str, path: str) -> bool:
    """Tell whether an option is named after its model, and not after a paper."""
    return name.partition("_")[0] in path.lower().replace("-", "")


def adapted(family: Family) -> str:
    """Name the maps that LoRA adapts, known groups of them by one word."""
    words, others = [], list(family.adapted)
    for word, group in GROUPS.items():
        if set(group) <= set(others):
            words.append(word)
            others = [name for name in others if name not in group]
    return ", ".join([*words, *(f"`{name}`" for name in others)])


def row(kind: str, family: Family, options: list[str]) -> tuple[str, ...]:
    """Return the cells of one family."""
    return (
        f"`{kind}`",
        ", ".join(f"`{name}`" for name in options),
        "one episode a row" if family.recurrent else "forest",
        "whole episodes" if family.recurrent else "share prefixes",
        "fused" if family.fused else "transformers",
        "tested on a CPU" if kind in WITH_VLLM else f"not tried{', no prefix cache' if family.recurrent else ''}",
        adapted(family),
        "one H200" if kind in ON_GPUS else "",
    )


def main() -> None:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
