"""The forward pass of Qwen2, Qwen3 and Llama for sampling: functional, no autograd, built from Hugging Face tensors.

The result equals that of transformers up to rounding. Small models run faster, because their cost is the number of
operations. Hence:

- q, k, v are one matrix, gate and up another, each stored (in, out), the layout of `addmm`.
- RMSNorm(x) * w = x / hypot(|x|, sqrt(d * eps)) * sqrt(d) * w, and the constant sqrt(d) * w is folded into the next
  matrix: three operations of eight remain. The attention's 1 / sqrt(head size) is folded into q likewise, or into
  Qwen3's norm of q.
- RoPE rotates the pair (x_j, x_{j + D/2}). The rows of q and k are reordered so that pairs are neighbours and the
  rotation is one complex product. Both have the same order, so their inner products stay the same.
- Attention is two plain batched products: for one query a row they are at least twice as fast as the fused CPU kernel.

Shapes: B rows, N tokens of each, M = B * N, C cached columns, H query heads, K key heads, G = H / K, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rlx.model.expand import ROWS
from rlx.model.families import FAMILIES
from rlx.model.shape import Shape, read_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Fused matrices of one block, with norms and scales folded in. `qkv_bias` and `qk_norm` are None for models
    without them."""

    qkv: Tensor
    qkv_bias: Tensor | None
    qk_norm: Tensor | None
    """Factor of each head's normalised query and key, (H + K, D)."""
    out: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """View of one layer's cache: the rows of this pass, and the complete cache, flat, for writing."""

    keys: Tensor
    """(B * K, D, C)"""
    values: Tensor
    """(B * K, C, D)"""
    flat: Tensor
    """(places, D)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of tokens through the model: N for each of B consecutive cache rows, padded."""

    ids: Tensor
    """(M,)"""
    rotations: Tensor
    """RoPE's rotation of each token, (M, 1, D / 2), complex."""
    places: Tensor
    """Flat cache indices for writing, (M * 2 * K,) in the order token, k or v, head."""
    bias: Tensor
    """0 where a token may attend and -inf elsewhere, (M, C)."""
    caches: list[LayerCache]
    num_rows: int
    ends: Tensor | None = None
    """Index in M of each row's last token, (B,); None if N = 1. The last layer computes only these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Fused model for sampling."""

    shape: Shape
    embedding: Tensor
    layers: tuple[Layer, ...]
    head: Tensor
    floor: Tensor
    """sqrt(d * eps), which prevents a division by zero in RMSNorm."""
    head_floor: Tensor
    """The same term for one head: sqrt(D * eps)."""
    frequencies: Tensor
    """RoPE's radians per position, (D / 2,), float32."""

    def rotations(self, length: int) -> Tensor:
        """Return RoPE's rotation at each position, as complex numbers of modulus one: (length, 1, D / 2)."""
        angles = torch.arange(length, device=self.frequencies.device).float()[:, None] * self.frequencies
        return torch.polar(torch.ones_like(angles), angles).unsqueeze(1)

    def forward(self, run: Pass) -> Tensor:
        """Return the logits after each row's last token, (B, V). Keys and values of all tokens are written into the
        cache."""
        x = F.embedding(run.ids, self.embedding)
        last = len(self.layers) - 1
        for index, (layer, cache) in enumerate(zip(self.layers, run.caches)):
            ends_B = run.ends if index == last else None
            mixed = self._attend(layer, cache, normalize(x, self.floor), run, ends_B)
            if ends_B is not None:
                x = x.index_select(0, ends_B)
            x.addmm_(mixed, layer.out)
            x.addmm_(activate(normalize(x, self.floor) @ layer.gate_up), layer.down)
        return (normalize(x, self.floor) @ self.head).float()

    def _attend(self, layer: Layer, cache: LayerCache, h: Tensor, run: Pass, ends_B: Tensor | None) -> Tensor:
        """Return the attention's output for all tokens or each row's last one: (M, H * D) or (B, H * D)."""
        H, K, D = self.shape.heads, self.shape.key_heads, self.shape.head_size
        B, G, bias = run.num_rows, H // K, run.bias
        qkv = (h @ layer.qkv) if layer.qkv_bias is None else torch.addmm(layer.qkv_bias, h, layer.qkv)
        heads = qkv.view(-1, H + 2 * K, D)
        if layer.qk_norm is not None:
            heads[:, : H + K] = normalize(heads[:, : H + K], self.head_floor) * layer.qk_norm
        rotate(heads[:, : H + K], run.rotations)
        cache.flat.index_copy_(0, run.places, heads[:, H:].reshape(-1, D))
        q = heads[:, :H]
        if ends_B is not None:
            q, bias = q.index_select(0, ends_B), bias.index_select(0, ends_B)
        N = q.shape[0] // B
        if N > 1:
            q = q.reshape(B, N, K, G, D).transpose(1, 2)
        scores = torch.bmm(q.reshape(B * K, N * G, D), cache.keys)
        scores.view(B, K, N, G, -1).add_(bias.view(B, 1, N, 1, -1))
        mixed = torch.bmm(torch.softmax(scores, -1), cache.values)
        if N > 1:
            mixed = mixed.view(B, K, N, G, D).transpose(1, 2)
        return mixed.reshape(B * N, H * D)


