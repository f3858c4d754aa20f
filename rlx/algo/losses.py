"""Losses over the trained tokens of a micro-batch, normalised by counts over the whole batch.

Every loss returns its share and its metrics' shares; over the micro-batches of a step they add up to what one large
batch would give. Only methods of tensors are used, so nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from rlx.algo.parts import Algorithm, Loss, Memory, Need, State, TokenLoss, Tokens, Totals
from rlx.base.limits import MistakeError, above, at_least, refuse, within
from rlx.types import Group, Metrics

if TYPE_CHECKING:
    from torch import Tensor

KL = Literal["k1", "k2", "k3"]
Over = Literal["all", "vocabulary"]
Normalisation = Literal["token", "sequence", "constant"]
Ratio = Literal["token", "turn"]
"""Ratio that is clipped: of a token, or the geometric mean over a turn."""
ClipLow = Annotated[float, "Lower clip range: the clipped ratio is at least 1 - clip_low."]
ClipHigh = Annotated[float, "Upper clip range: the clipped ratio is at most 1 + clip_high."]
Surrogate = Callable[[Tokens], tuple["Tensor", Mapping[str, "Tensor"]]]
"""Function of tokens that returns the policy's loss per token and metrics per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """Terms that every policy loss adds to its surrogate, and the sum over tokens: the keys of `algo.loss`."""

    kl: float = 0.0
    """Weight of KL(policy || start policy) in the loss; 0 needs no reference model."""
    kl_estimator: KL = "k3"
    """Estimator of KL: k1, k2 or k3 (rlx.algo.losses.kl_estimate gives their gradients)."""
    kl_over: Over = "all"
    """Choices that the KL covers: all, or the vocabulary alone, at tokens of the vocabulary."""
    kl_target: float | None = None
    """Target KL per token: every step adapts kl towards it; null: kl is constant."""
    kl_rate: float = 0.1
    """Rate at which kl_target changes kl: by at most a fifth of this per step."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    normalisation: Normalisation = "token"
    """Sum of token losses: token (sum / tokens), sequence (mean per episode), constant (sum / constant, per
    episode)."""
    constant: float = 1.0
    """Completion length of normalisation=constant; unused otherwise."""

    def __post_init__(self) -> None:
        within(0.0, 1e6, kl=self.kl, entropy=self.entropy)
        above(0, kl_target=self.kl_target)
        within(0.0, 1.0, kl_rate=self.kl_rate)
        at_least(1.0, constant=self.constant)
        if self.kl_target is not None and not self.kl:
            refuse("kl", self.kl, "a number above 0 to begin with, as kl_target adapts it by factors")

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"reference"}) if self.kl else frozenset()


PLAIN = PolicyLoss()
"""The surrogate alone, averaged over tokens."""


def total(per_token: Tensor, tokens: Tokens, totals: Totals, loss: PolicyLoss) -> Tensor:
    """Add up a per-token loss, under one of three names.

    `token`: sum / number of tokens in the batch. `sequence`: mean over a trajectory's tokens, then over trajectories.
    `constant`: sum / `constant` (a completion length), then mean over trajectories (Dr. GRPO, arXiv:2503.20783).
    Rows with the same `Credited.counts_as` are one trajectory, such as a twin and its shared prefix.
    A token of multiplicity m (`Credited.multiplicity`) counts m times, in every sum and number of tokens.
    """
    copies = tokens.multiplicity
    per_token = per_token if copies is None else per_token * copies
    match loss.normalisation:
        case "token":
            return per_token.sum() / (totals.num_tokens if totals.num_copies is None else totals.num_copies)
        case "constant":
            return per_token.sum() / (loss.constant * totals.num_trajectories)
        case "sequence":
            trajectory = tokens.trajectory
            length = trajectory.bincount(copies)[trajectory] if tokens.length is None else tokens.length
            return (per_token / length).sum() / totals.num_trajectories


def kl_estimate(logp: Tensor, reference_logp: Tensor, estimator: KL) -> Tensor:
    """Per-token estimates of KL(policy || reference) from samples of the policy (Schulman 2020, "Approximating KL").

    With d = logp - reference: k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d. All three are read as values. What is
    differentiated: k2 and k3 themselves (k3 as in GRPO: low variance, but its gradient is that of the forward KL);
    k1's own gradient is zero on average, so k1 carries k2's, d * grad logp, which on policy is the exact gradient of
    the KL.
    """
    d = logp - reference_logp
    match estimator:
        case "k1":
            squared = d.square() / 2
            return d.detach() + squared - squared.detach()
        case "k2":
            return d.square() / 2
        case "k3":
            return (-d).exp() - 1 + d


def clip(low: float, high: float) -> Surrogate:
    """PPO's pessimistic two-sided clip: -min(r A, clip(r, 1-low, 1+high) A), r = pi / pi_old (arXiv:1707.06347)."""

    def surrogate(tokens: Tokens) -> tuple[Tensor, Mapping[str, Tensor]]:
        ratio = (tokens.now["logp"] - tokens.old["logp"]).exp()
        plain = -tokens.advantage * ratio
        clipped = -tokens.advantage * ratio.clamp(1 - low, 1 + high)
        return plain.maximum(clipped), {"ratio/clipped": (clipped > plain).float()}

    return surrogate


