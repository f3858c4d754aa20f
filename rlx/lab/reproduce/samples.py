"""Figures of single episodes of a stored evaluation, for distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from rlx.base.regular import inside
from rlx.base.table import MISSING, Table
from rlx.rollout.measure import describe
from rlx.runs.folder import TRAJECTORIES
from rlx.runs.store import read
from rlx.view.report.panels import Sample
from rlx.view.report.pictures import Distribution

QUANTILES = {"10%": 0.1, "median": 0.5, "90%": 0.9}


def sample_of(runs: Sequence[Path], evaluation: str, picture: Distribution) -> Sample:
    """Return the figure of the chosen episodes of an evaluation such as `eval-8`, all runs together.

    Episodes are read one at a time, as an evaluation is tens of megabytes. One that ended in an error is not correct.
    """
    values: list[float] = []
    num_episodes = 0
    for run in runs:
        for stored in read(inside(run, TRAJECTORIES) / f"{evaluation}.jsonl"):
            episode = stored.trajectory
            if picture.part and episode.task.env != picture.part:
                continue
            num_episodes += 1
            if picture.correct and not (episode.success and episode.status != "error"):
                continue
            value = float(describe(episode)[picture.figure])
            values += [value] if isfinite(value) else []
    return Sample(values=tuple(values), num_episodes=num_episodes)


def distribution_table(pictures: Mapping[str, Distribution], samples: Mapping[str, Mapping[str, Sample]]) -> Table:
    """Return the number of chosen episodes, the mean and the quantiles of each row of each distribution."""
    rows = [
        (title, row, f"{len(sample.values):,} of {sample.num_episodes:,}", *numbers_of(sample))
        for title in pictures
        for row, sample in samples[title].items()
    ]
    header = ("distribution", "row", "episodes", "mean", *QUANTILES)
    return Table(title="Distributions over episodes, seeds together", header=header, rows=tuple(rows))


def numbers_of(sample: Sample) -> list[str]:
    """Return the mean and the quantiles as text."""
    if not sample.values:
        return [MISSING] * (1 + len(QUANTILES))
    numbers = [np.mean(sample.values), *np.quantile(sample.values, [*QUANTILES.values()])]
    return [f"{number:.1f}" for number in numbers]
