"""`rlx analyze judge run=DIR`: another model's verdicts on the answers of an evaluation, beside F1 and exact match."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlx.base.console import format_count
from rlx.base.limits import near
from rlx.base.regular import inside, write_aside
from rlx.base.table import Table
from rlx.evaluation.compare import select_measured
from rlx.evaluation.figures import figures, score
from rlx.evaluation.intervals import intervals, share_of
from rlx.evaluation.tables import Column, estimate_cell
from rlx.evaluation.verdicts import (
    Answer,
    Judge,
    Verdicts,
    answers_in,
    as_json,
    new_verdicts,
    read_verdicts,
    share_by_task,
)
from rlx.runs.folder import TRAJECTORIES
from rlx.runs.run import read_run
from rlx.runs.store import load
from rlx.runs.summary import Estimate
from rlx.settings.check import ConfigError

JUDGE = Column(stat="judge", title="Judge, %", percent=True)
OTHERS = (
    Column(stat="env/exact_match", title="Exact match, %", percent=True),
    Column(stat="env/f1_hotpot", title="F1 hotpot, %", percent=True),
    Column(stat="env/f1_asearcher", title="F1 asearcher, %", percent=True),
    Column(stat="env/f1", title="F1, %", percent=True),
)
NOT_JUDGED = "not judged: give --url and --model"


def stored_evaluations(folder: Path, evaluation: str | None) -> dict[str, Path]:
    """Return the files of a run's evaluations by name, or of one of them."""
    files = sorted(inside(folder, TRAJECTORIES).glob("*-*.jsonl"))
    evaluations = {file.stem: file for file in files if "step" not in file.stem}
    if not evaluations:
        raise ConfigError(f"run={folder}: it has no stored evaluation: rlx eval run={folder} makes one")
    if evaluation is None:
        return evaluations
    if evaluation not in evaluations:
        raise ConfigError(f"--evaluation {evaluation:.60}: there is no such one{near(evaluation, evaluations)}")
    return {evaluation: evaluations[evaluation]}


def judge_files(
    folder: Path, files: dict[str, Path], judge: Judge | None, num_threads: int
) -> dict[str, dict[str, Estimate]]:
    """Return the figures of each evaluation; verdicts are kept in the run's folder, so that none is asked twice."""
    answers = {name: list(answers_in(file)) for name, file in files.items()}
    all_answers = [answer for file_answers in answers.values() for answer in file_answers]
    verdicts = {} if judge is None else judge_answers(all_answers, judge, folder / "verdicts.json", num_threads)
    estimates: dict[str, dict[str, Estimate]] = {}
    for name, file in files.items():
        groups = select_measured(load(file), read_run(folder).summary)
        values = figures([score(group) for group in groups], ks=[1], noun="eval", num_resamples=10_000, seed=0)
        estimates[name] = {
            column.stat: values[f"eval/{column.stat}"] for column in OTHERS if f"eval/{column.stat}" in values
        }
        if judge is not None:
            (estimates[name]["judge"],) = intervals([share_of(share_by_task(answers[name], verdicts))], 10_000, 0)
    return estimates


def judge_answers(answers: Sequence[Answer], judge: Judge, file: Path, num_threads: int) -> Verdicts:
    """Return all verdicts. What was judged is in the file, also where the judge is lost before the end."""
    verdicts = read_verdicts(file, judge)
    try:
        verdicts.update(new_verdicts(answers, judge.ask, {*verdicts}, num_threads))
    finally:
        write_aside(file, as_json(judge, verdicts))
    return verdicts


def verdict_table(estimates: dict[str, dict[str, Estimate]], judge: Judge | None) -> Table:
    """Return a row for each evaluation; without a judge its column says so."""
    columns = [column for column in OTHERS if any(column.stat in by_stat for by_stat in estimates.values())]
    rows = tuple(
        (
            name,
            NOT_JUDGED if judge is None else estimate_cell(by_stat["judge"], JUDGE),
            *(estimate_cell(by_stat.get(column.stat), column) for column in columns),
        )
        for name, by_stat in estimates.items()
    )
    title = f"{format_count(len(estimates), 'evaluation')}, judge {judge.model if judge else 'none'} [95% interval]"
    return Table(title=title, header=("evaluation", JUDGE.title, *(column.title for column in columns)), rows=rows)
