"""TensorBoard's event files of a run, written from metrics.jsonl.

A run that is resumed writes them again from its first step. So no step stands twice, wherever the run was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.base.regular import inside
from rlx.runs.dashboard import Figures
from rlx.runs.folder import METRICS, TENSORBOARD
from rlx.runs.track import finite_numbers, lines_by_step, missing_lines


@dataclass
class EventFiles:
    """Writer of a run's event files. It begins with the first step that is logged, when a resumed run has cut
    metrics.jsonl back to its checkpoint."""

    folder: Path
    last: int = 0
    """Newest step in the files."""
    _writer: Any = field(default=None, repr=False)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step, after the earlier steps that the files lack."""
        self._add(missing_lines(self.folder / METRICS, self.last, step, metrics))

    def finish(self, figures: Figures, exit_code: int) -> None:
        """Write the final figures as of the last step, and close."""
        lines = lines_by_step(self.folder / METRICS)
        self._add({step: lines[step] for step in sorted(lines) if step > self.last})
        if self._writer is not None:
            self._write(self.last, {name: value for name, (value, _, _) in figures.items()})
            self._writer.close()

    def _add(self, lines: Mapping[int, Mapping[str, Any]]) -> None:
        """Write these steps, into new files the first time."""
        if lines and self._writer is None:
            self._writer = open_writer(inside(self.folder, TENSORBOARD))
        for step, line in lines.items():
            self._write(step, line)
            self.last = step
        if lines:
            self._writer.flush()

    def _write(self, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in finite_numbers(metrics).items():
            self._writer.add_scalar(name, value, step)


def open_writer(place: Path) -> Any:
    """Return a writer of a folder without event files; what else is in the folder stays."""
    from torch.utils.tensorboard import SummaryWriter

    for file in place.glob("events.out.tfevents.*"):
        file.unlink()
    return SummaryWriter(str(place))
