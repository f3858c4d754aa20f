"""End of a run on the screen: its tables, warnings, and the commands that come next."""

from __future__ import annotations

import shlex

from rlx.base.regular import inside, write_aside
from rlx.base.table import to_rich
from rlx.run.execution import Execution
from rlx.run.report import left_in, num_held_out, results_text, tables_of
from rlx.runs.folder import RESULTS, TRAJECTORIES
from rlx.runs.summary import Summary


def show_results(execution: Execution, summary: Summary, label: str = "", verb: str = "train") -> None:
    """Show the paper's two tables, write them to results.md, and say where everything is and what to run next."""
    if not execution.process.ranks.is_first:
        return
    run, screen = execution.run, execution.process.screen
    write_aside(run.folder / RESULTS, results_text(run, summary, label, verb))
    for table in tables_of(run, summary, label):
        screen.show(to_rich(table))
    for warning in summary.warnings:
        screen.say(f"warning: {warning}")
    screen.say(left_in(run.folder))
    screen.say("\n".join(["next:", *(f"  {shlex.join(words)}" for words in next_commands(execution))]))


def next_commands(execution: Execution) -> list[list[str]]:
    """Return the commands that look at what the run has made, as they would be typed. What was learned comes
    first, and the page that shows everything last, at an episode."""
    run, folder = execution.run, str(execution.run.folder)
    commands = [["rlx", "show", folder, "--best"]]
    if any(inside(run.folder, TRAJECTORIES).glob("start-*.jsonl")):
        commands.append(["rlx", "compare", folder])
    num = run.evaluate.num_tasks
    if execution.checkpoints.exists() and num_held_out(run, num + 1) > num:
        commands.append(["rlx", "eval", f"run={folder}", f"evaluate.num_tasks={4 * num}"])
    return [*commands, ["rlx", "replay", folder], ["rlx", "view", folder, "--best"]]
