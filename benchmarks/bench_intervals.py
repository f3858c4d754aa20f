"""Coverage of the 95% intervals: new problems and new samples in each trial, drawn from known difficulties.

    python benchmarks/bench_intervals.py [--trials 2000]

A problem is solved by each of its 16 samples with a chance drawn from Beta(a, b). The table also has the percentile
bootstrap over problems, whose intervals rarely hold the truth near the ceiling.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rlx.evaluation.intervals import Floats, Ratio, difference, intervals, mean_interval, mean_of, share_of
from rlx.evaluation.passk import pass_at_k
from rlx.evaluation.seeds import welch
from rlx.runs.summary import Estimate

NUM_SAMPLES = 16
KS = (1, 4, 8, 16)
NUM_RESAMPLES = 10_000
TOGETHER = 100
"""Trials whose intervals are drawn at once."""
PASS = {k: np.array([pass_at_k(NUM_SAMPLES, c, k) for c in range(NUM_SAMPLES + 1)]) for k in KS}
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Difficulties of problems for two policies. The other policy is better by `gain` logits, with a standard deviation
    of `noise`."""

    a: float
    b: float
    num_problems: int
    gain: float = 0.5
    noise: float = 0.4

    @property
    def name(self) -> str:
        return f"Beta({self.a:g}, {self.b:g}), {self.num_problems} problems"

    def chances(self, generator: Generator, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Draw the two policies' chances of success on each problem."""
        chance = np.clip(generator.beta(self.a, self.b, shape), 1e-12, 1 - 1e-12)
        logit = np.log(chance / (1 - chance)) + self.gain + self.noise * generator.standard_normal(shape)
        return chance, 1 / (1 + np.exp(-logit))


ASKED = (
    Setting(a=2, b=1, num_problems=50),
    Setting(a=4, b=0.3, num_problems=100),
    Setting(a=1, b=1, num_problems=50),
    Setting(a=1, b=1, num_problems=100),
)
OTHERS = (
    Setting(a=2, b=1, num_problems=500),
    Setting(a=5, b=1, num_problems=50),
    Setting(a=20, b=20, num_problems=50),
    Setting(a=0.3, b=2, num_problems=50),
    Setting(a=1, b=1, num_problems=20),
    Setting(a=1, b=1, num_problems=100, gain=0.0, noise=0.5),
    Setting(a=2, b=1, num_problems=50, gain=1.0, noise=1.0),
)
SAID = ((5, 0.3), (8, 0.3), (20, 0.1), (50, 0.05), (50, 0.5))
"""Problems, and in what share of their episodes the environment says a thing."""
MEANS: dict[str, Callable[[Generator, tuple[int, ...]], Floats]] = {
    "calls, Poisson(2)": lambda generator, shape: generator.poisson(2.0, shape).astype(np.float64),
    "tokens, log-normal (s = .7)": lambda generator, shape: generator.lognormal(0.0, 0.7, shape),
    "counts, 3% are 30 more": lambda generator, shape: (
        generator.poisson(2.0, shape) + 30.0 * (generator.random(shape) < 0.03)
    ),
    "counts, 10% are 10 more": lambda generator, shape: (
        generator.poisson(2.0, shape) + 10.0 * (generator.random(shape) < 0.1)
    ),
    "reward, 1 or -.3, less calls": lambda generator, shape: (
        np.where(generator.random(shape) < 0.85, 1.0, -0.3) - 0.02 * generator.poisson(4.0, shape)
    ),
}


def holds(found: Estimate, truth: float) -> bool:
    return found.low - 1e-12 <= truth <= found.high + 1e-12


def percentile(values_TP: Floats, seed: int) -> list[Estimate]:
    """Return the percentile bootstrap over problems, of one value per problem, for T trials."""
    num = values_TP.shape[1]
    counts = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), NUM_RESAMPLES).astype(np.float64)
    low_T, high_T = np.quantile(counts @ values_TP.T / num, (0.025, 0.975), axis=0)
    means = values_TP.mean(axis=1)
    return [
        Estimate(value=float(value), low=float(low), high=float(high))
        for value, low, high in zip(means, low_T, high_T, strict=True)
    ]


def shares(values_TP: Floats, seed: int) -> list[Estimate]:
    return intervals([share_of(values) for values in values_TP], NUM_RESAMPLES, seed)


