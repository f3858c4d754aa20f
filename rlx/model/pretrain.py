"""Builds nano from nothing: `python -m rlx.model.pretrain`, an hour of one core.

Deterministic by seed on one machine, and resumable: the batch of step k is drawn from (seed, k) alone. Hidden
matrices move by Muon (https://kellerjordan.github.io/posts/muon/): the momentum's nearest orthogonal matrix, by five
Newton-Schulz steps; embeddings, biases and norms by AdamW. The learning rate ends at zero.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from rlx.model.corpus import Example, cut_batches, draw_examples, tokenizer_texts
from rlx.model.tokenizer import VOCABULARY, end_id, save_tokenizer, train_tokenizer

# Shapes: B examples, T tokens, V vocabulary.


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What determines nano's weights."""

    seed: int = 0
    steps: int = 2200
    tokens_per_step: int = 6144
    tokens_per_pass: int = 3072
    """Of each forward pass; a step's gradients are summed over its passes."""
    matrix_lr: float = 0.02
    vector_lr: float = 0.004
    warmup: int = 100
    trace_share: float = 0.16
    """Countdown traces among the documents; ten times as long as lessons, they are two thirds of the tokens."""
    late_trace_share: float = 0.06
    """The same from `late_step` on, when traces are learned and lessons are not: a third of the tokens."""
    late_step: int = 1500
    decay: float = 0.65
    """The share of steps, at the end, over which the learning rate falls linearly to zero."""


SHIPPED = Path(__file__).parent / "nano"
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 160,
    "intermediate_size": 448,
    "num_hidden_layers": 4,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
}


def make_model(seed: int, end: int) -> nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(**SHAPE, bos_token_id=None, eos_token_id=end, pad_token_id=end)
    model = Qwen2ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
    return model


