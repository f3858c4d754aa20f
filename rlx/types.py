"""Data that flows through rlx: frozen values, standard library only.

    Task -> Completion -> Turn -> Trajectory -> Group -> Rows -> (rlx.learner.batch) Batch

One Countdown episode, as an example: the Task says "make 98 from 44, 19, 35". The first Turn's Completion is the
tokens of a thought and a Python call. Its Action is `Action(kind="call", name="python", text="(44 - 35) * 19")`. Its
observation is `(Text("171"),)`, and its reward is the call's cost, -0.02. The last Turn's Action is an answer, its
observation is empty and its reward is the verifier's. Sixteen such trajectories of the same Task make a Group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rlx.base.buttons import Buttons
from rlx.base.limits import MistakeError, above, at_least

Stop = Literal["stop", "eos", "length", "context"]
"""Why a completion ended: a stop string or an id with which its automaton ends, the end-of-sequence token, its own
token limit, or the context's end."""

CUT: frozenset[Stop] = frozenset({"length", "context"})
"""Ends that nobody chose: a completion that was cut is never a valid action."""

Status = Literal["done", "truncated", "context", "error"]
"""End of an episode: by the environment, by its limit of turns, where no context was left, or by an exception.

A limit of turns belongs to the task, and nothing follows it; the context's end belongs to the machine, and the task
would have gone on (Pardo et al. 2018, "Time limits in reinforcement learning", arXiv:1712.00378)."""


@dataclass(frozen=True, slots=True)
class Text:
    """A part of an observation that is text."""

    text: str


