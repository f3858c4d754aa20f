"""Counterfactual twins: what would have happened, had an episode entered an environment where it might have.

    factual   turn 0 ... turn k  [a b c d e f] ...
    twin      turn 0 ... turn k  [a b c <route> ...its own] ...

Twins are played of a group in which every factual episode failed. For each episode a verb is drawn whose entry is
encouraged. A place in the text of its turns is drawn, with weights

    pi(desc | h_t) = product over j of pi(d_j | h_t, d_1 ... d_{j-1})        desc = d_1 ... d_n, the verb's description

The episode's own sampling measured d_1 at every place. Where n > 1, the policy is probed for the others, n - 1 tokens
a place. The forced choice is learned from like all else that the twin says. Source: Yue et al. 2025, section 2 and
appendix D.2; where its release differs, the keys say so.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from rlx.algo.credit import Deviation, group_centred, trajectory_returns
from rlx.algo.entry import Entry, Probe
from rlx.algo.parts import Algorithm, Credit, Credited, Growth, Memory, PerRow, PerToken, Sampler, SamplerContext, State
from rlx.algo.rows import Rows
from rlx.algo.samplers import SamplerError, leave
from rlx.base.limits import MANY, above, at_least, within
from rlx.types import Completion, Group, Metrics, Start, Trajectory

Failed = Literal["none_positive", "zero_sum"]
Likely = Literal["description", "name", "either"]
Probing = Generator[Sequence[Probe], Any, None]
Places = list[tuple[float, tuple[int, int]]]
"""Places of a possible entry: its log-prob, the turn, and the number of the turn's tokens before it."""
IMPOSSIBLE = -1e29
"""A log-prob below this is that of a choice that a mask forbids."""
FIRST_GAIN = 0.001
"""Expected gain of an entry that was never forced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """When twins are played, and where they leave."""

    failed: Failed = "none_positive"
    """Definition of a failed group: none_positive (no factual episode has a positive reward) or zero_sum (the
    rewards add up to zero; the release)."""
    likely: Likely = "description"
    """Weight of a place: probability there of the verb's complete description (description), or of the first token
    of its name (name), or the larger of that and its route's (either; the release)."""
    num_probed: int = 32
    """Number of candidate places per episode, the likeliest by the description's first token. The complete
    description is scored at each, and one place is drawn; 0: all places."""
    temperature: float = 1.0
    """Temperature of the places' log-probabilities; the release uses 10."""
    top_k: int = 0
    """Number of likeliest places that may be drawn (the release: 10); 0: all."""
    top_p: float = 1.0
    """Share of the total weight: only the likeliest places that make it up may be drawn (the release: 0.9)."""
    gain_rate: float = 0.1
    """Rate of the running mean of each verb's gain; one of several verbs is drawn by the softmax of these means."""

    def __post_init__(self) -> None:
        above(0, 1000, temperature=self.temperature)
        within(0, MANY, num_probed=self.num_probed, top_k=self.top_k)
        above(0, 1, top_p=self.top_p, gain_rate=self.gain_rate)


def with_twins(num_samples: int, twins: Twins, gains: Mapping[str, float] | None = None) -> Sampler:
    """`num_samples` independent episodes a task, and where all failed a twin of each."""
    at_least(2, num_samples=num_samples)

    def grow(context: SamplerContext) -> Growth:
        task, entries, rng = context.task, context.entries, context.rng
        if not entries:
            raise SamplerError(f"task {task.id!r:.60}: the protocol has no way into an environment; use expa or tags")
        watch = watched_of(entries)
        factual = yield [Start(task=task, sample=sample, watch=watch) for sample in range(num_samples)]
        left = list(begin_twins(factual, entries, watch, twins, gains or {}, rng))
        yield from weigh_places(left, twins)
        starts = [start for sample, twin in enumerate(left, num_samples) for start in twin.starts(sample, watch, twins)]
        return Group(task=task, trajectories=(*factual, *((yield starts) if starts else ())))

    return Sampler(num_episodes=num_samples, num_forks=num_samples, grow=grow, forces=True, watches=True)


def watched_of(entries: Sequence[Entry]) -> tuple[int, ...]:
    """Return the token ids whose log-probs score the places of possible entries."""
    first = [token_id for entry in entries for token_id in (*entry.words, entry.chosen[0])]
    return tuple(dict.fromkeys([*first, *(token_id for entry in entries for token_id in entry.description[:1])]))