def turn_clip(low: float, high: float) -> Surrogate:
    """Clip the geometric mean of a turn's ratios, s = exp(mean of log pi - log pi_old), in place of each token's.

    -min(s' A, clip(s', 1-low, 1+high) A), s' = sg(s) pi / sg(pi): each token has the turn's ratio as its value, and its
    own gradient. It is GSPO's token form (arXiv:2507.18071), by turns. log s is at most 10, as in AT2PO's release.
    """

    def surrogate(tokens: Tokens) -> tuple[Tensor, Mapping[str, Tensor]]:
        gap = (tokens.now["logp"] - tokens.old["logp"]).detach()
        turn = tokens.row.unique(return_inverse=True)[1]
        log_ratio = (per_index(gap, turn) / turn.bincount())[turn].clamp(max=10.0)
        ratio = (log_ratio + tokens.now["logp"] - tokens.now["logp"].detach()).exp()
        plain = -tokens.advantage * ratio
        clipped = -tokens.advantage * ratio.clamp(1 - low, 1 + high)
        return plain.maximum(clipped), {"ratio/clipped": (clipped > plain).float()}

    return surrogate


def clipped_loss(clip_low: float, clip_high: float, ratio: Ratio = "token") -> Callable[[PolicyLoss], TokenLoss]:
    """Return the clipped loss of an algorithm, for the options of one; ValueError for bounds that are none."""
    above(0, 1, clip_low=clip_low)
    above(0, clip_high=clip_high)
    return partial(policy_loss, (turn_clip if ratio == "turn" else clip)(clip_low, clip_high))


def policy_gradient(sequence_cap: float | None = None) -> Surrogate:
    """REINFORCE: -w A log pi (Williams 1992).

    w is 1, or with `sequence_cap` the truncated importance weight of the token's whole trajectory,
    min(prod pi / pi_old, cap), which is not differentiated.
    """
    above(0, sequence_cap=sequence_cap)

    def surrogate(tokens: Tokens) -> tuple[Tensor, Mapping[str, Tensor]]:
        if sequence_cap is None:
            return -tokens.advantage * tokens.now["logp"], {}
        gap = (tokens.now["logp"] - tokens.old["logp"]).detach()
        weight = per_index(gap, tokens.trajectory)[tokens.trajectory].exp()
        capped = weight.clamp(max=sequence_cap)
        return -capped * tokens.advantage * tokens.now["logp"], {"ratio/clipped": (weight > sequence_cap).float()}

    return surrogate


def per_index(values: Tensor, index: Tensor) -> Tensor:
    """Sum values by index; where an index does not occur, zero."""
    return values.new_zeros(int(index.max()) + 1).index_add(0, index, values)


def policy_loss(surrogate: Surrogate, loss: PolicyLoss = PLAIN) -> TokenLoss:
    """surrogate + kl * KL(policy || reference) - entropy * H, per token, added up by `loss.normalisation`."""

    def policy(tokens: Tokens, totals: Totals) -> Loss:
        """Compute a micro-batch's share of the policy's loss."""
        per_token, metrics = surrogate(tokens)
        per_token = per_token * tokens.weight
        columns = {"entropy/mean": tokens.now["entropy"], **metrics}
        if tokens.reference:
            over = "vocab_logp" if loss.kl_over == "vocabulary" and "vocab_logp" in tokens.now else "logp"
            columns["kl/mean"] = kl_estimate(tokens.now[over], tokens.reference[over], loss.kl_estimator)
        elif loss.kl:
            raise MistakeError("loss.kl: no log-probs of the start policy; give the Algorithm needs=loss.needs")
        if loss.kl:
            per_token = per_token + loss.kl * columns["kl/mean"]
        if loss.entropy:
            per_token = per_token - loss.entropy * tokens.now["entropy"]
        value = total(per_token, tokens, totals, loss)
        return Loss(value=value, metrics=means(columns, totals.num_tokens))

    return policy


def adapted_weight(weight: float, kl: float, target: float, rate: float) -> float:
    """Return weight * (1 + rate * clip(KL / target - 1, -.2, .2)) (Ziegler et al. 2019, arXiv:1909.08593, section
    2.2)."""
    return weight * (1 + rate * max(-0.2, min(0.2, kl / target - 1)))


def adaptive_kl(loss: PolicyLoss, make_loss: Callable[[PolicyLoss], TokenLoss]) -> Memory | None:
    """Return the memory that adapts `loss.kl` after every step that learned; `make_loss` makes the loss with this KL.
    None without `kl_target`."""
    target = loss.kl_target
    if target is None:
        return None

    def adapt(state: State, groups: Sequence[Group], metrics: Metrics) -> State:
        return {"kl": adapted_weight(state["kl"], metrics.get("kl/mean", target), target, loss.kl_rate)}

    def bind(algorithm: Algorithm, state: State) -> Algorithm:
        return replace(algorithm, loss=make_loss(replace(loss, kl=state["kl"])))

    return Memory(begin=lambda: {"kl": loss.kl}, adapt=adapt, bind=bind)


