"""Reproductions read from files; one that is another with other seeds, or without some of its runs, names the other."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from rlx.base.console import one_line
from rlx.base.limits import near
from rlx.lab.reproduce.papers import find_registered
from rlx.lab.reproduce.reproduction import NAME, REPRODUCTION, Reproduction, ReproductionError
from rlx.lab.reproduce.studies import CLAIM
from rlx.runs.form import NATURAL, STRING, made, many, named, string
from rlx.runs.plain_yaml import PlainError, parse_small
from rlx.view.report.pictures import Bars, Distribution, Frontier, PassCurves

Picture = TypeVar("Picture", PassCurves, Bars, Distribution, Frontier)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another reproduction with other seeds, or without some runs."""

    like: str
    """Name of the other's file, without .yaml; it is in the same folder, and no variant itself."""
    seeds: int
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.like):
            raise ValueError(f"like={self.like!r:.60}: expected the name of a file of the same folder, without .yaml")

    def of(self, reproduction: Reproduction) -> Reproduction:
        """Return the variant of the other reproduction."""
        for name in (name for name in self.without if name not in reproduction.runs):
            raise ValueError(f"without: {self.like} has no run {name!r:.60}{near(name, reproduction.runs)}")
        return replace(leave_out(reproduction, self.without), seeds=self.seeds)


VARIANT = made(Variant, like=STRING, seeds=NATURAL, without=many(STRING).unless(()))


def read_reproduction(path: Path) -> Reproduction:
    """Read a reproduction from a file; the ReproductionError of an invalid file is one line with its path."""
    tree = read_tree(path)
    try:
        if not is_variant(tree):
            return cast(Reproduction, REPRODUCTION.read(with_paper(tree, path.stem), "reproduction"))
        variant: Variant = VARIANT.read(tree, "reproduction")
        other = read_tree(path.with_name(f"{variant.like}.yaml"))
        if is_variant(other):
            raise ValueError(f"like={variant.like}: expected a whole reproduction, and it is like another one")
        return variant.of(cast(Reproduction, REPRODUCTION.read(with_paper(other, variant.like), variant.like)))
    except ValueError as error:
        raise ReproductionError(f"{path}: {one_line(str(error), 400)}") from None


def with_paper(tree: Any, name: str) -> Any:
    """Return the values of a reproduction's file with the figures and claims of the registry in place of references to
    them. A file without a `paper` has its own."""
    if not isinstance(tree, dict) or "paper" not in tree:
        return tree
    paper = find_registered(string(tree["paper"], "paper"))
    published = named(many(STRING)).read(tree.get("published", {}), "published")
    sentences = many(STRING).read(tree.get("claims", []), "claims")
    return {
        **tree,
        "published": {row: paper.published(references) for row, references in published.items()},
        "claims": named(CLAIM).write(paper.claims_of(name, sentences)),
    }


def is_variant(tree: Any) -> bool:
    """Return whether a file names another one."""
    return isinstance(tree, dict) and "like" in tree


def read_tree(path: Path) -> Any:
    """Return the values of a file; ReproductionError if it cannot be read."""
    try:
        return parse_small(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, PlainError) as error:
        raise ReproductionError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None


def leave_out(reproduction: Reproduction, arms: Sequence[str]) -> Reproduction:
    """Return a reproduction without some runs, their rows and gains, and the expected figures of those rows."""
    runs = {name: arm for name, arm in reproduction.runs.items() if name not in arms}
    rows = {name: place for name, place in reproduction.rows.items() if place.split(" ")[0] in runs}
    gains = {
        name: pair for name, pair in reproduction.gains.items() if all(place.split(" ")[0] in runs for place in pair)
    }
    curves = {
        title: replace(curve, runs=select(curve.runs, runs))
        for title, curve in reproduction.curves.items()
        if select(curve.runs, runs)
    }
    ends = {
        title: {run: reproduction.expected[title][run] for run in reproduction.expected.get(title, ()) if run in runs}
        for title in curves
    }
    lines = {
        title: replace(frontier, line=select(frontier.line, rows)) for title, frontier in reproduction.frontiers.items()
    }
    names = {*rows, *gains, *reproduction.measured}
    expected = {
        name: ends.get(name, bands) for name, bands in reproduction.expected.items() if name in names or ends.get(name)
    }
    return replace(
        reproduction,
        runs=runs,
        rows=rows,
        gains=gains,
        curves=curves,
        pass_curves=select_pictures(reproduction.pass_curves, rows),
        bars=select_pictures(reproduction.bars, rows),
        distributions=select_pictures(reproduction.distributions, rows),
        frontiers=select_pictures(lines, rows),
        published={name: figures for name, figures in reproduction.published.items() if name in rows},
        expected=expected,
        marks={name: marks for name, marks in reproduction.marks.items() if name in expected},
        claims={sentence: claim for sentence, claim in reproduction.claims.items() if claim.row in names},
    )


def select_pictures(pictures: Mapping[str, Picture], rows: Container[str]) -> dict[str, Picture]:
    """Return the pictures of rows that are left."""
    return {
        title: replace(picture, rows=select(picture.rows, rows))
        for title, picture in pictures.items()
        if select(picture.rows, rows)
    }


def select(names: Iterable[str], allowed: Container[str]) -> tuple[str, ...]:
    """Return the names in `allowed`, in their order."""
    return tuple(name for name in names if name in allowed)
