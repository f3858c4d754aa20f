"""Warnings about a run that learns nothing: pure functions of the lines of metrics.jsonl, so that a resumed run gives
the warnings of one that was never interrupted.

A step shows at most one cause, the first of these that holds, because the later ones follow from it:

    invalid    every turn is invalid           turn/invalid == 1
    equal      no token has an advantage       advantage/zero == 1
    gradient   the gradient is zero            gradient/norm == 0

A cause is reported after PATIENCE steps in a row, and again after ten, a hundred, ... times as many.

A rise of the share of replies that only state their action (`reply/only_action`, "reasoning collapse") is reported
beside these, once a run: at the first step where it is at least MOSTLY, and at least RISE above its value in the first
step that has it.

A distance between engine and learner (`gap/engine`) beyond the bound of `rlx check` is reported beside these too, with
the patience of a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal

from rlx.environment.world import trained_parts
from rlx.run.run import Run
from rlx.runs.summary import Estimate
from rlx.runs.track import is_number

Cause = Literal["invalid", "equal", "gradient", "gap"]

PATIENCE = 3
"""Steps in a row with the same cause before the first warning."""
MOSTLY = 0.5
"""Share of turns from which a property of turns explains a step."""
RISE = 0.2
"""Least rise of the share of replies that only state their action."""
ONLY_ACTION = "reply/only_action"
GAP = "gap/engine"


@dataclass(frozen=True, slots=True)
class Streak:
    """Steps in a row with one cause, the last of them at hand."""

    cause: Cause | None = None
    length: int = 0
    step: int = 0

    def add(self, line: Mapping[str, Any], cause: Cause | None) -> Streak:
        """Return the streak after one more line of metrics.jsonl, which shows this cause."""
        return Streak(cause, self.length + 1 if cause == self.cause else 1, line["step"])

    @property
    def is_due(self) -> bool:
        """True at the steps that report the cause."""
        times, rest = divmod(self.length, PATIENCE)
        return self.cause is not None and not rest and str(times).rstrip("0") == "1"


def cause_in(line: Mapping[str, Any]) -> Cause | None:
    """Return why a step could teach nothing; None for a step that could."""
    if line.get("turn/invalid") == 1:
        return "invalid"
    if line.get("advantage/zero") == 1:
        return "equal"
    return "gradient" if line.get("gradient/norm") == 0 else None


@dataclass(frozen=True, slots=True)
class Collapse:
    """Rise of the share of replies that only state their action."""

    first: float | None = None
    first_step: int = 0
    share: float = 0.0
    step: int = 0
    reported_step: int = 0
    """Step at which the rise was reported; 0: none yet."""

    def add(self, line: Mapping[str, Any]) -> Collapse:
        """Return the rise after one more line of metrics.jsonl."""
        step, value = line["step"], line.get(ONLY_ACTION)
        if value is None or not is_number(value):
            return replace(self, step=step)
        if self.first is None:
            return Collapse(first=float(value), first_step=step, share=float(value), step=step)
        has_risen = value >= MOSTLY and value >= self.first + RISE
        return replace(self, share=float(value), step=step, reported_step=self.reported_step or step * has_risen)

    @property
    def is_due(self) -> bool:
        """True at the step that reports the rise."""
        return self.reported_step > 0 and self.reported_step == self.step


@dataclass(frozen=True, slots=True)
class Alarms:
    """Streaks of a run, and of each environment of a mixture, by its name ("" for the run)."""

    streaks: Mapping[str, Streak] = field(default_factory=dict)
    collapses: Mapping[str, Collapse] = field(default_factory=dict)
    gap: Streak = field(default_factory=Streak)

    def add(self, line: Mapping[str, Any], run: Run) -> Alarms:
        """Return the alarms after one more line of metrics.jsonl."""
        views = {name: view(line, name) for name in ("", *run.env.components)}
        return Alarms(
            {name: self.streaks.get(name, Streak()).add(metrics, cause_in(metrics)) for name, metrics in views.items()},
            {name: self.collapses.get(name, Collapse()).add(metrics) for name, metrics in views.items()},
            self.gap.add(line, "gap" if has_gap(line, run) else None),
        )

    def due(self, line: Mapping[str, Any], run: Run) -> list[str]:
        """Return the warnings of this line: the run's own, or else those of its environments."""
        texts = {name: warning(streak, view(line, name), run) for name, streak in self.streaks.items() if streak.is_due}
        risen = {name: collapse_warning(collapse, run) for name, collapse in self.collapses.items() if collapse.is_due}
        gap = [gap_warning(self.gap, line, run)] if self.gap.is_due else []
        return [*of_run_or_parts(texts), *of_run_or_parts(risen), *gap]