def gaps(ours_TP: Floats, theirs_TP: Floats, seed: int) -> list[Estimate]:
    ours, theirs = shares(ours_TP, seed), shares(theirs_TP, seed)
    return [
        difference(share_of(one), share_of(two), mine, other)
        for one, two, mine, other in zip(ours_TP, theirs_TP, ours, theirs, strict=True)
    ]


def parts(trials: int) -> Iterator[int]:
    yield from (min(TOGETHER, trials - done) for done in range(0, trials, TOGETHER))


def share_of_trials(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits)


def coverage(setting: Setting, k: int, trials: int, seed: int) -> list[float]:
    """Return four coverages of pass@k: single by our intervals and by percentiles, then paired by either."""
    generator = np.random.default_rng([seed, k])
    theirs, ours = setting.chances(generator, (4_000_000,))
    truth = float((1 - (1 - theirs) ** k).mean())
    gain = float(((1 - theirs) ** k - (1 - ours) ** k).mean())
    hits: list[list[bool]] = [[], [], [], []]
    for part, num in enumerate(parts(trials)):
        chances = setting.chances(generator, (num, setting.num_problems))
        one, two = (PASS[k][generator.binomial(NUM_SAMPLES, chance)] for chance in chances)
        hits[0] += [holds(found, truth) for found in shares(one, part)]
        hits[1] += [holds(found, truth) for found in percentile(one, part)]
        hits[2] += [holds(found, gain) for found in gaps(two, one, part)]
        hits[3] += [holds(found, gain) for found in percentile(two - one, part)]
    return [share_of_trials(hit) for hit in hits]


