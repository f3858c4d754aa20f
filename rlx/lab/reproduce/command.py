"""`rlx reproduce NAME`: a paper's result from its file in scripts/reproduce/: every run, in order, and the report.

A run is `rlx train` here or, with hydra/launcher=slurm among the words, in a job of its own. An interrupted run
resumes, and a finished run is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rlx.base.console import Screen, format_count, one_line
from rlx.base.limits import MistakeError, near
from rlx.base.regular import read_text, write_aside
from rlx.base.table import Table, to_rich, to_svg
from rlx.commands.text import between, clock, row
from rlx.environment.world import parts_of
from rlx.evaluation.compare import name_rounds
from rlx.evaluation.evaluate import limits_of
from rlx.evaluation.floor import floor_figures
from rlx.evaluation.tables import has_column
from rlx.hardware.packages import how_to_get, lacks
from rlx.hardware.sizing.amounts import Amount
from rlx.hardware.sizing.budgets import budgets
from rlx.lab.reproduce.against import paper_of
from rlx.lab.reproduce.answers import BANDS, CLAIMS
from rlx.lab.reproduce.arm import Arm
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.jobs import play_all
from rlx.lab.reproduce.measurements import Findings, check_measured, measure_more
from rlx.lab.reproduce.members import Member, Runs, folders_of, last_checkpoint, members_of, words_of
from rlx.lab.reproduce.report import (
    Measured,
    all_figures,
    commits_of,
    cost_of,
    cost_table,
    measure_runs,
    pictures_of,
    report_tables,
    report_text,
)
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError, refuse_word
from rlx.lab.reproduce.results import Results, to_json
from rlx.lab.reproduce.shared import Shared, shares_of
from rlx.plan.lengths import LengthHints
from rlx.plan.metric_names import is_among, judged_by
from rlx.plan.prospect import Prospect
from rlx.run.judge import judges_untrained
from rlx.run.run import Run
from rlx.runs.folder import METRICS, RESULTS, hold_folder
from rlx.runs.track import require_numbers
from rlx.settings.check import ConfigError, spell
from rlx.settings.compose import build_run, compose
from rlx.settings.folders import shipped_folder
from rlx.settings.papers import read_presets
from rlx.view.report.build import report_of, write_report
from rlx.view.report.document import HTML, Picture, Section
from rlx.view.report.pictures import Distribution, figures_in
from rlx.view.report.runs import read_runs
from rlx.view.report.training import is_wanted

PAGE = "report"
"""Folder of the page."""
ANSWERS = (BANDS, CLAIMS)
"""Titles of the tables with verdicts."""


def find_reproduction(name: str) -> Path:
    """Return the path of a user's file, or of a file that rlx ships."""
    if name.endswith(".yaml"):
        return Path(name)
    files = {file.stem: file for file in sorted(shipped_folder("scripts/reproduce").glob("*.yaml"))}
    if name not in files:
        raise ConfigError(f"there is no reproduction {name!r}{near(name, files)}, or FILE.yaml of your own")
    return files[name]


def reproduce(
    name: str, words: Sequence[str], *, seeds: int | None, jobs: int, folder: Path | None, plan: bool
) -> bool:
    """Print the memory and time estimates, play the runs and write the report. Return whether no band or claim is
    contradicted."""
    file = find_reproduction(name)
    reproduction, screen = read_reproduction(file), Screen()
    folder = (folder or Path("outputs") / f"reproduce-{file.stem}").absolute()
    for word in words:
        refuse_word(word)
    members = members_of(reproduction, folder, seeds or reproduction.seeds, words)
    built = {member.arm: build_run(compose(member.words), member.folder) for member in members if member.seed == 0}
    check_stages(file, reproduction, built)
    check_report(file, reproduction, built)
    check_pictures(file, reproduction, built)
    check_measured(file, reproduction, built)
    shared = shares_of(reproduction, members, built)
    for line in describe(reproduction, {member: built[member.arm] for member in members}, jobs, shared):
        screen.say(line)
    if plan:
        return True
    if os.path.lexists(folder / RESULTS) and not any(member.folder.exists() for member in members):
        raise ConfigError(f"--folder {folder}: its {RESULTS} is of something else: choose another folder")
    with hold_folder(folder, "choose another --folder"):
        words_of, check = (
            partial(all_words_of, reproduction, folders_of(members)),
            partial(check_metrics, file, reproduction),
        )
        play_all(members, words_of, jobs, screen, shared, check)
    more = measure_more(reproduction, built, folders_of(members), folder, screen.say)
    return report(file.stem, reproduction, members, folder, screen, more)


