"""Write the tables of docs/choices.md: what rlx.run.choose chooses for every environment, algorithm and kind of model.

python scripts/choices.py           # print the tables
python scripts/choices.py --write   # put them into the page
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlx.algo.parts import Algorithm
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.run.choose import Case, choose_protocols, choose_sampling, choose_warm_start
from rlx.settings import resolvers
from rlx.settings.build import build_value
from rlx.settings.compose import compose
from rlx.settings.folders import list_options, read_option

ROOT = Path(__file__).resolve().parents[1]
PAGE, CONF = ROOT / "docs" / "choices.md", ROOT / "conf"
TABLES = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- end of tables -->)", re.DOTALL)
MODELS = {
    "nano": {"reasoning": False, "chat": False},
    "A base model": {"reasoning": True, "chat": False},
    "An instruct model": {"reasoning": True, "chat": True},
}
LEFT_OUT = ("eval", "mixture", "sudoku_and_rg")
"""Environments that are evaluated only, and mixtures, whose parts have a choice each."""

Column = tuple[str, ...]


def tables() -> str:
    """Return a table for each kind of model."""
    envs = {name: build("env", name) for name in list_options("env") if name.partition("/")[0] not in LEFT_OUT}
    algos = {name: build("algo", name) for name in sorted(list_options("algo"))}
    parts = (f"### {title}\n\n{table(envs, algos, facts)}\n" for title, facts in MODELS.items())
    return "\n" + "\n".join(parts) + "\n"


def build(group: str, name: str) -> Any:
    """Build an option of `env` or `algo` for nano. Hydra takes half a second: only overrides of options need it."""
    tree = compose_full(group, name) if overrides_others(group, name) else compose_alone(group, name)
    return build_value(tree, group)


def overrides_others(group: str, name: str) -> bool:
    """Tell whether an option, or one that it begins with, has another option of its own parts."""
    text = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")
    return "override " in text or any(overrides_others(group, base) for base in re.findall(r"([\w/]+)@_here_", text))


def compose_full(group: str, name: str) -> Any:
    return compose([f"{group}={name}", "protocol=tags", "sampling=default", "warm_start=none"])[group]


def compose_alone(group: str, name: str) -> Any:
    tree = {"seed": 0, "env": read_option("env", "math"), "model": read_option("model", "nano")}
    config: Any = OmegaConf.create(numbered(tree | {group: read_option(group, name)}))
    return OmegaConf.to_container(config, resolve=True)[group]


def numbered(value: Any) -> Any:
    """Return the tree with numbers such as 5e-4, which YAML 1.1 reads as text."""
    if isinstance(value, dict):
        return {key: numbered(inner) for key, inner in value.items()}
    return float(value) if isinstance(value, str) and re.fullmatch(r"[\d.]+e-?\d+", value) else value


def table(envs: Mapping[str, Environment], algos: Mapping[str, Algorithm], facts: Mapping[str, bool]) -> str:
    """Return a table: environments with equal choices share a row, algorithms with equal choices a column."""
    columns = {
        algo: tuple(cell(Case(env=env, algo=instance, **facts)) for env in envs.values())
        for algo, instance in algos.items()
    }
    grouped = share(columns)
    rows = share(dict(zip(envs, zip(*grouped.values(), strict=True), strict=True)))
    head = ["environment", *(code(names) for names in grouped)]
    body = [[code(folded(names, envs)), *cells] for cells, names in ((cells, names) for names, cells in rows.items())]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(case: Case) -> str:
    """Return the protocol, the warm start and, where it is not the default, the sampling."""
    protocols = choose_protocols(case)
    option = protocols[0].option if protocols else "tags"
    sampling, warm = choose_sampling(case, option).option, choose_warm_start(case, option, dialect(option)).option
    names = dict.fromkeys(choice.option for choice in protocols)
    return "/".join(names) + (", long" if sampling == "long" else "") + (f", {warm}" if warm != "none" else "")


@cache
def dialect(protocol: str) -> Dialect:
    built: Dialect = build_value(read_option("protocol", protocol), "protocol")
    return built


def share(columns: Mapping[str, Column]) -> dict[Column, Column]:
    """Return the distinct columns by the names that share them."""
    names: dict[Column, list[str]] = defaultdict(list)
    for name, column in columns.items():
        names[column].append(name)
    return {tuple(shared): column for column, shared in names.items()}


def folded(names: Iterable[str], envs: Iterable[str]) -> list[str]:
    """Return the names, with `folder/*` for a folder all of whose options are among them."""
    folders: dict[str, set[str]] = defaultdict(set)
    for env in envs:
        folders[env.rpartition("/")[0]].add(env)
    left = set(names)
    complete = {folder for folder, inner in folders.items() if folder and inner <= left}
    return sorted(
        {f"{folder}/*" for folder in complete} | left - {env for folder in complete for env in folders[folder]}
    )


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    resolvers.register()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(TABLES.sub(lambda _: tables(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(tables())


if __name__ == "__main__":
    main()
