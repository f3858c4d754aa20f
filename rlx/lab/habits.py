"""Habits of a policy in its tasks: Table 4 and Figure 5 of EARL (Yue et al. 2025), from stored episodes.

    interactions     calls of tools and acts in an environment
    hallucinations   numbers given to the calculator that the question does not have (the environment's `hallucinated`)
    plannings        phrases that plan, in all that was said

The paper's list of phrases is in an appendix that its text does not have: `PLANS` is this project's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO

from rlx.evaluation.picture import SALT
from rlx.rollout.measure import env_figures, mean
from rlx.types import Trajectory

PLANS = (
    *(
        "let me",
        "let's",
        "try",
        "next",
        "instead",
        "so far",
        "we need",
        "i need",
        "remaining",
        "another way",
        "go back",
    ),
    *("close to", "far from", "too small", "too large", "too big", "too low", "too high", "is not", "still need"),
)
"""Beginning as words do."""
PLANNING = re.compile(rf"\b(?:{'|'.join(map(re.escape, PLANS))})", re.IGNORECASE)
Decode = Callable[[Sequence[int]], str]


def habits(episodes: Sequence[Trajectory], decode: Decode) -> dict[str, float]:
    """Means over episodes that were begun afresh; hallucinations over those of which the environment says some."""
    fresh_episodes = [episode for episode in episodes if episode.fork is None and episode.status != "error"]
    counted = [
        env_metrics["env/hallucinated"]
        for env_metrics in map(env_figures, fresh_episodes)
        if "env/hallucinated" in env_metrics
    ]
    return {
        "interactions": mean(num_interactions(episode) for episode in fresh_episodes),
        **({"hallucinations": mean(counted)} if counted else {}),
        "plannings": mean(num_plans(episode, decode) for episode in fresh_episodes),
        "success": mean(episode.success for episode in fresh_episodes),
    }


def num_interactions(episode: Trajectory) -> int:
    return sum(turn.action.kind in ("call", "act") for turn in episode.turns)


def num_plans(episode: Trajectory, decode: Decode) -> int:
    return sum(len(PLANNING.findall(decode(turn.completion.token_ids))) for turn in episode.turns)


def lengths_of_right(episodes: Sequence[Trajectory]) -> list[int]:
    """Sampled tokens of each episode that succeeded (Figure 5)."""
    return sorted(episode.num_tokens for episode in episodes if episode.success and episode.fork is None)


def lengths_svg(named: Mapping[str, Sequence[int]], num_bins: int = 30) -> str:
    """Figure 5: how long the right answers of several runs are, as shares of each run's."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    longest = max((max(lengths) for lengths in named.values() if lengths), default=1)
    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        axes = figure.subplots()
        for name, lengths in named.items():
            share = [1 / len(lengths) for _ in lengths]
            label = f"{name} ({mean(lengths):.0f} on average)" if lengths else f"{name} (none right)"
            axes.hist(lengths, bins=num_bins, range=(0, longest), weights=share, histtype="step", label=label)
        axes.set_xlabel("tokens of a right answer", fontsize=8)
        axes.set_ylabel("share", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
