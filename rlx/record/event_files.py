"""TensorBoard's event files of a run, written from metrics.jsonl.

A run that is resumed writes them again from its first step. So no step stands twice, wherever the run was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.console import one_line
from rlx.record.dashboard import Figures
from rlx.record.folder import METRICS, TENSORBOARD
from rlx.record.track import is_number, is_step, read_metrics


@dataclass
class EventFiles:
    """Writer of a run's event files. It begins with the first step that is logged, when a resumed run has cut
    metrics.jsonl back to its checkpoint."""

    folder: Path
    last: int = 0
    """Newest step in the files."""
    _writer: Any = field(default=None, repr=False)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a step, and first those before it that are missing."""
        lines = {step: metrics} if step == self.last + 1 else self._stored() | {step: metrics}
        self._add({number: line for number, line in lines.items() if self.last < number <= step})

    def finish(self, figures: Figures, exit_code: int) -> None:
        """Write the final figures as of the last step, and close."""
        self._add({number: line for number, line in self._stored().items() if number > self.last})
        if self._writer is not None:
            self._write(self.last, {name: value for name, (value, _, _) in figures.items()})
            self._writer.close()

    def _stored(self) -> dict[int, Mapping[str, Any]]:
        """Return the lines of metrics.jsonl by step."""
        return {line["step"]: line for line in read_metrics(self.folder / METRICS) if is_step(line["step"])}

    def _add(self, lines: Mapping[int, Mapping[str, Any]]) -> None:
        """Write these steps in their order, into new files the first time."""
        if lines and self._writer is None:
            self._writer = open_writer(self.folder / TENSORBOARD)
        for step in sorted(lines):
            self._write(step, lines[step])
            self.last = step
        if lines:
            self._writer.flush()

    def _write(self, step: int, metrics: Mapping[str, Any]) -> None:
        for name, value in metrics.items():
            if name != "step" and is_number(value):
                self._writer.add_scalar(one_line(name), value, step)


def open_writer(place: Path) -> Any:
    """Return a writer of a folder without event files; what else is in the folder stays."""
    from torch.utils.tensorboard import SummaryWriter

    for file in place.glob("events.out.tfevents.*"):
        file.unlink()
    return SummaryWriter(str(place))