def orthogonalise(matrices: Tensor) -> Tensor:
    """Newton-Schulz towards the nearest orthogonal matrix, for a stack of equal shapes, with Muon's coefficients."""
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; one group per shape so that each is one batched product."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        shapes = sorted({tuple(p.shape) for p in parameters})
        groups = [{"params": [p for p in parameters if tuple(p.shape) == shape]} for shape in shapes]
        super().__init__(groups, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            gradient = torch.stack([p.grad for p in group["params"]])
            state = self.state[group["params"][0]]
            buffer = state.setdefault("buffer", torch.zeros_like(gradient))
            buffer.lerp_(gradient, 1 - group["momentum"])
            update = orthogonalise(gradient.lerp(buffer, group["momentum"]))
            scale = group["lr"] * max(1.0, update.size(-2) / update.size(-1)) ** 0.5
            for parameter, change in zip(group["params"], update, strict=True):
                parameter.sub_(change, alpha=scale)


def make_optimizers(model: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if not (p.ndim == 2 and "embed" not in n)]
    adamw = torch.optim.AdamW(others, lr=recipe.vector_lr, betas=(0.9, 0.95), weight_decay=0.0)
    return [Muon(matrices, lr=recipe.matrix_lr), adamw]


def scale_rate(step: int, recipe: Recipe) -> float:
    """Warm-up, a plateau, and a linear fall that ends at zero."""
    left = (recipe.steps - step) / (recipe.decay * recipe.steps)
    return min(1.0, (step + 1) / recipe.warmup, left)


def share_at(step: int, recipe: Recipe) -> float:
    return recipe.trace_share if step < recipe.late_step else recipe.late_trace_share


def pad(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Token ids and weights, both B x T; padding weighs nothing and, coming last, is seen by nothing."""
    ids_BT = nn.utils.rnn.pad_sequence([torch.tensor(e.ids) for e in examples], batch_first=True)
    weights_BT = nn.utils.rnn.pad_sequence([torch.tensor(e.weights) for e in examples], batch_first=True)
    return ids_BT, weights_BT


def weigh_loss(model: nn.Module, examples: Sequence[Example]) -> Tensor:
    """The weighted sum of next-token cross-entropies."""
    ids_BT, weights_BT = pad(examples)
    logits_BTV = model(input_ids=ids_BT[:, :-1], use_cache=False).logits
    losses = F.cross_entropy(logits_BTV.flatten(0, 1), ids_BT[:, 1:].flatten(), reduction="none")
    return losses @ weights_BT[:, 1:].flatten()


def take_step(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    examples: Sequence[Example],
    recipe: Recipe,
    step: int,
) -> float:
    total = sum(sum(e.weights[1:]) for e in examples)
    loss = 0.0
    for batch in cut_batches(examples, recipe.tokens_per_pass):
        part = weigh_loss(model, batch) / total
        part.backward()
        loss += part.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group.setdefault("peak", group["lr"])
            group["lr"] = group["peak"] * scale_rate(step, recipe)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss


def flatten_state(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    return {
        f"{i}.{key}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for i, optimizer in enumerate(optimizers)
        for key, entry in optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }


def restore_state(optimizers: Sequence[torch.optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    for i, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            owner, key, field = name.split(".")
            if int(owner) == i:
                state.setdefault(int(key), {})[field] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def save_checkpoint(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], progress: Mapping[str, float]
) -> None:
    """One file, written aside and renamed, so that a kill leaves the one before."""
    tensors = {f"model.{name}": value.detach() for name, value in model.named_parameters()}
    tensors |= {f"optimizer.{name}": value for name, value in flatten_state(optimizers).items()}
    aside = folder / "checkpoint.safetensors.aside"
    save_file(tensors, aside, metadata={"progress": json.dumps(progress)})
    os.replace(aside, folder / "checkpoint.safetensors")


def load_checkpoint(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, float]:
    from safetensors import safe_open

    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return {"step": 0, "tokens": 0}
    tensors = load_file(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    optimizer_tensors = {n.removeprefix("optimizer."): t for n, t in tensors.items() if n.startswith("optimizer.")}
    restore_state(optimizers, optimizer_tensors)
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["progress"])


def prepare_tokenizer(folder: Path, recipe: Recipe) -> Tokenizer:
    """Trained once a work folder, then read again."""
    path = folder / "tokenizer" / "tokenizer.json"
    if not path.exists():
        save_tokenizer(train_tokenizer(tokenizer_texts(recipe.seed, recipe.trace_share)), path.parent)
    return Tokenizer.from_file(str(path))


def pretrain(folder: Path, recipe: Recipe, save_every: int = 100) -> None:
    """Run the recipe, or go on with it, in a folder of its checkpoint and log."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = prepare_tokenizer(folder, recipe)
    model = make_model(recipe.seed, end_id(tokenizer))
    optimizers = make_optimizers(model, recipe)
    progress = load_checkpoint(folder, model, optimizers)
    tokens, began, log = int(progress["tokens"]), time.monotonic(), folder / "log.jsonl"
    for step in range(int(progress["step"]), recipe.steps):
        examples = draw_examples(
            tokenizer, Random(f"{recipe.seed}:{step}"), recipe.tokens_per_step, share_at(step, recipe)
        )
        loss = take_step(model, optimizers, examples, recipe, step)
        tokens += sum(len(e.ids) for e in examples)
        seconds = time.monotonic() - began
        with log.open("a") as file:
            file.write(
                json.dumps({"step": step, "loss": round(loss, 4), "tokens": tokens, "seconds": round(seconds)}) + "\n"
            )
        if (step + 1) % save_every == 0 or step + 1 == recipe.steps:
            save_checkpoint(folder, model, optimizers, {"step": step + 1, "tokens": tokens, "loss": loss})
            print(f"step {step + 1} of {recipe.steps}, loss {loss:.3f}, {seconds / 60:.0f} minutes", flush=True)


def mean_loss(log: Path, num: int = 100) -> float:
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()[-num:]]
    return sum(losses) / len(losses)


def export(work: Path, folder: Path, recipe: Recipe) -> None:
    """The work folder's last checkpoint as a Hugging Face folder with its card."""
    from rlx.model.card import write_card

    tokenizer = prepare_tokenizer(work, recipe)
    model: Any = make_model(recipe.seed, end_id(tokenizer))
    progress = load_checkpoint(work, model, make_optimizers(model, recipe))
    model.eval().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    facts = {**progress, "shape": SHAPE, "recipe": vars(recipe), "loss": mean_loss(work / "log.jsonl")}
    write_card(folder, model, tokenizer, facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("outputs/nano"), help="checkpoints and log")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the finished model's folder")
    for name, default in vars(Recipe()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    words = vars(parser.parse_args())
    torch.set_num_threads(1)
    work, out = words.pop("work"), words.pop("out")
    recipe = Recipe(**words)
    pretrain(work, recipe)
    export(work, out, recipe)


if __name__ == "__main__":
    main()
