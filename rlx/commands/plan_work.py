"""Lines of `rlx plan` about what a run does: rehearsal, steps, episodes, evaluations, checkpoints, and their time."""

from __future__ import annotations

from rlx.base.console import format_count
from rlx.commands.text import clock, precision, row, short
from rlx.evaluation.power import SPREAD, smallest_difference
from rlx.hardware.machine import size
from rlx.plan.disk import RATES
from rlx.plan.expected import AFTER_COPYING
from rlx.plan.prospect import Prospect
from rlx.plan.stage import Stage, num_tokens
from rlx.plan.step import Load, StepTime
from rlx.plan.timer import Timer
from rlx.run.rehearsed import NUM_REHEARSED
from rlx.runs.cache import WARM, cache_folder


def describe_work(prospect: Prospect) -> list[str]:
    """Describe the work of a run in its order, with tokens, disk and time."""
    lines = describe_rehearsal(prospect)
    lines += [line for stage in prospect.stages for line in row(stage.name, describe_stage(stage))]
    lines += row("episode", describe_episode(prospect.main)) + describe_evaluations(prospect)
    return lines + ([] if prospect.shape is None else [*describe_disk(prospect), *describe_time(prospect)])


def describe_rehearsal(prospect: Prospect) -> list[str]:
    """Say which environments are played before anything is trained."""
    played = list(dict.fromkeys(prospect.rehearsed))
    if not played:
        return []
    environments = "the environment" if played == [""] else f"each of {', '.join(played)}"
    text = f"{NUM_REHEARSED + 1} episodes of {environments}, played twice with a script instead of a model"
    return row("rehearsal", f"{text}, before the first step and any warm start; its tools and servers are called")


def describe_stage(stage: Stage) -> str:
    """Count what a stage plays and reads."""
    steps, sampler = stage.run.steps, stage.run.algo.sample
    tasks = steps * stage.run.algo.num_prompts
    episodes = tasks * sampler.num_episodes if stage.counts_forks else steps * stage.load.episodes
    most = "" if sampler.forks_always else "at most "
    forks = f" and {most}{format_count(tasks * sampler.num_forks, 'fork')}" if sampler.num_forks else ""
    tokens = [short(steps * num) for num in sorted(map(num_tokens, stage.loads))]
    amount = f"about {tokens[0]}" if len(tokens) == 1 else f"{tokens[0]} to {tokens[-1]}"
    most = f"up to {stage.num_extended} while its policy does not speak or earns nothing"
    longer = f" ({most})" if stage.run.extend else ""
    learned = f", {stage.load.learned_share:.0%} of them trained agents'" if stage.load.agents > 1 else ""
    return (
        f"{format_count(steps, 'step')}{longer}, {format_count(episodes, 'episode')}{forks}, {amount} tokens{learned}"
    )


def describe_episode(stage: Stage) -> str:
    """Say the tokens of an episode, and where they are known from."""
    load, expected = stage.load, stage.expected
    turns = f" in {format_count(load.turns, 'turn')}" if load.turns > 1 else ""
    observed = f", {load.observed:,} seen after the first turn" if load.observed else ""
    each = f"for each of {load.agents:g} agents " if load.agents > 1 else ""
    guess = {"--prompt": "the prompt", "--observed": "what later turns see"}
    unknown = " and ".join(f"{guess[hint]} ({hint})" for hint in expected.unknown)
    prompt = f"{each}{load.prompt:,} tokens of prompt{observed}" + (f", as nothing tells {unknown}" if unknown else "")
    if expected.is_certain:
        is_copy = expected.source == "demonstrations" and load.plays
        source = f"{AFTER_COPYING:g} times its demonstrations, as nano's were" if is_copy else expected.source
        return f"{prompt}, {load.sampled:,} sampled{turns} ({source})"
    low, usual, most = (f"{length.sampled:,}" for length in stage.loads)
    return (
        f"{prompt}; sampled{turns}: not known, usually {usual} ({expected.usual_source}), taken as {low} to {most}, "
        "which is all that fits"
    )


def describe_evaluations(prospect: Prospect) -> list[str]:
    """Say how many evaluations a run has, when, and how long all of them take."""
    settings = prospect.run.evaluate
    episodes = format_count(settings.num_tasks * settings.num_samples, "episode")
    text = f"{prospect.num_evaluations} of {episodes} each (of {describe_judged(prospect)})"
    detected = row("detects", describe_detection(settings.num_tasks, settings.num_samples))
    if prospect.forecast is None:
        return row("evaluation", text) + detected
    spent = [clock(prospect.forecast.evaluation_seconds(load)) for load in prospect.main.loads]
    within = spent[0] if len(spent) == 1 else f"{spent[0]} to {spent[-1]}"
    lines = row(
        "evaluation", f"{text}: about {within} in all, counted in the time above (evaluate.num_tasks, .interval)"
    )
    return lines + detected