def of_run_or_parts(texts: Mapping[str, str]) -> list[str]:
    """Return the warning of the run, or else those of its environments."""
    return [texts[""]] if "" in texts else [f"in {name}, {text}" for name, text in texts.items()]


def view(line: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return the metrics of one environment of a mixture under their plain names."""
    if not part:
        return line
    metrics = {name.removeprefix(f"{part}/"): value for name, value in line.items() if name.startswith(f"{part}/")}
    return {**metrics, "step": line["step"]}


def alarms_after(lines: Iterable[Mapping[str, Any]], run: Run) -> tuple[Alarms, tuple[str, ...]]:
    """Return the alarms at the end of these metrics, and every warning on the way."""
    alarms, warnings = Alarms(), []
    for line in lines:
        alarms = alarms.add(line, run)
        warnings += alarms.due(line, run)
    return alarms, tuple(warnings)


def warning(streak: Streak, line: Mapping[str, Any], run: Run) -> str:
    """Return one line: the symptom, its likely cause in this run, and overrides that may help."""
    symptom, advice = ADVISE[streak.cause or "gradient"](line, run)
    look = f"look at the turns with `rlx show {run.folder} {newest_stored(run, streak.step)}`"
    hints = [look] if run.checkpoint.trajectories_interval else []
    return f"step {streak.step}: {symptom} in the last {streak.length} steps; {'; '.join([*advice, *hints])}"


def collapse_warning(collapse: Collapse, run: Run) -> str:
    """Return one line: the rise, what may hold it, and where to see such replies."""
    rise = f"up from {collapse.first:.2f} in step {collapse.first_step}"
    symptom = f"step {collapse.step}: {collapse.share:.2f} of the replies only state their action, {rise}"
    ways = "a larger KL (algo.loss.kl, or algo.reward_kl.weight) or a lower algo.optimizer.lr"
    advice = f"the reasoning collapses: try {ways}"
    look = f"see such replies with `rlx show {run.folder} {newest_stored(run, collapse.step)} --reply only_action`"
    return "; ".join([symptom, advice, *([look] if run.checkpoint.trajectories_interval else [])])


def has_gap(line: Mapping[str, Any], run: Run) -> bool:
    """Return whether engine and learner disagree although both hold the same weights. With stale or frozen engines, and
    with dropout in the learner, log-probs differ for another reason."""
    lora = run.model.lora
    differs = run.hardware.staleness or run.algo.frozen_policy or (lora is not None and lora.dropout)
    return not differs and share(line, GAP) > run.hardware.tolerance


def gap_warning(streak: Streak, line: Mapping[str, Any], run: Run) -> str:
    """Return one line: the distance, its bound, and how to find the cause."""
    bound = f"more than the {run.hardware.tolerance:g} that rounding explains"
    advice = "engine and learner may compute different models: try `rlx check` with this configuration"
    return (
        f"step {streak.step}: {GAP} was {share(line, GAP):.2g} nats a token, {bound}, and above that in the last "
        f"{streak.length} steps; {advice}"
    )


def newest_stored(run: Run, step: int) -> int:
    """Return the newest step up to `step` whose trajectories are stored."""
    return max(1, step - step % max(1, run.checkpoint.trajectories_interval))


def share(line: Mapping[str, Any], name: str) -> float:
    """Return a metric of a line; 0 where the line has no such number."""
    value = line.get(name)
    return float(value) if value is not None and is_number(value) else 0.0


def invalid(line: Mapping[str, Any], run: Run) -> tuple[str, list[str]]:
    """Advise a run whose policy never says anything that its protocol reads."""
    if share(line, "turn/truncated") >= MOSTLY:
        longer = 4 * run.sampling.max_new_tokens
        advice = [f"most turns were cut off: try sampling.max_new_tokens={longer}"]
        return "every turn was invalid", [*advice, *(() if run.model.chat else speak(run))]
    return "every turn was invalid", [*speak(run)]


def speak(run: Run) -> list[str]:
    """Advise how a policy may learn to speak the protocol."""
    if run.warm_start.steps and run.warm_start.algo is not None:
        return [f"the warm start was too short for this protocol: try warm_start.steps={3 * run.warm_start.steps}"]
    if expert_in(run):
        return [f"the policy does not speak this protocol yet: {copy_expert(run)}"]
    if run.model.chat:
        return ["the model does not follow this protocol: try protocol=boxed, or another of `rlx list protocol`"]
    return [
        "the policy does not speak this protocol: choose an instruct model, or give the environment `demonstrate` "
        "and add warm_start=sft"
    ]


def copy_expert(run: Run) -> str:
    name = "tool_sft" if any(dialect.tools for dialect in run.dialects.values()) else "sft"
    return f"try warm_start={name}, which copies the environment's expert"


def expert_in(run: Run) -> bool:
    return all(part.has_expert for part in trained_parts(run.env).values())


def equal(line: Mapping[str, Any], run: Run) -> tuple[str, list[str]]:
    """Advise a run whose rewards tell no episode from another."""
    symptom = "no reward told one episode from another"
    if share(line, "success/mean") == 1:
        return symptom, ["every episode succeeded: the tasks are too easy, choose a harder environment"]
    if share(line, "success/any") == 0:
        easier = f"set keys of env that make tasks easier (`rlx keys env={env_name(run)}`)"
        return symptom, ["no episode succeeded", *first_steps(run), easier, *more_samples(run)]
    return symptom, [*more_samples(run), *warmer(run)]


def first_steps(run: Run) -> list[str]:
    """Advise how a policy that never succeeds may come to a first success."""
    if run.warm_start.steps and run.warm_start.algo is not None:
        return [f"try warm_start.steps={3 * run.warm_start.steps}"]
    return [copy_expert(run)] if expert_in(run) else []


def more_samples(run: Run) -> list[str]:
    num = run.config["algo"].get("num_samples")
    return [f"try algo.num_samples={max(8, 2 * num)}, so that a group may hold both outcomes"] if num else []


def warmer(run: Run) -> list[str]:
    """Advise a run that samples one and the same episode."""
    return ["try sampling.temperature=1.0"] if run.sampling.temperature < 1 else []


def env_name(run: Run) -> str:
    """Return the name of the environment's option where the command line gave one."""
    chosen = [word.partition("=")[2] for word in run.words if word.startswith("env=")]
    return chosen[-1] if chosen else "NAME"


def gradient(line: Mapping[str, Any], run: Run) -> tuple[str, list[str]]:
    """Advise a run whose rewards differ and whose loss still moves nothing."""
    advice = ["the loss has no slope although rewards differ"]
    if share(line, "ratio/clipped") >= MOSTLY:
        return "the gradient was zero", [*advice, "most tokens were clipped: try a lower algo.optimizer.lr"]
    return "the gradient was zero", [*advice, "check algo.loss, model.lora and your own credit or loss"]


ADVISE: Mapping[Cause, Callable[[Mapping[str, Any], Run], tuple[str, list[str]]]] = {
    "invalid": invalid,
    "equal": equal,
    "gradient": gradient,
}


def warnings_of(run: Run, lines: Iterable[Mapping[str, Any]], figures: Mapping[str, Estimate]) -> tuple[str, ...]:
    """Return every warning about a run, from all of its metrics, so that interruptions change nothing."""
    return tuple(filter(None, (*alarms_after(lines, run)[1], decline(figures))))


def decline(figures: Mapping[str, Estimate]) -> str:
    """Return a warning where the trained policy ended below its start; empty otherwise."""
    gains = {name: figures[name] for name in ("gain/pass@1", "gain/reward") if name in figures}
    worse = [name for name, gain in gains.items() if gain.value < 0]
    if not worse or any(gain.low > 0 for gain in gains.values()):
        return ""
    gains_text = ", ".join(f"{name.removeprefix('gain/')} {text_of(gains[name])}" for name in worse)
    sure = any(gains[name].high < 0 for name in worse)
    verdict = "the trained policy is worse than the policy it started from" if sure else "training shows no gain"
    return f"{verdict} ({gains_text}): try a lower algo.optimizer.lr, or more tasks a step (algo.num_prompts)"


def drift_warning(run: Run) -> str:
    """Explain what several optimizer steps on a batch do to a plain policy gradient."""
    optimizer = run.algo.optimizer
    keys = f"algo.optimizer.num_epochs={optimizer.num_epochs} and num_minibatches={optimizer.num_minibatches}"
    return (
        f"with {keys} this algorithm takes several optimizer steps a batch, and its loss has no clip: later steps may "
        "undo what was learned; set both to 1, or choose algo.clip or algo.sequence_cap where it has one"
    )


def text_of(gain: Estimate) -> str:
    """Return a gain with its interval; one problem has none."""
    interval = f" [{gain.low:+.3f}, {gain.high:+.3f}]" if isfinite(gain.low) and isfinite(gain.high) else ""
    return f"{gain.value:+.3f}{interval}"