Part = Text
"""Element of an observation, which is a tuple. Images will join here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One problem, explicit: the same Task always starts the same episode. `id` is unique within an environment;
    `prompt` is what the agent is told; `data` is JSON that `start` needs too. By convention `data["goal"]` is the goal
    alone, as in `go to the red ball`, for protocols that tell a task in their own words (rlx.protocol.instruction)."""

    id: str
    prompt: tuple[Part, ...]
    data: Mapping[str, Any]
    env: str = ""
    """Name of the task's environment, where a run has several."""

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, tuple) or not all(isinstance(part, Part) for part in self.prompt):
            raise MistakeError(f"env: the prompt of task {self.id!r:.60} is {self.prompt!r:.60}: expected (Text(…),)")

    @property
    def key(self) -> str:
        """Return the name that tells it from every other task of a run."""
        return f"{self.env}/{self.id}" if self.env else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A tool that an environment lends, or an action that it declares."""

    name: str
    """A word: letters, digits and `_`."""
    description: str
    """Its effect, as an order: `run Python`, `swap two items`."""
    argument: str = ""
    """Meaning of the text that goes with it; empty where it takes none."""
    buttons: Buttons | None = field(default=None, hash=False, repr=False)
    """Keys of the argument, for a protocol whose actions lie beyond the vocabulary; None: it is any text."""
    when: tuple[str, ...] = ()
    """Situations that it is legal in, by names of the environment's own; empty: all
    (rlx.environment.world.legal_sets)."""
    phrase: str = ""
    """Words that say it where an action is plain text (`direct`, `boxed`, `fenced`), as in `turn left`; empty: its
    name."""

    @property
    def words(self) -> str:
        """Return the text that says it where an action is plain text."""
        return self.phrase or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Meaning of a completion under its protocol.

    `call`: run tool `name` on `text`. `act`: do what the environment declares as `name`, with `text`. `answer`: `text`
    is final. `invalid`: `text` is the reason, told to the agent. `summary`: `text` is what the agent goes on from; no
    environment hears it.
    """

    kind: Literal["call", "act", "answer", "invalid", "summary"]
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """Counts of equation 1 of cost-aware Tool-RLOO, over one turn or summed over an episode."""

    num_calls: int = 0
    num_failed: int = 0
    num_mismatches: int = 0
    num_tokens: int = 0
    """Tokens of tool observations, as the policy's tokenizer counts them."""
    num_stopped: int = 0
    """Calls and judgements that a limit by the clock ended, so that a busy machine may answer otherwise."""
    name: str = ""
    """Name of the tool, where a wrapper lent it; empty where several are summed."""

    def __add__(self, other: ToolUse) -> ToolUse:
        return ToolUse(
            num_calls=self.num_calls + other.num_calls,
            num_failed=self.num_failed + other.num_failed,
            num_mismatches=self.num_mismatches + other.num_mismatches,
            num_tokens=self.num_tokens + other.num_tokens,
            num_stopped=self.num_stopped + other.num_stopped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Answer of an environment to an action. `success` is None until the episode's outcome is known."""

    observation: tuple[Part, ...] = ()
    reward: float = 0.0
    done: bool = False
    truncated: bool = False
    """Done because no more turns may pass, not because the agent ended it."""
    success: bool | None = None
    tool: ToolUse = ToolUse()
    legal: tuple[str, ...] | None = None
    """Declared actions that may come next, by name; None: all of them."""
    invalid: bool = False
    """The environment rejects the action, readable or not (`Turn.is_invalid`)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The environment's own measures, by name: summed over an episode, averaged over the episodes with a value."""
    next_agent: str = ""
    """Agent that acts next, and that reads the observation (`Environment.agents`)."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Rewards of agents other than the one that acted, by their names."""
    outcomes: Mapping[str, bool] = field(default_factory=dict)
    """Success of agents for which it is not `success`, by their names: of the one that lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of a demonstration: what to think, then what to do."""

    thought: str
    action: Action


class Piece(NamedTuple):
    """A part of a context: `text`, or the sampled tokens of turn `turn`, unchanged; with both, the text replaces the
    sampled tokens."""

    role: Literal["system", "user", "assistant", "tool"]
    """Role of the message for a chat model; `tool` is the answer to a call."""
    text: str = ""
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings that sample completions. `top_k=0` and `top_p=1` do not filter; `temperature=0` is greedy."""

    temperature: float = 1.0
    """Softmax temperature; log-probs are taken at it, by the engine and by the learner."""
    top_k: int = 0
    """Sample among the k likeliest tokens; 0 is all. Filters bias the gradient: keep them for evaluation."""
    top_p: float = 1.0
    """Sample among the likeliest tokens that hold this much probability; 1 is all."""
    max_new_tokens: int = 64
    """Tokens a turn."""
    max_context: int = 1024
    """Prompt and completions of all turns together."""

    def __post_init__(self) -> None:
        at_least(0.0, temperature=self.temperature)
        at_least(0, top_k=self.top_k)
        above(0, 1, top_p=self.top_p)
        at_least(1, max_new_tokens=self.max_new_tokens, max_context=self.max_context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One completion to sample. `stream` keys its random numbers; its KV cache is kept under `session`: an agent's
    context in one episode."""

    session: int
    policy: str = ""
    """Name of the policy that answers; empty: the run's own."""
    stream: int
    prompt_ids: tuple[int, ...]
    completion_prefix: tuple[int, ...] = ()
    """Beginning of the completion, chosen before or forced: as if it were sampled here, with log-probs of 0."""
    group: int | None = None
    """Number of the forking sampler whose sessions may reuse each other's caches; None: no forks. Not a `Group`."""
    watch: tuple[int, ...] = ()
    """Ids whose log-probs are wanted with every token."""
    entropy_of: int = 0
    """Number of likeliest ids whose entropy, the sum of -p log p, is wanted with every token; 0 wants none."""
    sampling: Sampling
    stops: tuple[str, ...] = ()
    state: int | None = None
    """Start state in the engine's automaton (rlx.protocol.automaton); None for the vocabulary alone."""
    thinking: bool | None = None
    """True if the completion begins within <think>, where no stop string ends it; None: stop strings always end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Sampled tokens, `token_ids` as the context holds them, so of the vocabulary."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """One per token: of the choice made there, under temperature and mask, before top-k and top-p."""
    mask_ids: tuple[int, ...] = ()
    """One per token, or empty where no automaton was used."""
    chosen_ids: tuple[int, ...] = ()
    """One per token, or empty if equal to `token_ids`: an added action's id at the first token of its description."""
    watched: tuple[tuple[float, ...], ...] = ()
    """One per token, or empty: the log-probs of watched ids there, in their order, then the entropy of the likeliest
    ids where that is wanted; none of a token not sampled here."""
    stop: Stop
    version: int = 0
    """Version of the policy that sampled it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer to a request that nobody could complete: it ends the episode that asked, and no other."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One decision: the whole context, the completion, the action read from it, and the environment's answer."""

    prompt_ids: tuple[int, ...]
    completion: Completion
    action: Action
    observation: tuple[Part, ...] = ()
    reward: float = 0.0
    """The environment's reward less the cost of tool use."""
    tool: ToolUse = ToolUse()
    metrics: Mapping[str, float] = field(default_factory=dict)
    luck: int = 0
    """Number that keyed the environment's chance in this turn, so that a replay or a fork repeats it; 0: no number."""
    invalid: bool = False
    """The environment rejected the action."""
    agent: str = ""
    """Agent that acted; empty where the environment has one alone."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Rewards of the other agents in this turn, by their names."""
    outcomes: Mapping[str, bool] = field(default_factory=dict)
    """Success of the agents whose success differs from the episode's, by name."""
    reply: Mapping[str, float] = field(default_factory=dict)
    """Measures of the text by its protocol (`measure`), by the names of their metrics: averaged over turns."""

    @property
    def is_invalid(self) -> bool:
        """True if the protocol could not read the turn, or the environment rejected its action."""
        return self.invalid or self.action.kind == "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Place at which a trajectory left another: `token` tokens into turn `turn` of sample `parent`, with `forced` ids
    next. That turn's completion holds all its ids: the parent's, the forced, and then its own."""

    parent: int
    turn: int
    token: int = 0
    forced: tuple[int, ...] = ()
    learned: bool = False
    """Learn from the forced tokens too."""

    @property
    def num_prefix(self) -> int:
        """Number of leading ids of turn `turn` that the fork did not sample: its parent's, then the forced ones."""
        return self.token + len(self.forced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """One episode with the turns of all its agents; rlx.environment.agents makes each agent's own before learning."""

    task: Task
    sample: int
    """Number of the sample in its group; with (seed, step, task) it keys the random stream."""
    turns: tuple[Turn, ...]
    status: Status
    success: bool = False
    error: str = ""
    fork: Fork | None = None
    opening: tuple[Part, ...] = ()
    """Observation before the first turn, where the environment has one."""
    spare: bool = False
    """True if its sampler leaves it out: it is in the group only because forks begin inside it."""
    game: Trajectory | None = None
    """Episode of all agents, if this is one agent's own episode; stored episodes are those of all agents."""

    @property
    def reward(self) -> float:
        """Sum of the rewards of all turns, including the replayed turns of a fork."""
        return sum(turn.reward for turn in self.turns)

    @property
    def tool(self) -> ToolUse:
        return sum((turn.tool for turn in self.turns), ToolUse())

    @property
    def num_tokens(self) -> int:
        return sum(len(turn.completion.token_ids) for turn in self.turns)

    @property
    def new_turns(self) -> tuple[Turn, ...]:
        """The turns that it does not replay."""
        return self.turns[self.fork.turn :] if self.fork else self.turns

    @property
    def num_sampled(self) -> int:
        """Tokens sampled for it: none that it replays, takes over from its parent or was forced to say."""
        num_prefix = self.fork.num_prefix if self.fork and self.new_turns else 0
        return sum(len(turn.completion.token_ids) for turn in self.new_turns) - num_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All trajectories of one task in one step, in sample order."""

    task: Task
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An episode to play: afresh, or by replaying `prefix` (a resumed episode, or a fork: rlx.algo.samplers.leave)."""

    task: Task
    sample: int
    prefix: tuple[Turn, ...] = ()
    fork: Fork | None = None
    """Place to fork at: the turns before `fork.turn` are replayed. If the fork leaves its parent within that turn, the
    parent's turn is in `prefix` too."""
    watch: tuple[int, ...] = ()
    """Ids whose log-probs are recorded with every sampled token."""
    entropy_of: int = 0
    """Number of likeliest ids whose entropy is recorded with every sampled token; 0: no entropy."""
    sampling: Sampling | None = None
    """Settings of its own, e.g. greedy; the learner knows the run's alone, so such an episode is in no group."""
    first: Sampling | None = None
    """Settings of the first newly sampled turn, if different from the other turns."""
    max_turns: int | None = None
    """Limit of newly sampled turns; beyond it the episode ends as truncated."""
    repeat: int = 0
    """Number of earlier starts of its step with this task and sample; a player counts them, so that each has a
    random stream of its own."""


Metrics = dict[str, float]
"""Named `noun/stat`. Whatever depends on the clock is under `time/`, `rate/` or `memory/`."""