def describe_judged(prospect: Prospect) -> str:
    """Say what is evaluated. The end of a run without steps is its start."""
    run = prospect.run
    first = "the untrained model, " if prospect.judges_untrained else ""
    if not run.steps:
        return f"{first}the start, which is the end"
    way = f", every {format_count(run.evaluate.interval, 'step')}" if run.evaluate.interval else ""
    return f"{first}the start{way} and the end"


def describe_detection(num_tasks: int, num_samples: int) -> str:
    """Say the smallest difference to another policy on the same tasks that the evaluation detects."""
    alike, unlike = (100 * smallest_difference(num_tasks, num_samples, spread=spread) for spread in (0.0, SPREAD))
    return (
        f"a paired difference in Pass@1 of {alike:.1f} points where it is the same on every task, and of {unlike:.1f} "
        f"where it varies between tasks by {100 * SPREAD:.0f} points, four times in five (docs/intervals.md)"
    )


def describe_disk(prospect: Prospect) -> list[str]:
    """Say how large checkpoints are, how many there are at a time, and how long all of them take."""
    settings, each, written = prospect.run.checkpoint, prospect.checkpoint_bytes, prospect.main.num_checkpoints
    lines = row(
        "disk",
        f"{size(each)} a checkpoint, one every {format_count(settings.interval, 'step')}: "
        f"{written} and {size(each * written)} in all; "
        f"{settings.keep} are kept, and one more while it is written: {size(each * min(written, settings.keep + 1))}",
    )
    early = [stage.num_checkpoints for stage in prospect.stages[:-1]]
    if sum(early):
        stay = sum(min(num, settings.keep) for num in early)
        where = f"in {cache_folder() / WARM} (RLX_CACHE moves it, `rlx data cache clear` removes them)"
        lines += row("", f"{size(each * stay)} more for the warm start's {format_count(stay, 'checkpoint')}, {where}")
    source = f"at {RATES}" if prospect.saving is None else "as measured in this run"
    sooner = "" if settings.minutes is None else f"; more with checkpoint.minutes={settings.minutes:g}"
    seconds = prospect.saving_seconds
    everything = f"{clock(seconds)} each, {source}, and {clock(seconds * (written + sum(early)))} in all"
    return lines + row(
        "", f"about {everything}, counted in the time above: all devices wait (checkpoint.interval){sooner}"
    )


def describe_time(prospect: Prospect) -> list[str]:
    """Say the seconds of each stage's step at each length, and what they are computed from."""
    forecast = prospect.forecast
    if forecast is None:
        return []
    steps = [
        describe_step(stage, load, time)
        for stage in prospect.stages
        for load, time in zip(stage.loads, forecast.times[stage.name])
    ]
    if forecast.measured is not None:
        parts = f"rollout {clock(forecast.measured.rollout)}, update {clock(forecast.measured.update)}"
        steps[-1] = f"of the run, measured: {clock(forecast.measured.seconds)} ({parts})"
    lines = [line for step in steps for line in row("step", step)]
    source = basis(forecast.timer, prospect.hardware.device)
    return lines + row("", f"{source}{describe_forks(prospect.main)} (docs/scaling.md)")


def describe_step(stage: Stage, load: Load, step: StepTime) -> str:
    """Say what a step takes, in all and by part."""
    parts = f"rollout {clock(step.rollout)}, update {clock(step.update)}, weights {clock(step.sync)}"
    detail = f" ({parts})" if load.plays else ""
    where = f" at {load.sampled:,} tokens" if len(stage.loads) > 1 else ""
    return f"of the {stage.name}{where}: about {clock(step.seconds)}{detail}"


def basis(timer: Timer, device: str) -> str:
    """Say what the seconds are computed from, and how far they may be off."""
    if device == "cpu":
        source = "runs on one thread of an AMD EPYC"
    else:
        name = timer.machine.name
        article, runs = "a" if name[0] in "BG" else "an", "" if timer.is_checked else " of other GPUs"
        source = f"{article} {name}'s published peaks and the shares of them that published runs{runs} reached"
    return f"estimates are for episodes of that length, {precision(timer)}, from {source}"


def describe_forks(stage: Stage) -> str:
    """Say what forks do to the time of a step; empty where there are none."""
    follow = "of a task follow one another, and take longer where few are under way"
    most = follow if stage.counts_forks else "may add as much rollout again"
    return f"; forks {most}" if stage.run.algo.sample.num_forks else ""