def has_failed(factual: Sequence[Trajectory], failed: Failed) -> bool:
    rewards = [episode.reward for episode in factual if episode.status != "error"]
    return bool(rewards) and (sum(rewards) == 0 if failed == "zero_sum" else max(rewards) <= 0)


def draw_entry(entries: Sequence[Entry], gains: Mapping[str, float], rng: Random) -> Entry:
    """Draw an entry by the softmax of the gain of its twins."""
    weights = [math.exp(gains.get(key_of(entry.chosen), FIRST_GAIN)) for entry in entries]
    return rng.choices(entries, weights)[0]


@dataclass(slots=True)
class Twin:
    """A twin that is about to leave its episode by an entry."""

    parent: Trajectory
    entry: Entry
    places: Places
    rng: Random

    def starts(self, sample: int, watch: Sequence[int], twins: Twins) -> Iterator[Start]:
        """Yield the twin's start; none where no place has room for the entry."""
        possible = [place for place in self.places if place[0] > -math.inf]
        if possible:
            turn, token = draw_place(possible, twins, self.rng)
            forced = self.entry.chosen
            yield leave(self.parent, sample=sample, turn=turn, token=token, forced=forced, learned=True, watch=watch)


def begin_twins(
    factual: Sequence[Trajectory],
    entries: Sequence[Entry],
    watch: Sequence[int],
    twins: Twins,
    gains: Mapping[str, float],
    rng: Random,
) -> Iterator[Twin]:
    """Yield a twin of each episode of a failed group that could have entered somewhere, by one of the entries that it
    could have made."""
    for episode in factual if has_failed(factual, twins.failed) else ():
        possible_entries = entries if episode.status != "error" else ()
        places = {
            entry: entry_places
            for entry in possible_entries
            if (entry_places := list(places_of(episode, entry, watch, twins.likely)))
        }
        if places:
            entry = draw_entry(list(places), gains, rng)
            yield Twin(episode, entry, places[entry], reserve(rng))


def reserve(rng: Random) -> Random:
    """Return a generator of the next random number, which `rng` then skips: the draw itself may come later."""
    reserved = Random()
    reserved.setstate(rng.getstate())
    rng.random()
    return reserved


def weigh_places(left: Sequence[Twin], twins: Twins) -> Probing:
    """Add the log-probs of the rest of each description to those of its first token, at the likeliest places."""
    long = [twin for twin in left if twins.likely == "description" and len(twin.entry.description) > 1]
    for twin in long:
        twin.places = likeliest(twin.places, twins.num_probed)
    probes = [
        Probe(turn=twin.parent.turns[turn], token=token, ids=twin.entry.description, skip=1)
        for twin in long
        for _, (turn, token) in twin.places
    ]
    rests = iter((yield probes) if probes else ())
    for twin in long:
        twin.places = [(first + rest, place) for (first, place), rest in zip(twin.places, rests)]


