"""Results of a run for people to read: the rows and tables of its figures, and results.md around them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.base.console import duration, format_count, one_line
from rlx.base.table import Table, markdown_cell, to_markdown
from rlx.environment.world import parts_of
from rlx.evaluation.intervals import METHOD
from rlx.evaluation.tables import accuracy_table, tool_table
from rlx.run.run import Run
from rlx.runs.command import LONGEST
from rlx.runs.provenance import main_versions
from rlx.runs.summary import Cost, Estimate, Summary

Figures = Mapping[str, Estimate]
WIDE = 1000
"""Characters that a fact in results.md may have."""


def name_of(call: Mapping[str, Any]) -> str:
    """The last word of what a part of the configuration calls."""
    return str(call["_target_"]).rsplit(".", 1)[-1]


def env_name(call: Mapping[str, Any]) -> str:
    """Name an environment: `Countdown`, or with a tool that is lent `Math with Python`."""
    inner, tool = call.get("env"), call.get("tool")
    if isinstance(inner, Mapping) and isinstance(tool, Mapping):
        return f"{env_name(inner)} with {name_of(tool)}"
    return name_of(call)


def model_name(run: Run) -> str:
    """Return the name of the model that a run began with, which nothing has trained yet."""
    return f"{Path(run.model.path).name}, as it is"


def start_label(run: Run) -> str:
    """Return the name of the run's start: the algorithm of its warm start, or the model without a warm start."""
    warm = run.config["warm_start"]
    return name_of(warm["algo"]) if warm.get("algo") and run.warm_start.steps else model_name(run)


def policy_label(run: Run) -> str:
    """Return the name of the run's final policy: its algorithm, or the name of the start for a run of no steps."""
    return name_of(run.config["algo"]) if run.steps else start_label(run)


def named_rows(run: Run, figures: Figures, label: str = "") -> dict[str, Figures]:
    """Return the rows of the tables: random play, the untrained model, the start and the policy (or `label`). Each has
    a row for every budget, for every part of a mixture, and for the mean of the parts."""
    labels = {
        "random": floor_label(run),
        "untrained": f"{Path(run.model.path).name}, untrained",
        "start": start_label(run),
        "eval": label or policy_label(run),
    }
    if labels["eval"] == labels["start"]:
        labels["start"] += ", the start"
    return label_rows(run, figures, labels)


def floor_label(run: Run) -> str:
    """Return the name of the row of random play."""
    kinds = {part.has_random_tries for part in parts_of(run.env).values()}
    return "random episodes" if kinds == {False} else f"random, {run.evaluate.num_tries} tries"


def named_gains(run: Run, figures: Figures) -> dict[str, Figures]:
    """Return the rows of what training gained."""
    return label_rows(run, figures, {"gain": "gain over the start", "gain_untrained": "gain over the untrained model"})


def label_rows(run: Run, figures: Figures, labels: Mapping[str, str]) -> dict[str, Figures]:
    """Return the figures of these nouns in rows."""
    rows: dict[str, dict[str, Estimate]] = {}
    for name, figure in figures.items():
        noun, stat = name.split("/", 1)
        word, _, rounds = noun.partition("@")
        if word in labels:
            row = labels[word] + (f", {format_count(int(rounds), 'round')}" if rounds else "")
            part, slash, part_stat = stat.partition("/")
            if slash and part in (*run.env.components, "overall"):
                row, stat = f"{row}, {'mean of parts' if part == 'overall' else part}", part_stat
            rows.setdefault(row, {})[f"eval/{stat}"] = figure
    return dict(rows)


def tables_of(run: Run, summary: Summary, label: str = "") -> list[Table]:
    """Accuracy and tool use, a row per policy and budget."""
    rows, gains = named_rows(run, summary.metrics, label), named_gains(run, summary.metrics)
    return [table for table in (accuracy_table(rows, gains=gains), tool_table(rows, gains=gains)) if table.rows]


def results_text(run: Run, summary: Summary, label: str = "", verb: str = "train") -> str:
    """results.md: what was run, when, on what and at what cost, and the tables."""
    title = f"# {markdown_cell(label or policy_label(run))} on {markdown_cell(env_name(run.config['env']))}\n"
    facts = [f"- {name}: {markdown_cell(text, WIDE)}" for name, text in facts_of(run, summary) if text]
    command = [f"    {one_line(shlex.join(['rlx', verb, *run.words]), LONGEST)}\n"] if run.words else []
    return "\n".join([title, *command, *facts, "", *map(to_markdown, tables_of(run, summary, label))])


def facts_of(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """Return the facts to know before figures are believed."""
    return [
        ("ended", summary.ended),
        ("evaluated", f"{summary.policy}; {count_evaluated(run)}".removeprefix("; ")),
        *(("note", note) for note in summary.notes),
        *(("warning", warning) for warning in summary.warnings),
        ("seeds", f"{run.seed} of the run, {run.warm_start.seed} of a warm start, {run.evaluate.seed} of evaluation"),
        ("cost, training and evaluation", cost_text(summary.cost)),
        ("versions", versions_text(summary)),
        ("intervals", METHOD),
    ]


def count_evaluated(run: Run) -> str:
    """Return the number of episodes that a row stands for."""
    settings = run.evaluate
    num = num_held_out(run, settings.num_tasks) or settings.num_tasks
    episodes = format_count(num * settings.num_samples, "episode")
    problems = format_count(num, "held-out problem")
    budgets = ", ".join(map(str, settings.max_rounds)) or (run.env.max_rounds or "the environment's own")
    return f"{problems} x {format_count(settings.num_samples, 'sample')} = {episodes} a row, rounds: {budgets}"


def num_held_out(run: Run, most: int) -> int:
    """Held-out problems that there are, counted up to `most`."""
    try:
        return sum(1 for _ in islice(run.env.tasks("test", run.evaluate.seed), most))
    except ValueError:  # the environment has fewer than it was told to give
        return 0


def cost_text(cost: Cost) -> str:
    calls = format_count(cost.tool_calls, "tool call")
    return f"{cost.tokens:,} tokens sampled, {calls}, {duration(cost.seconds)}, {cost.device_hours:.2f} device-hours"


def versions_text(summary: Summary) -> str:
    versions = [main_versions(summary.provenance)]
    if summary.git is not None:
        versions.append(f"commit {summary.git.commit[:12]}{' with changes beside it' if summary.git.dirty else ''}")
    return ", ".join(versions)


def left_in(folder: Path) -> str:
    """Return a line about the contents of a run's folder."""
    return f"left in {folder}: " + ", ".join(sorted(path.name for path in folder.glob("[!.]*")))
