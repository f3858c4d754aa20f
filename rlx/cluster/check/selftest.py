"""`rlx check`: whether this machine does what a run on it would ask, in minutes.

It starts the very processes that a run would start (rlx/cluster/check/trial.py), twice: a short run from start to end
(warm start, steps, evaluation, checkpoints); and the same run, cut back to an earlier checkpoint and gone on with,
whose engine and learner are then compared (rlx/cluster/check/probe.py). What they measured, held and left is judged
here.
"""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rlx.base.console import hang
from rlx.base.regular import inside, read_bounded
from rlx.cluster.check.remains import half_written
from rlx.cluster.check.trial import CLEAR, MEASURED, NUDGES, HighWater, Trial, attempt
from rlx.cluster.start import check_allocation
from rlx.hardware.machine import size
from rlx.hardware.profile import set_threads
from rlx.plan.prospect import Prospect
from rlx.plan.step import Load
from rlx.run.run import Run
from rlx.runs.folder import CHECKPOINTS, METRICS, STEP, SUMMARY, steps_in
from rlx.runs.track import is_clock, read_metrics
from rlx.settings.check import spell
from rlx.settings.compose import ConfigError, build_run, compose

Tree = Mapping[str, Any]
CheckResults = tuple[list["Check"], list[tuple[str, str, str]]]
"""The checks; and rates by name, as measured and as estimated."""

STEPS, FEWER, FEW_TOKENS = 2, 4, 128