def places_of(
    episode: Trajectory, entry: Entry, watch: Sequence[int], likely: Likely
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the places of a possible entry, by the log-prob of the first token of its description or name."""
    route = watch.index(entry.chosen[0])
    watched_columns = [watch.index(word) for word in first_tokens(entry, likely)]
    for turn, played_turn in enumerate(episode.turns):
        done = played_turn.completion
        possible = None if entry.possible is None else entry.possible(done.token_ids)
        for token in range(min(len(done.watched), text_before(done, entry))):
            if done.watched[token][route] > IMPOSSIBLE and (possible is None or possible[token]):
                yield max(done.watched[token][i] for i in watched_columns), (turn, token)


def first_tokens(entry: Entry, likely: Likely) -> tuple[int, ...]:
    """Return the ids of which the likeliest is looked at: that of the description, or all spellings of the name."""
    if likely == "description" and entry.description:
        return entry.description[:1]
    return (*entry.words, entry.chosen[0]) if likely == "either" else entry.words


def text_before(done: Completion, entry: Entry) -> int:
    """Tokens before which one may enter: up to where the turn does so itself."""
    token_ids, entered = done.chosen_ids or done.token_ids, entry.chosen
    for place in range(len(token_ids) - len(entered) + 1):
        if token_ids[place : place + len(entered)] == entered:
            return place + 1
    return len(token_ids)


def likeliest(places: Sequence[tuple[float, tuple[int, int]]], num: int) -> Places:
    """Return the likeliest places first, at most `num` of them; 0: all."""
    return sorted(places, key=lambda place: (-place[0], place[1]))[: num or None]


def draw_place(places: Sequence[tuple[float, tuple[int, int]]], twins: Twins, rng: Random) -> tuple[int, int]:
    """Draw a place by its weight under temperature, top-k and top-p."""
    best = likeliest(places, twins.top_k)
    weights = [math.exp((score - best[0][0]) / twins.temperature) for score, _ in best]
    num, mass = 0, 0.0
    while num < len(best) and mass < twins.top_p * sum(weights):
        mass += weights[num]
        num += 1
    return rng.choices([place for _, place in best[:num]], weights[:num])[0]


def twin_difference(*, std: Deviation = "sample", eps: float = 1e-6) -> Credit:
    """Credit a twin's tokens by R' - R: the tokens that the twin sampled, and its parent's tokens before the fork.

    The parent's tokens after the fork are not kept. A twin and the kept prefix are the trajectory tau' of the paper, so
    a loss that averages over trajectories counts both as one. A group without twins is credited as by GRPO,
    (R_i - mean) / (std + eps).
    """
    at_least(0.0, eps=eps)
    alone = group_centred(std=std, eps=eps)

    def credit(rows: Rows) -> Credited:
        returns = trajectory_returns(rows)
        first = {rows.trajectory[row]: row for row, fork in enumerate(rows.fork) if fork >= 0}
        gain = {t: returns[t] - returns[rows.trajectory[rows.fork[row]]] for t, row in first.items()}
        twin_of = {rows.trajectory[rows.fork[row]]: t for t, row in first.items()}
        failed = {rows.group[row] for row in first.values()}
        beside = alone(rows).advantage.values

        def worth(row: int) -> tuple[float, int]:
            """Return the worth of the row's leading tokens, and the number of tokens that are kept."""
            trajectory, num = rows.trajectory[row], rows.num_tokens[row]
            if rows.group[row] not in failed:
                return float(beside[row]), num  # type: ignore[arg-type]
            if trajectory in gain:
                return gain[trajectory], num
            if trajectory not in twin_of:
                return 0.0, 0
            twin = twin_of[trajectory]
            leaves = rows.fork[first[twin]]
            return gain[twin], num if row < leaves else rows.fork_token[first[twin]] if row == leaves else 0

        worths = [worth(row) for row in range(len(rows.reward))]
        return Credited(
            counts_as=[twin_of.get(t, t) for t in rows.trajectory],
            advantage=PerRow([value for value, _ in worths]),
            keep=PerToken(
                [[place < num for place in range(all_of)] for (_, num), all_of in zip(worths, rows.num_tokens)]
            ),
        )

    return credit


def key_of(chosen: Sequence[int]) -> str:
    """An entry's name in a state: the ids that are forced."""
    return " ".join(map(str, chosen))


def measure_gains(groups: Sequence[Group]) -> dict[str, list[float]]:
    """Return, for each entry, the gains of its twins over the episodes that they left."""
    gains: dict[str, list[float]] = {}
    for group in groups:
        reward = {episode.sample: episode.reward for episode in group.trajectories}
        for episode in group.trajectories:
            if episode.fork is not None and episode.status != "error":
                gains.setdefault(key_of(episode.fork.forced), []).append(episode.reward - reward[episode.fork.parent])
    return gains


def remembered_gains(num_samples: int, twins: Twins) -> Memory:
    """gain <- (1 - gain_rate) gain + gain_rate * the step's mean, of every entry that was forced in a step."""

    def adapt(state: State, groups: Sequence[Group], metrics: Metrics) -> State:
        gains = dict(state["gains"])
        for key, values in measure_gains(groups).items():
            before, now = gains.get(key, FIRST_GAIN), sum(values) / len(values)
            gains[key] = (1 - twins.gain_rate) * before + twins.gain_rate * now
        return {"gains": gains}

    def bind(algorithm: Algorithm, state: State) -> Algorithm:
        return replace(algorithm, sample=with_twins(num_samples, twins, state["gains"]))

    return Memory(begin=lambda: {"gains": {}}, adapt=adapt, bind=bind)


def both(*memories: Memory | None) -> Memory | None:
    """Several memories as one: each knows what it knew alone."""
    present = [memory for memory in memories if memory is not None]

    def begin() -> State:
        return {name: value for memory in present for name, value in memory.begin().items()}

    def adapt(state: State, groups: Sequence[Group], metrics: Metrics) -> State:
        state_after: dict[str, Any] = {}
        for memory in present:
            state_after |= memory.adapt(state, groups, metrics)
        return state_after

    def bind(algorithm: Algorithm, state: State) -> Algorithm:
        for memory in present:
            algorithm = memory.bind(algorithm, state)
        return algorithm

    return Memory(begin=begin, adapt=adapt, bind=bind) if present else None