class LossParts(TypedDict):
    """Arguments of an Algorithm that follow from its policy loss."""

    loss: TokenLoss
    memory: Memory | None
    needs: frozenset[Need]


def loss_parts(make_loss: Callable[[PolicyLoss], TokenLoss], loss: PolicyLoss) -> LossParts:
    """Return an algorithm's loss under these options, the memory for its adaptive KL, and its needed columns."""
    return LossParts(loss=make_loss(loss), memory=adaptive_kl(loss, make_loss), needs=loss.needs)


def cross_entropy(*, normalisation: Normalisation = "token", constant: float = 1.0) -> TokenLoss:
    """-A log pi, where A = 1 for what is to be copied."""
    return policy_loss(policy_gradient(), PolicyLoss(normalisation=normalisation, constant=constant))


def value_loss(
    *, value_weight: float = 0.5, value_clip: float | None = None, value_limit: float | None = None
) -> TokenLoss:
    """Return value_weight * (V - G)^2, averaged over tokens, and over rows for what stands after their last token.

    With `value_clip`, return the larger of that and of (V' - G)^2, where V' is V within `value_clip` of its value
    before the update (PPO's implementation, github.com/openai/baselines). With `value_limit`, an error e beyond that
    limit counts 2 limit |e| - limit^2 (Huber), so that a bad critic does not drown the policy's gradient. A return
    that is not a number is no target. The names are those of the algorithms' keys, as a refusal names them.
    """
    within(0.0, 1e6, value_weight=value_weight)
    above(0, value_clip=value_clip, value_limit=value_limit)
    weight, clip, limit = value_weight, value_clip, value_limit

    def square(error: Tensor) -> Tensor:
        if limit is None:
            return error.square()
        return error.abs().clamp(max=limit) * (2 * error.abs() - error.abs().clamp(max=limit))

    def sum_squares(tokens: Tokens, name: str, returns: Tensor) -> Tensor:
        """Sum over the tokens that have a target."""
        now, old, target = tokens.now[name], tokens.old[name], returns.nan_to_num()
        plain = square(now - target)
        if clip is not None:
            plain = plain.maximum(square(old + (now - old).clamp(-clip, clip) - target))
        return (plain * returns.isfinite()).sum()

    def loss(tokens: Tokens, totals: Totals) -> Loss:
        if "value" not in tokens.now:
            raise MistakeError("value_loss: there are no values; give the Algorithm a critic: critic=Critic(lr=…)")
        if tokens.returns is None:
            raise MistakeError("value_loss: the critic has no targets; have credit give `returns` in its Credited")
        value = sum_squares(tokens, "value", tokens.returns) / totals.num_tokens
        if tokens.returns_after is not None:
            value = value + sum_squares(tokens, "value_after", tokens.returns_after) / totals.num_rows
        columns = means({"critic/mean": tokens.now["value"]}, totals.num_tokens)
        return Loss(value=weight * value, metrics={"critic/loss": value.detach(), **columns})

    return loss


def sum_losses(*losses: TokenLoss) -> TokenLoss:
    """Their sum, with the metrics of all: a policy's loss and a critic's."""

    def loss(tokens: Tokens, totals: Totals) -> Loss:
        first, *rest = (loss_part(tokens, totals) for loss_part in losses)
        value = sum((other.value for other in rest), first.value)
        return Loss(
            value=value, metrics={name: x for loss_part in (first, *rest) for name, x in loss_part.metrics.items()}
        )

    return loss


def squared_margin(beta: float) -> TokenLoss:
    """IPO: (h - 1 / (2 beta))^2 per pair, h = sum of A (log pi - log reference), A = +1 chosen, -1 rejected.

    Azar et al. 2023 (arXiv:2310.12036), equation 17, with beta for its tau. A pair is what is kept of a group.
    """
    within(1e-6, 1e6, beta=beta)

    def loss(tokens: Tokens, totals: Totals) -> Loss:
        if not tokens.reference:
            problem = "the batch has no reference log-probs; give the Algorithm needs=frozenset({'reference'})"
            raise MistakeError(f"squared_margin: {problem}")
        pair = tokens.group.unique(return_inverse=True)[1]
        signs = tokens.advantage.sign()
        if not (per_index(signs.clamp(min=0), pair).gt(0) & per_index((-signs).clamp(min=0), pair).gt(0)).all():
            raise ValueError("squared_margin: a micro-batch holds half a pair; the algorithm's unit must be 'group'")
        margin = per_index(tokens.advantage * (tokens.now["logp"] - tokens.reference["logp"]), pair)
        value = (margin - 1 / (2 * beta)).square().sum() / totals.num_groups
        columns = {"margin/mean": margin, "margin/positive": (margin > 0).float()}
        entropy = means({"entropy/mean": tokens.now["entropy"]}, totals.num_tokens)
        return Loss(value=value, metrics={**entropy, **means(columns, totals.num_groups)})

    return loss


def means(columns: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Each column's share of a mean over `count`."""
    return {name: column.detach().sum() / count for name, column in columns.items()}