def reductions(tree: Tree, words: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """Return the keys that make a run take minutes, each with its value before and after. A key that was named
    stays."""
    processes = tree["hardware"]["num_processes"]
    most = {
        "steps": STEPS,
        "warm_start.steps": STEPS,
        "warm_start.algo.num_prompts": 2 * FEWER,
        "algo.num_prompts": max(FEWER, processes),
        "algo.num_samples": max(FEWER, at(tree, "algo.best_of") or 1),
        "sampling.max_new_tokens": FEW_TOKENS,
        "evaluate.max_new_tokens": FEW_TOKENS,
        "evaluate.num_tasks": max(FEWER, processes),
        "evaluate.num_samples": 2,
        "evaluate.num_resamples": 100,
    }
    changed: dict[str, tuple[Any, Any]] = {
        key: (now, limit) for key, limit in most.items() if isinstance(now := at(tree, key), int) and now > limit
    }
    fixed = {
        "steps": STEPS,
        "evaluate.interval": 0,
        "evaluate.ks": [],
        "checkpoint.interval": 1,
    }
    changed |= {key: (at(tree, key), value) for key, value in fixed.items() if at(tree, key) != value}
    if at(tree, "track.mode") != "disabled":
        changed["track.mode"] = (at(tree, "track.mode"), "disabled")
    named = {word.lstrip("+").partition("=")[0] for word in words}
    return {key: change for key, change in changed.items() if key not in named}


def at(tree: Any, key: str) -> Any:
    """Return the value at a dotted key; None where there is none."""
    for word in key.split("."):
        tree = tree.get(word) if isinstance(tree, Mapping) else None
    return tree


def as_words(changed: Mapping[str, tuple[Any, Any]]) -> list[str]:
    return [f"{key}={spell(value)}" for key, (_, value) in changed.items()]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A line of the table. `ok` is None for a check that did not run."""

    name: str
    ok: bool | None
    report: str


def check(
    words: Sequence[str], refuse: Callable[[Run], None], *, minutes: float, keep_folder: Path | None = None
) -> tuple[str, bool]:
    """Run the checks; return the table and True if all passed. `refuse` is as for `rlx train`. Files are removed,
    except in a folder `keep_folder`."""
    refuse(build_run(compose(words), Path()))
    if keep_folder is not None and keep_folder.exists() and (not keep_folder.is_dir() or any(keep_folder.iterdir())):
        raise ConfigError(f"--keep {keep_folder} is there already: name a new folder, or an empty one")
    changed = reductions(compose(words), words)
    smaller = [*words, *as_words(changed)]
    run = build_run(compose(smaller), Path())
    refuse(run)
    check_allocation(run.hardware)
    shared = "." if run.hardware.num_nodes > 1 else None
    folder = keep_folder or Path(tempfile.mkdtemp(prefix="rlx-check-", dir=shared))
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, stop)
    try:
        checks, rated = check_in(folder.absolute(), run, smaller, time.monotonic() + 60 * minutes)
    finally:
        if keep_folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    return describe(checks, rated, changed), all(each.ok for each in checks)


def stop(signum: int, frame: FrameType | None) -> None:
    """Whatever asks for an end is heard as Ctrl-C, after which nothing is left."""
    raise KeyboardInterrupt


def take_part(inside: str, words: Sequence[str]) -> int:
    """Do one part of the check in a process of the run; `inside` is `PART:FOLDER`."""
    part, _, folder = inside.partition(":")
    if not folder:
        raise ConfigError(f"--inside {inside}: expected PART:FOLDER, as rlx check itself says it")
    tree = compose(words)
    set_threads(tree["hardware"]["num_threads"])
    from rlx.cluster.check.probe import play_part

    play_part(part, build_run(tree, Path(folder)))
    return 0


def check_in(folder: Path, run: Run, words: Sequence[str], deadline: float) -> CheckResults:
    runs = folder / "run"
    for name in ("run", "tmp", "cache"):
        (folder / name).mkdir(parents=True)
    tried = [attempt("train", folder, run.hardware, words, deadline)]
    checks = [outcome("a run from start to end", tried[0])]
    if tried[0].is_good:
        before = metrics_of(runs)
        cut_back(runs, STEPS - 1)
        tried.append(attempt("resume", folder, run.hardware, words, deadline))
        checks += judge_resumed(run, tried[1], before, metrics_of(runs), reports_of(runs, "resume"))
    reports = [*reports_of(runs, "train"), *reports_of(runs, "resume")]
    checks += [memory_check(run, tried[0].memory, reports), nothing_left(tried, reports, folder)]
    return checks, rates(run, reports_of(runs, "resume"))


def reports_of(runs: Path, part: str) -> list[dict[str, Any]]:
    """Read the report of each process of a part, in the order of ranks."""
    return [json.loads(read_bounded(path)) for path in sorted(runs.glob(f"{MEASURED}/{part}-*.json"))]


def cut_back(runs: Path, step: int) -> None:
    """Make the run as it would be had it been killed after the checkpoint of this step."""
    from rlx.learner.checkpoint import write_steps

    for later in (each for each in steps_in(inside(runs, CHECKPOINTS)) if each > step):
        shutil.rmtree(inside(runs, CHECKPOINTS) / f"{STEP}{later}")
    write_steps(inside(runs, CHECKPOINTS), [step])
    (runs / SUMMARY).unlink(missing_ok=True)


def metrics_of(runs: Path) -> dict[str, Any]:
    """The last step's, without what the clock says."""
    last = read_metrics(runs / METRICS)[-1:]
    return {name: value for line in last for name, value in line.items() if not is_clock(name)}


def outcome(name: str, tried: Trial) -> Check:
    return Check(name=name, ok=tried.is_good, report=tried.report)


def judge_resumed(run: Run, resumed: Trial, before: Tree, after: Tree, reports: Sequence[Tree]) -> list[Check]:
    """Return the checks of the second start."""
    went_on = outcome("the run goes on", resumed)
    if not resumed.is_good:
        return [went_on]
    same = [name for name in before if before[name] != after.get(name)]
    exact = run.hardware.device == "cpu"
    differs = f"step {STEPS} came out otherwise: {', '.join(same[:3])}" if same else f"step {STEPS} the same to the bit"
    again = Check(name="a checkpoint goes on", ok=bool(after) and not (same and exact), report=differs)
    return [went_on, again, *agreement(reports[0], run.hardware.tolerance)]


def agreement(probe: Tree, limit: float) -> list[Check]:
    """Engine and learner as one policy, and the learner's weights in the engine."""
    gap, moved, arrived, version = (probe[name] for name in ("gap", "moved", "arrived", "version"))
    versions = list(probe["versions"])
    agree = Check(
        name="engine and learner agree",
        ok=gap <= limit,
        report=f"log-probs differ by {gap:.1e} on average over {probe['tokens']} tokens, at most {limit:g} is rounding",
    )
    clear = moved > CLEAR * max(limit, gap)
    close = arrived <= moved / CLEAR
    report = f"an update moved log-probs by {moved:.2g}, then the engine was within {arrived:.1e} of the learner"
    if not clear:
        report = f"{NUDGES} updates moved log-probs by {moved:.2g} only: too little to see whether the engine follows"
    elif not close:
        report = f"an update moved log-probs by {moved:.2g}, and the engine stayed {arrived:.2g} from the learner"
    if versions != [version]:
        report += f"; its tokens say version {versions}, the learner is at {version}"
    arrive = Check(name="weights arrive", ok=clear and close and versions == [version], report=report)
    return [agree, arrive]


def memory_check(run: Run, memory: HighWater, reports: Sequence[Tree]) -> Check:
    """Compare the largest memory in use with the largest budget of `rlx plan` for a run of this size."""
    name = "memory is within the plan"
    budgets = Prospect(run=run).budgets
    if not budgets or not reports:
        return Check(
            name=name, ok=None, report="not come to" if budgets else "the model's shape is not known to the plan"
        )
    on_cpu = run.hardware.device == "cpu"
    peak = memory.most if on_cpu else max(each["device"] for each in reports)
    where = f"{memory.num} processes held" if on_cpu else "a GPU held"
    most = max(budget.total.most for budget in budgets)
    return Check(name=name, ok=peak <= most, report=f"{where} {size(peak)} at most, the plan says {size(most)} at most")


def nothing_left(tried: Sequence[Trial], reports: Sequence[Tree], folder: Path) -> Check:
    """Look for leftovers of a run: in its processes, among orphaned processes, and in folders."""
    remains = [f"{line} ({each['by']})" for each in reports for line in each["left"]]
    remains += [f"process: {name}" for each in tried for name in each.stray]
    remains += [f"file: {path.name}" for path in sorted((folder / "tmp").iterdir()) if not is_libraries(path.name)]
    remains += [f"half written: {path.name}" for path in half_written([folder / "run", folder / "cache"])]
    summary = "; ".join(remains[:4]) + (f" and {len(remains) - 4} more" if len(remains) > 4 else "")
    name = "nothing is left behind"
    return Check(name=name, ok=not remains if reports else None, report=summary or "threads, processes, files: none")


def is_libraries(name: str) -> bool:
    """Tell whether torch left it in the folder for temporary files: torchrun's empty folders, a compiler's cache."""
    return name.startswith(("torchelastic", "torchinductor"))


def rates(run: Run, reports: Sequence[Tree]) -> list[tuple[str, str, str]]:
    """Return the measured rates, each beside the estimate of docs/scaling.md for such a machine."""
    if not reports:
        return []
    probe = reports[0]
    seconds, plan = probe["seconds"], estimate_rates(run, probe)

    def per_second(name: str) -> str:
        return f"{probe['tokens'] / seconds[name]:,.0f} tokens/s"

    rows = [
        ("sampled", per_second("sample"), plan.get("sample", "")),
        ("updated", per_second("update"), plan.get("update", "")),
    ]
    names = {"checkpoint": "a checkpoint written", "load": "a checkpoint loaded", "sync": "weights to the engine"}
    return rows + [(text, f"{seconds[name]:.2f} s", plan.get(name, "")) for name, text in names.items()]


def estimate_rates(run: Run, probe: Tree) -> dict[str, str]:
    """Estimate the rates (rlx/plan/scaling.py) for the episodes that were played, if machine and model are
    known."""
    forecast = Prospect(run=run).forecast
    if forecast is None:
        return {}
    episodes, tokens = probe["episodes"], probe["tokens"]
    load = Load(
        episodes=episodes, samples=2, sampled=max(1, tokens // episodes), observed=probe["observed"] // episodes
    )
    step = forecast.timer.step(run.hardware, load)
    return {
        "sample": f"{tokens / step.rollout:,.0f} tokens/s",
        "update": f"{tokens / step.update:,.0f} tokens/s",
        "sync": f"{step.sync:.2f} s",
    }


def describe(
    checks: Sequence[Check], rated: Sequence[tuple[str, str, str]], changed: Mapping[str, tuple[Any, Any]]
) -> str:
    """The whole answer, as text of 80 columns."""
    marks = {True: "ok", False: "FAILED", None: "not run"}
    lines = [line for each in checks for line in hang(f"{marks[each.ok]:<8}{each.name:<26}", each.report)]
    if rated:
        lines += ["", f"{'rate':<26}{'here':<20}by the plan"]
        lines += [f"{name:<26}{rate:<20}{plan or 'no estimate'}" for name, rate, plan in rated]
    if changed:
        lines += ["", *hang("reduced ", ", ".join(f"{key} {was} -> {now}" for key, (was, now) in changed.items()))]
    return "\n".join(lines)