def normalize(x: Tensor, floor: Tensor) -> Tensor:
    """Return x over its root mean square, without the factor sqrt(d) of the next matrix."""
    if x.dtype == torch.float32:
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), floor)
    return normalize(x.float(), floor).to(x.dtype)


def rotate(heads: Tensor, rotations_M: Tensor) -> None:
    """Apply RoPE in place to (M, heads, D), with pairs as neighbours."""
    if heads.dtype == torch.float32:
        torch.view_as_complex(heads.view(*heads.shape[:2], -1, 2)).mul_(rotations_M)
    else:
        wide = torch.view_as_complex(heads.float().view(*heads.shape[:2], -1, 2))
        heads.copy_(torch.view_as_real(wide * rotations_M).flatten(-2))


def activate(gate_up: Tensor) -> Tensor:
    """Apply SwiGLU: silu(gate) * up."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate).mul_(up)


def misfit(config: Any) -> str:
    """Return the reason why this decoder does not compute a config; empty if it does."""
    family = FAMILIES.get(config.model_type)
    if family is None or not family.fused:
        return f"model type {config.model_type!r} is not one of {', '.join(n for n, f in FAMILIES.items() if f.fused)}"
    if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        return "sliding-window attention (use_sliding_window) is not supported"
    if config.hidden_act != "silu":
        return f"hidden_act {config.hidden_act!r} is not supported, only 'silu'"
    for key in ("attention_bias", "mlp_bias"):
        if getattr(config, key, False):
            return f"{key} is not supported"
    rope = config.rope_parameters
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "partial rotary embeddings are not supported"
    kind = rope.get("rope_type", "default")
    return "" if kind in ("default", "llama3") else f"RoPE type {kind!r} is not supported, only 'default' and 'llama3'"


def rope_frequencies(config: Any, head_size: int) -> Tensor:
    """Return the radians per position of each pair, for plain RoPE and Llama 3.1's stretched form.

    Llama 3.1 compares a frequency's wavelength 2 pi / f with the training context. It divides f by `factor` if the
    wavelength is long, keeps f if it is short, and interpolates between.
    """
    rope = dict(config.rope_parameters)
    plain = 1.0 / rope["rope_theta"] ** (torch.arange(0, head_size, 2, dtype=torch.int64).float() / head_size)
    if rope.get("rope_type", "default") == "default":
        return plain
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * plain / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - keep) * plain / rope["factor"] + keep * plain


def build_decoder(
    config: Any, weights: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype, num_added: int = 0
) -> Decoder:
    """Fuse a model's tensors. All are copied, so the learner may change its own afterwards. The head continues with the
    rows of `num_added` actions."""
    reason = misfit(config)
    if reason:
        raise ValueError(f"fused decoder: {reason}")
    shape = read_shape(config.to_dict())
    frequencies = rope_frequencies(config, shape.head_size).to(device)

    def take(name: str) -> Tensor:
        if name not in weights:
            raise ValueError(f"torch engine: the weights lack {name!r}; are they a {config.model_type} causal LM's?")
        return weights[name].detach().to(device, torch.float32)

    def store(matrix: Tensor) -> Tensor:
        """Copy into new memory, laid out (in, out)."""
        return matrix.t().to(dtype).clone(memory_format=torch.contiguous_format)

    for name in weights:
        if name.endswith((".o_proj.bias", ".gate_proj.bias", ".up_proj.bias", ".down_proj.bias")):
            raise ValueError(f"torch engine: a bias at {name!r} is not supported")
    embedding = take("model.embed_tokens.weight")
    tied = config.tie_word_embeddings or "lm_head.weight" not in weights
    head = embedding if tied else take("lm_head.weight")
    if num_added:
        head = torch.cat((head, check_rows(take(ROWS), num_added)))
    with torch.inference_mode():
        return Decoder(
            shape=shape,
            embedding=embedding.to(dtype, copy=True),
            layers=tuple(build_layer(shape, f"model.layers.{i}.", take, store, weights) for i in range(shape.layers)),
            head=store(head * (take("model.norm.weight") * math.sqrt(shape.width))),
            floor=torch.tensor(math.sqrt(shape.width * config.rms_norm_eps), device=device),
            head_floor=torch.tensor(math.sqrt(shape.head_size * config.rms_norm_eps), device=device),
            frequencies=frequencies,
        )


def check_rows(rows_AH: Tensor, num_added: int) -> Tensor:
    if len(rows_AH) != num_added:
        raise ValueError(f"torch engine: {len(rows_AH)} action rows for an automaton of {num_added} actions")
    return rows_AH


def build_layer(shape: Shape, prefix: str, take: Any, store: Any, weights: Mapping[str, Tensor]) -> Layer:
    """Return one layer's fused matrices; see the module's docstring."""
    root = math.sqrt(shape.width)
    scale = 1.0 if shape.normed else 1 / math.sqrt(shape.head_size)
    before, after = (take(f"{prefix}{name}_layernorm.weight") * root for name in ("input", "post_attention"))

    def fuse(kind: str) -> Tensor:
        q, k, v = (take(f"{prefix}self_attn.{name}_proj.{kind}") for name in "qkv")
        return torch.cat((pair_neighbours(q * scale, shape.head_size), pair_neighbours(k, shape.head_size), v))

    def norms() -> Tensor:
        """Return the norm weights of q and k with folded scales: sqrt(D) for k; 1 for q, where attention's 1 / sqrt(D)
        cancels it."""
        q, k = (pair_neighbours(take(f"{prefix}self_attn.{name}_norm.weight"), shape.head_size) for name in "qk")
        return torch.cat((q.expand(shape.heads, -1), (k * math.sqrt(shape.head_size)).expand(shape.key_heads, -1)))

    biased = f"{prefix}self_attn.q_proj.bias" in weights
    return Layer(
        qkv=store(fuse("weight") * before),
        qkv_bias=store(fuse("bias")) if biased else None,
        qk_norm=store(norms().t()) if shape.normed else None,
        out=store(take(f"{prefix}self_attn.o_proj.weight")),
        gate_up=store(torch.cat([take(f"{prefix}mlp.{name}_proj.weight") for name in ("gate", "up")]) * after),
        down=store(take(f"{prefix}mlp.down_proj.weight")),
    )


def pair_neighbours(rows: Tensor, head_size: int) -> Tensor:
    """Reorder each head's rows from (all first halves, all second halves) to (first, second), (first, second), ..."""
    return rows.unflatten(0, (-1, 2, head_size // 2)).transpose(1, 2).flatten(0, 2)
