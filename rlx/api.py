"""rlx from Python: `rlx.train(...)`, `rlx.evaluate(...)` and `rlx.load(DIR)`.

A call does what the command of the same words does: in this process, in the same folder, to the same bits. It returns
the run's folder as a value. pandas and torch are imported when they are needed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.base.console import clean, clean_value, one_line
from rlx.base.limits import MistakeError
from rlx.runs.find import is_run
from rlx.runs.folder import CONFIG, METRICS, SUMMARY, FolderError, flatten, read_config
from rlx.runs.store import read, stored_files
from rlx.runs.summary import Summary, read_summary
from rlx.runs.track import is_number, is_step, read_metrics
from rlx.types import Trajectory

if TYPE_CHECKING:
    from pandas import DataFrame

Place = str | os.PathLike[str]
Word = str | Mapping[str, Any]
"""A word of the command line, such as "algo=grpo" or "-cd", or keys with their values."""


class CallError(MistakeError):
    """A call that cannot be made; the message is one line that says why and what to do."""


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, read anew at each access: the run may still go on.

    Text in the frames has no control characters, as it may be a stranger's.
    """

    folder: Path

    @property
    def config(self) -> DataFrame:
        """Keys of the configuration, such as `algo.optimizer.lr`, with a column `value`."""
        from pandas import DataFrame

        flat = {clean(key): clean_value(value) for key, value in flatten(read_config(self.folder)).items()}
        frame = DataFrame({"value": list(flat.values())}, index=list(flat), dtype=object)
        return frame.rename_axis(index="key")

    @property
    def metrics(self) -> DataFrame:
        """Steps with a column for each metric, in the order of their names; nan where a step has no number."""
        from pandas import DataFrame

        lines = {line["step"]: numbers(line) for line in read_metrics(self.folder / METRICS) if is_step(line["step"])}
        names = sorted({name for line in lines.values() for name in line})
        columns = {name: [line.get(name) for line in lines.values()] for name in names}
        return DataFrame(columns, index=list(lines), dtype=float).rename_axis(index="step").sort_index()

    @property
    def summary(self) -> DataFrame:
        """Final figures, such as `eval/pass@1`, with columns `value`, `low` and `high`, the ends of a 95% interval."""
        from pandas import DataFrame

        figures = self.result.metrics
        ends = ("value", "low", "high")
        columns = {end: [getattr(figure, end) for figure in figures.values()] for end in ends}
        index = [clean(name) for name in figures]
        return DataFrame(columns, index=index, dtype=float).rename_axis(index="figure")

    @property
    def result(self) -> Summary:
        """All of summary.json: the status, the figures, the cost, provenance and warnings."""
        return read_summary(self.folder / SUMMARY)

    @property
    def files(self) -> list[str]:
        """Names of the files with episodes, such as `step-000010` and `eval`: steps first."""
        return [path.stem for path in stored_files(self.folder)]

    def episodes(self, file: str = "") -> Iterator[Trajectory]:
        """Yield the stored episodes one at a time: of all files, or of one, named as in `files` or by its step."""
        from rlx.commands.find import find_file

        paths = [find_file(self.folder, file)] if file else stored_files(self.folder)
        for path in paths:
            yield from (stored.trajectory for stored in read(path))


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a line whose values are numbers."""
    return {clean(name): float(value) for name, value in line.items() if name != "step" and is_number(value)}


def load(folder: Place) -> RunFolder:
    """Return the run in a folder, running or ended; FolderError where there is none."""
    place = Path(folder)
    if not is_run(place):
        raise FolderError(f"{one_line(str(place), 200)} is no run folder: it has no {CONFIG} of a run")
    return RunFolder(place)


def train(*words: Word, folder: Place | None = None, **keys: Any) -> RunFolder:
    """Train and evaluate a run as `rlx train` does with these words.

    `rlx.train("env=countdown", {"algo.optimizer.lr": 1e-4}, steps=3, folder="outputs/mine")`. A run that the folder
    holds already goes on.
    """
    from rlx.commands.jobs import check_train, train_job
    from rlx.settings.in_process import launch_here, refuse_several

    refuse_place()
    refuse_several(line := words_of(words, keys, folder))
    return RunFolder(launch_here(line, train_job, check_train))


def evaluate(*words: Word, run: RunFolder | Place | None = None, folder: Place | None = None, **keys: Any) -> RunFolder:
    """Evaluate as `rlx eval` does: the newest checkpoint of `run`, or a model as it stands.

    The result is in a folder of its own, below the run's or at `folder`.
    """
    from rlx.commands.jobs import check_evaluate, evaluate_job, evaluate_stored
    from rlx.commands.parts import split_run
    from rlx.settings.in_process import launch_here, refuse_several, set_torch_threads
    from rlx.settings.words import drop_training

    refuse_place()
    named, rest = split_run(words_of(words, keys, folder))
    place = run.folder if isinstance(run, RunFolder) else named if run is None else Path(run)
    if place is None:
        refuse_several(rest)
        return RunFolder(launch_here([*drop_training(rest), *rest], evaluate_job, check_evaluate))
    if folder is not None:
        raise CallError("folder= cannot go with run=, whose evaluations are below its own folder")
    return RunFolder(evaluate_stored(place, rest, [f"run={place}", *rest], set_torch_threads))


def words_of(words: Sequence[Word], keys: Mapping[str, Any], folder: Place | None) -> list[str]:
    """Return the words of the command line that a call means."""
    from rlx.settings.in_process import FOLDER
    from rlx.settings.values import word_of

    line: list[str] = []
    for word in words:
        if not isinstance(word, str | Mapping):
            raise CallError(f"{type(word).__name__:.60}: expected words such as 'algo=grpo', or a mapping of keys")
        line += [word] if isinstance(word, str) else [word_of(key, value) for key, value in word.items()]
    line += [word_of(key, value) for key, value in keys.items()]
    return line if folder is None else [*line, word_of(FOLDER, os.fspath(folder))]


def refuse_place() -> None:
    """Refuse to run where a run cannot catch signals, or as one of several processes."""
    from rlx.hardware.ranks import find_place

    if threading.current_thread() is not threading.main_thread():
        raise CallError("a run catches signals, which Python gives to the main thread alone: call rlx from there")
    if find_place(slurm=False).size > 1:
        raise CallError("this is one of several processes: `rlx launch` starts a run on all of them")