def check_stages(file: Path, reproduction: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse a run that both goes on from another run and has a warm start."""
    for name, arm in reproduction.runs.items():
        if arm.goes_on_from and runs[name].warm_start.algo is not None:
            raise ReproductionError(
                f"{file}: {name} goes on from {arm.goes_on_from}, and has a warm start too: add warm_start=none"
            )


def all_words_of(reproduction: Reproduction, runs: Runs, member: Member) -> tuple[str, ...]:
    """Return a run's words with those that depend on other runs: number of steps, and path of the first model."""
    before = reproduction.runs[member.arm].goes_on_from
    begins = [f"model.path={spell(str(last_checkpoint(runs[before][member.seed])))}"] if before else []
    return (*words_of(reproduction, member, runs), *begins)


def check_report(file: Path, reproduction: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse a report with what its runs will not have, before the first of them."""
    for name, entries in [
        *((name, (entry,)) for name, entry in reproduction.rows.items()),
        *reproduction.gains.items(),
    ]:
        for arm, evaluation in (entry.split(" ", 1) for entry in entries):
            evaluations = [*evaluations_of(runs[arm]), *(["random"] if name in reproduction.rows else [])]
            if evaluation not in evaluations:
                expected = f"expected one of {', '.join(evaluations)}"
                raise ReproductionError(f"{file}: {name}: {arm} will have no evaluation {evaluation!r:.60}: {expected}")
        figures = [
            full_name.partition("/")[2]
            for full_name in judged_by(runs[entries[0].split(" ")[0]], "eval", reproduction.ks)
        ]
        columns = [*filter(has_column, figures)]
        for origin, stats, valid_stats in (
            ("expected", reproduction.expected.get(name, ()), figures),
            ("claims", [claim.figure for claim in reproduction.claims.values() if claim.row == name], figures),
            ("published", printed_stats(reproduction, name, columns), columns),
        ):
            for stat in (stat for stat in stats if not is_among(stat, valid_stats)):
                raise ReproductionError(f"{file}: {name}: {origin} has no figure {stat!r:.60}{near(stat, valid_stats)}")


def printed_stats(reproduction: Reproduction, row: str, columns: Sequence[str]) -> list[str]:
    """Return the published figures of a row that its report must have. A paper's table may have more of them than the
    run, but not only such."""
    stats = [*reproduction.published.get(row, ())]
    return [] if reproduction.paper and any(is_among(stat, columns) for stat in stats) else stats


def check_pictures(file: Path, reproduction: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse a picture of figures that its rows will not have, or of a part that their environment lacks."""
    for title, picture in reproduction.pictures:
        for name in picture.rows:
            run = runs[reproduction.rows[name].split(" ")[0]]
            stats = figures_of_row(reproduction, name, run)
            place = f"{file}: {one_line(title, 60)}: {one_line(name, 60)}"
            for stat in (stat for stat in figures_in(picture, reproduction.ks) if not is_among(stat, stats)):
                raise ReproductionError(f"{place}: there will be no figure {one_line(stat, 60)!r}{near(stat, stats)}")
            parts = parts_of(run.env)
            if isinstance(picture, Distribution) and picture.part and picture.part not in parts:
                part = one_line(picture.part, 60)
                raise ReproductionError(f"{place}: its environment has no part {part!r}{near(picture.part, parts)}")


def figures_of_row(reproduction: Reproduction, row: str, run: Run) -> list[str]:
    """Return the names of the figures that a row will have."""
    if reproduction.is_floor(row):
        return floor_figures(run.evaluate, run.env)
    return [full_name.partition("/")[2] for full_name in judged_by(run, "eval", reproduction.ks)]


def check_metrics(file: Path, reproduction: Reproduction, member: Member) -> None:
    """Refuse curves and comparisons of metrics that a run does not have, as soon as it has ended: before the others."""
    for title, arm, metric in reproduction.metrics:
        if arm == member.arm:
            try:
                require_numbers(member.folder / METRICS, metric)
            except MistakeError as error:
                raise ReproductionError(f"{file}: {one_line(title, 60)}: {error}") from None


def evaluations_of(run: Run) -> list[str]:
    """Return the evaluations that it will store, by the names of their files."""
    limits = map(name_rounds, limits_of(run.evaluate, run.env))
    nouns = ("eval", "start", *(("untrained",) if judges_untrained(run) else ()))
    return [f"{noun}-{limit}" for limit in limits for noun in nouns]


def describe(
    reproduction: Reproduction, runs: Mapping[Member, Run], jobs: int, shared: Mapping[str, Shared]
) -> list[str]:
    """Say what will be run, and the memory and the time that it takes, as `rlx plan` says of each."""
    prospects = {member.arm: prospect_of(run, reproduction.runs[member.arm]) for member, run in runs.items()}
    took = times_of(reproduction, [*runs], prospects, shared)
    estimated_seconds = [seconds for seconds in took.values() if seconds is not None]
    memory = max((memory_of(each) for each in prospects.values()), key=lambda amount: amount.most)
    num_parallel = min(jobs, len(runs))
    total = sum(estimated_seconds)
    pace = f"{clock(total / num_parallel)} with {num_parallel} at a time all the while"
    time = f"about {clock(total)} of work, {pace}"
    lines = row("runs", f"{format_count(len(runs), 'run')}, {num_parallel} at a time: {', '.join(took)}")
    lines += row("memory", f"{between(memory)} for each at a time" if memory.most else "no estimate: no model here yet")
    return lines + row(
        "time", f"{time}: {accuracy(prospects)}" if len(estimated_seconds) == len(took) else "no estimate"
    )


def times_of(
    reproduction: Reproduction,
    members: Sequence[Member],
    prospects: Mapping[str, Prospect],
    shared: Mapping[str, Shared],
) -> dict[str, float | None]:
    """Estimate the seconds of each run, by its name. What several share, the first of them makes."""
    took, covered = dict[str, float | None](), set[str]()
    for member in members:
        member_shares = shared[member.name]
        warm, judges = member_shares.start not in covered, member_shares.evaluation not in covered
        took[member.name] = seconds_of(prospects[member.arm], warm=warm, judges=judges)
        covered |= {member_shares.start, member_shares.evaluation}
    for member in members:
        like = reproduction.runs[member.arm].like
        took[member.name] = took[f"{like}/0"] if like else took[member.name]
    return took


def prospect_of(run: Run, arm: Arm) -> Prospect:
    """Return a run before it begins, with the measured length of its episodes."""
    return Prospect(run=run, length_hints=LengthHints(tokens=arm.tokens, source="the reproduction's file"))


def accuracy(prospects: Mapping[str, Prospect]) -> str:
    """Say how far the time may be off, where nothing tells the length of some runs' episodes."""
    unknown = [arm for arm, prospect in prospects.items() if not prospect.main.expected.is_certain]
    caveat = f"; with episodes of half of what fits in {', '.join(unknown)}, whose length nothing tells"
    return f"within a factor of two{caveat if unknown else ''}"


def seconds_of(prospect: Prospect, *, warm: bool, judges: bool) -> float | None:
    """Estimate a run with the evaluations of its policy, with its warm starts if `warm`, and with the evaluations of
    untrained model and start if `judges`: one run makes these for all. None where nothing tells."""
    forecast = prospect.forecast
    if forecast is None:
        return None
    num_shared = 0 if judges else 1 + prospect.judges_untrained
    left = replace(forecast, num_evaluations=forecast.num_evaluations - num_shared)
    return left.seconds(forecast.main.load, warm=warm)


def memory_of(prospect: Prospect) -> Amount:
    """Return the memory of a run's largest device, or of this machine."""
    demand = prospect.demand
    totals = [] if demand is None else [budget.total for budget in budgets(prospect.hardware, demand, None)]
    return max(totals, key=lambda amount: amount.most, default=Amount(least=0, most=0))


def report(
    name: str,
    reproduction: Reproduction,
    members: Sequence[Member],
    folder: Path,
    screen: Screen,
    more: Findings,
) -> bool:
    """Show and write figures (NAME.json), tables (results.md, results.svg) and pictures; return whether no band or
    claim is contradicted."""
    measured = measure_runs(reproduction, folders_of(members))
    results = Results(
        command=f"rlx reproduce {name}",
        commits=commits_of(members),
        figures=all_figures(reproduction, measured, more.figures),
        cost=cost_of(members),
    )
    tables, counts, failed = report_tables(reproduction, measured, results.figures)
    tables = [*more.tables, *tables]
    write_aside(folder / f"{name}.json", to_json(results))
    write_aside(folder / RESULTS, report_text(name, reproduction, [*tables, cost_table(results.cost)]))
    write_aside(folder / "results.svg", to_svg(tables[:2], title=f"rlx reproduce {name}"))
    for table in tables:
        screen.show(to_rich(table))
    pictures = draw_pictures(reproduction, measured)
    for file, text in pictures.items():
        write_aside(folder / file, text)
    page = write_page(name, reproduction, members, folder, rows_section(tables, more, pictures, folder))
    files = [RESULTS, f"{name}.json", "results.svg", *more.files, *pictures, page]
    if lacks("plots"):
        screen.say(f"no pictures ({how_to_get('plots')})")
    screen.say(f"left in {folder}: {', '.join(files)}, and a folder per run")
    for sentence in (*counts, *failed):
        screen.say(sentence)
    return not failed


def draw_pictures(reproduction: Reproduction, measured: Measured) -> dict[str, str]:
    """Return the SVG text of each picture by the name of its file; none without matplotlib."""
    return (
        {} if lacks("plots") or not (measured.lines or reproduction.pictures) else pictures_of(reproduction, measured)
    )


def rows_section(tables: Sequence[Table], more: Findings, pictures: Mapping[str, str], folder: Path) -> Section:
    """Return the reproduction's own section of its page: what is expected and claimed, rows and gains, and pictures."""
    measured = {file: read_text(folder / file) for file in more.files if file.endswith(".svg")}
    drawings = [
        Picture(name=f"own-{Path(file).stem}", title=Path(file).stem.replace("_", " ").capitalize(), svg=text)
        for file, text in {**pictures, **measured}.items()
    ]
    answers_first = sorted(tables, key=lambda table: table.title not in ANSWERS)
    return Section(title="Rows and claims of the paper", blocks=(*answers_first, *drawings))


def write_page(name: str, reproduction: Reproduction, members: Sequence[Member], folder: Path, section: Section) -> str:
    """Write the report of all runs with the reproduction's own section; return the page's place in the folder."""
    runs = [run for runs in folders_of(members).values() for run in runs]  # not those that another --seeds left there
    records = read_runs(runs, is_wanted)
    paper = paper_of(name, reproduction, read_presets().get(name, {}))
    document = report_of(f"Reproduction: {name}", records, paper=paper, first=[section], draws=not lacks("plots"))
    write_report(document, folder / PAGE)
    return f"{PAGE}/{HTML}"