def mean_coverage(draw: Callable[[Generator, tuple[int, ...]], Floats], trials: int, seed: int) -> list[float]:
    """Return the coverages of a mean over 50 problems, by our intervals and by percentiles."""
    generator = np.random.default_rng(seed)
    truth = float(draw(generator, (8_000_000,)).mean())
    drawn = draw(generator, (trials, 50))
    ours = [holds(mean_interval(mean_of(values)), truth) for values in drawn]
    theirs = [holds(found, truth) for rows in np.split(drawn, trials // TOGETHER) for found in percentile(rows, seed)]
    return [share_of_trials(ours), share_of_trials(theirs)]


def rate_coverage(chance: float, trials: int, seed: int) -> float:
    """Return the coverage of a rate of failed calls, over 50 problems with different numbers of calls and failure
    chances."""
    generator = np.random.default_rng(seed)
    calls = generator.poisson(generator.gamma(2.0, 20.0, (trials, 50))).astype(np.int64)
    failed = generator.binomial(calls, generator.beta(0.5, 0.5 / chance - 0.5, calls.shape))
    found = intervals(
        [
            Ratio(top=top[None].astype(np.float64), bottom=bottom[None].astype(np.float64), is_share=True)
            for top, bottom in zip(failed, calls, strict=True)
        ],
        2_000,
        seed,
    )
    return share_of_trials([holds(one, chance) for one in found])


def reported_coverage(num_problems: int, chance: float, trials: int, seed: int) -> tuple[float, float, float]:
    """Measure a figure that only a share of the episodes reports. Return the mean number of problems that report it,
    and the coverage of its mean and of a gain of .5."""
    generator = np.random.default_rng([seed, num_problems])
    nums, alone, gains = [], [], []
    for _ in range(trials):
        place, said = generator.standard_normal(num_problems), generator.beta(2 * chance, 2 - 2 * chance, num_problems)
        runs = []
        for shift in (0.0, 0.5):
            num = generator.binomial(NUM_SAMPLES, said).astype(np.float64)
            top = num * (place + shift) + np.sqrt(num) * generator.standard_normal(num_problems)
            runs.append(Ratio(top=top[None], bottom=num[None]))
        one, two = map(mean_interval, runs)
        gain = difference(runs[1], runs[0], two, one)
        nums.append(float(runs[0].informative.sum()))
        alone += [holds(one, 0.0)] if np.isfinite(one.low) else []
        gains += [holds(gain, 0.5)] if np.isfinite(gain.low) else []
    return float(np.mean(nums)), share_of_trials(alone), share_of_trials(gains)


def seeds_coverage(spread: float, trials: int, seed: int) -> tuple[float, float]:
    """Return the coverage of Pass@1 as the mean of three runs, `spread` logits apart, on 100 problems: for these three
    policies, and for others."""
    generator = np.random.default_rng(seed)

    def policies(shifts: Floats, logits: Floats) -> Floats:
        return 1 / (1 + np.exp(-(logits[..., None, :] + shifts[..., None])))

    many = generator.standard_normal(20_000) * 1.5
    these, others = [], []
    truth = float(policies(spread * generator.standard_normal((200,)), many).mean())
    for part in range(trials):
        shifts = spread * generator.standard_normal(3)
        chances = policies(shifts, generator.standard_normal(100) * 1.5)
        rows = generator.binomial(NUM_SAMPLES, chances) / NUM_SAMPLES
        runs = Ratio(top=rows, bottom=np.ones_like(rows), is_share=True)
        found = intervals([runs], 1_000, part)[0]
        these.append(holds(found, float(policies(shifts, many).mean())))
        others.append(holds(found, truth))
    return share_of_trials(these), share_of_trials(others)


def seed_gain_coverage(spread: float, num_seeds: int, trials: int, seed: int) -> tuple[float, float]:
    """Return how often a gain's interval holds that of other seeds on the same 100 problems: the paired interval over
    problems, then Welch's over seeds. The gain is of .5 logits, between two means of runs `spread` logits apart."""
    generator = np.random.default_rng([seed, num_seeds])

    def policies(shifts: Floats, logits: Floats) -> Floats:
        return 1 / (1 + np.exp(-(logits[None] + shifts[:, None])))

    others = spread * generator.standard_normal(200)
    paired, over_seeds = [], []
    for part in range(trials):
        logits = generator.standard_normal(100) * 1.5
        truth = float(policies(others + 0.5, logits).mean() - policies(others, logits).mean())
        rows = [
            generator.binomial(NUM_SAMPLES, policies(gain + spread * generator.standard_normal(num_seeds), logits))
            / NUM_SAMPLES
            for gain in (0.5, 0.0)
        ]
        ours, theirs = (Ratio(top=top, bottom=np.ones_like(top), is_share=True) for top in rows)
        mine, other = intervals([ours, theirs], 1_000, part)
        paired.append(holds(difference(ours, theirs, mine, other), truth))
        over_seeds.append(holds(welch(ours.each, theirs.each), truth))
    return share_of_trials(paired), share_of_trials(over_seeds)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    trials, seed = (getattr(parser.parse_args(), name) for name in ("trials", "seed"))
    print(f"coverage of 95% intervals, {trials} trials each; in brackets that of the percentile bootstrap\n")
    print(row(["difficulties", "", *(f"Pass@{k}" for k in KS)]))
    print(row(["---", "---", *["---:"] * len(KS)]))
    for setting in (*ASKED, *OTHERS):
        found = [coverage(setting, k, trials, seed) for k in KS]
        print(row([setting.name, "single", *(f"{hit[0]:.3f} ({hit[1]:.3f})" for hit in found)]))
        pair = f"gain of {setting.gain:g}, +-{setting.noise:g} logits"
        print(row([setting.name, pair, *(f"{hit[2]:.3f} ({hit[3]:.3f})" for hit in found)]), flush=True)
    print(f"\n{row(['other figures, 50 problems', 'coverage'])}\n| --- | ---: |")
    for name, draw in MEANS.items():
        ours, theirs = mean_coverage(draw, trials, seed)
        print(row([name, f"{ours:.3f} ({theirs:.3f})"]))
    for chance in (0.2, 0.01, 0.0005):
        print(row([f"rate of failed calls, {chance:.2%}", f"{rate_coverage(chance, trials, seed):.3f}"]))
    for num, chance in SAID:
        told, alone, gain = reported_coverage(num, chance, trials, seed)
        print(row([f"said in {chance:.0%} of episodes: {told:.1f} of {num} problems", f"{alone:.3f}, gain {gain:.3f}"]))
    for spread in (0.0, 0.2, 0.4):
        these, others = seeds_coverage(spread, trials, seed)
        print(row([f"mean of three seeds {spread:g} logits apart", f"these seeds {these:.3f}, new seeds {others:.3f}"]))
    for spread, num in ((0.0, 3), (0.2, 3), (0.4, 3), (0.4, 2), (0.4, 5)):
        paired, over_seeds = seed_gain_coverage(spread, num, trials, seed)
        name = f"gain of {num} seeds over {num}, {spread:g} logits apart, for new seeds"
        print(row([name, f"over problems {paired:.3f}, over seeds {over_seeds:.3f}"]))


if __name__ == "__main__":
    main()
