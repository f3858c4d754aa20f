"""Build nano from nothing: `python -m scripts.nano`.

Deterministic by seed on one kind of machine, and resumable: the text of step k is drawn from (seed, k) alone. Hidden
matrices move by Muon, embeddings, biases and norms by AdamW. The learning rate ends at zero.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite, nan
from pathlib import Path
from typing import Any, NoReturn

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from rlx.base.console import hang, one_line
from rlx.base.limits import MistakeError, refuse, within
from rlx.base.regular import write_aside
from rlx.model.load import SHIPPED as PACKAGED
from rlx.model.problem import ModelError
from rlx.runs.folder import FolderError, digest_of, hold_folder, make_folder
from rlx.runs.track import is_number, read_metrics, truncate_metrics
from scripts.nano.checkpoint import load_checkpoint, name_bits, name_machine, require_fitting, save_checkpoint
from scripts.nano.corpus import Corpus, Example, make_corpus, tokenizer_texts
from scripts.nano.drawing import Order, draw_all, draw_text
from scripts.nano.packed import pack, weigh_loss
from scripts.nano.recipe import NanoRecipe, make_model, make_optimizers, make_shape, scale_rate
from scripts.nano.shards import (
    SHARDS,
    flatten_gradients,
    joined,
    mean_of_shards,
    shards_of,
    spread_gradients,
    start_others,
)
from scripts.nano.tokenizer import END, VOCABULARY, end_id, save_tokenizer, train_tokenizer

SHIPPED = PACKAGED / "nano"
PREFIX = 200
"""Steps that a test builds again."""
MOST_DRAWERS = 256


@dataclass(frozen=True, kw_only=True)
class Training:
    """All that a step needs."""

    recipe: NanoRecipe
    corpus: Corpus
    model: nn.Module
    optimizers: list[torch.optim.Optimizer]
    device: torch.device


def start_training(tokenizer: Tokenizer, recipe: NanoRecipe, device: str = "cpu") -> Training:
    model = make_model(recipe, end_id(tokenizer)).to(device)
    return Training(
        recipe=recipe,
        corpus=make_corpus(tokenizer),
        model=model,
        optimizers=make_optimizers(model, recipe),
        device=torch.device(device),
    )


def order_text(recipe: NanoRecipe, step: int, shard: int) -> Order:
    return Order(
        seed=f"{recipe.seed}:{step}:{shard}",
        num_tokens=recipe.tokens_per_step // SHARDS,
        trace_share=recipe.trace_share,
    )


def take_gradient(training: Training, examples: Sequence[Example]) -> Tensor:
    """Return the gradient of one shard, followed by its mean loss and its number of tokens."""
    row = pack(examples, training.device)
    loss = weigh_loss(training.model, row) / row.weights.sum()
    loss.backward()
    facts = torch.stack((loss.detach(), loss.new_tensor(sum(len(e.ids) for e in examples))))
    return torch.cat((flatten_gradients(training.model), facts))


def take_step(training: Training, gradient: Tensor, step: int) -> None:
    spread_gradients(training.model, gradient)
    nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
    for optimizer in training.optimizers:
        for group in optimizer.param_groups:
            group.setdefault("peak", group["lr"])
            group["lr"] = group["peak"] * scale_rate(step, training.recipe)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def prepare_tokenizer(folder: Path, recipe: NanoRecipe) -> Tokenizer:
    """Return the shipped tokenizer, or train a tokenizer if none is shipped. The shipped tokenizer stays the same when
    lessons change, because models and stored runs use it."""
    path = folder / "tokenizer" / "tokenizer.json"
    if not path.exists():
        shipped_file = SHIPPED / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(
            path, shipped_file.read_text(encoding="utf-8") if shipped_file.exists() else make_tokenizer(recipe).to_str()
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package has no other kind
        raise ModelError(f"{path} cannot be read ({one_line(str(error), 100)}): remove it to begin anew") from None
    if tokenizer.token_to_id(END) is None or tokenizer.get_vocab_size() > VOCABULARY:
        raise ModelError(f"{path} is not nano's tokenizer, of {VOCABULARY} tokens with {END}: remove it to begin anew")
    return tokenizer


def made_by(recipe: NanoRecipe, tokenizer: Tokenizer) -> dict[str, object]:
    """All that the bits of a checkpoint depend on, beside the machine."""
    return {**vars(recipe), "tokenizer": digest_of(tokenizer.to_str())}


def make_tokenizer(recipe: NanoRecipe) -> Tokenizer:
    return train_tokenizer(tokenizer_texts(recipe.seed))


def say_needs(training: Training, progress: Mapping[str, float], processes: int) -> None:
    """Print the time that is left, from one shard's gradient timed on this machine. Changes nothing."""
    recipe, step = training.recipe, int(progress["step"])
    if step == recipe.steps:
        return
    for _ in range(2):
        began = time.monotonic()
        take_gradient(training, draw_text(training.corpus, order_text(recipe, step, 0))).cpu()
    seconds = (time.monotonic() - began) * SHARDS / processes * (recipe.steps - step)
    sizes = f"{recipe.steps} steps of {recipe.tokens_per_step} tokens, {step} of them done"
    time_left = f"about {timedelta(seconds=round(seconds))} more on {processes} of this machine's cores"
    print(
        *hang("", f"{sizes}: {time_left}, and a minute or two each time its skills are measured"), sep="\n", flush=True
    )


def show_progress(folder: Path, training: Training, facts: Mapping[str, float]) -> None:
    """A line of skills by tokens, printed and kept."""
    from scripts.nano.card import mean_by_skill, score_quickly

    steps, step = training.recipe.steps, int(facts["step"])
    lessons = score_quickly(training.model, training.corpus.tokenizer)
    left = timedelta(seconds=round(facts["seconds"] / step * (steps - step)))
    shares = " ".join(f"{name} {share:.0%}" for name, share in mean_by_skill(lessons).items())
    text = f"step {step} of {steps}, {facts['tokens'] / 1e6:.1f}M tokens, loss {facts['loss']:.3f}"
    print(*hang("", f"{text}, {shares}, {left} left"), sep="\n", flush=True)
    with (folder / "skills.jsonl").open("a") as file:
        file.write(json.dumps({**facts, "lessons": lessons}) + "\n")


def pretrain(
    folder: Path,
    recipe: NanoRecipe,
    *,
    processes: int = 1,
    rank: int = 0,
    drawers: int = 0,
    device: str = "cpu",
    save_every: float = 240,
    show_every: int = 500,
) -> None:
    """Run the recipe, or go on with it, in a folder of its checkpoint and log; saved every so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    training = start_training(prepare_tokenizer(folder, recipe), recipe, device)
    progress = load_checkpoint(folder, training.model, training.optimizers)
    if rank == 0:
        truncate_metrics(folder / "log.jsonl", int(progress["step"]) - 1)
        truncate_metrics(folder / "skills.jsonl", int(progress["step"]))
        say_needs(training, progress, processes)
    saved = time.monotonic()
    with joined(folder, rank, processes):
        for facts in run_steps(training, progress, processes, rank, drawers):
            if rank:
                continue
            with (folder / "log.jsonl").open("a") as file:
                file.write(json.dumps({**facts, "step": facts["step"] - 1, "seconds": round(facts["seconds"])}) + "\n")
            if facts["step"] == PREFIX:
                write_prefix(folder, training.model)
            ends = facts["step"] == recipe.steps
            if facts["step"] % show_every == 0 or ends:
                show_progress(folder, training, facts)
            if time.monotonic() - saved > save_every or ends:
                origin = made_by(recipe, training.corpus.tokenizer)
                save_checkpoint(folder, training.model, training.optimizers, facts, origin)
                saved = time.monotonic()


def write_prefix(folder: Path, model: nn.Module) -> None:
    """Write a digest of the first steps' weights on this kind of machine, for a test that builds them again."""
    facts = {"steps": PREFIX, "weights": {name_machine(): name_bits(model)}}
    write_aside(folder / "prefix.json", json.dumps(facts, indent=2) + "\n")


def run_steps(
    training: Training, progress: Mapping[str, float], processes: int = 1, rank: int = 0, drawers: int = 0
) -> Iterator[dict[str, float]]:
    """Step by step: how many are done, tokens, loss, seconds."""
    tokens, began = int(progress["tokens"]), time.monotonic() - progress["seconds"]
    steps, shards = range(int(progress["step"]), training.recipe.steps), shards_of(rank, processes)
    texts = draw_all(training.corpus, (order_text(training.recipe, t, s) for t in steps for s in shards), drawers)
    for step in steps:
        gradients = [take_gradient(training, next(texts)) for _ in shards]
        mean = mean_of_shards(gradients, processes)
        take_step(training, mean[:-2], step)
        loss, num = mean[-2:].tolist()
        if not isfinite(loss):
            raise ModelError(f"step {step + 1}: the loss is {loss}: choose a lower matrix_lr or vector_lr")
        tokens += round(num * SHARDS)
        yield {"step": step + 1, "tokens": tokens, "loss": round(loss, 4), "seconds": time.monotonic() - began}


def mean_loss(log: Path, num: int = 100) -> float:
    """Return the mean loss of the last steps; nan without a log."""
    losses = [line["loss"] for line in read_metrics(log)[-num:] if is_number(line.get("loss"))]
    return sum(losses) / len(losses) if losses else nan


def export(work: Path, folder: Path, recipe: NanoRecipe) -> None:
    """The work folder's last checkpoint as a Hugging Face folder with its card: in bfloat16, which is all that the
    training's own products saw of the weights, at half the size."""
    from scripts.nano.card import write_card

    tokenizer = prepare_tokenizer(work, recipe)
    model: Any = make_model(recipe, end_id(tokenizer))
    progress = load_checkpoint(work, model, make_optimizers(model, recipe))
    model.eval().to(torch.bfloat16).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    (folder / "prefix.json").unlink(missing_ok=True)
    if (work / "prefix.json").exists():
        shutil.copy(work / "prefix.json", folder)
    facts = {**progress, "shape": make_shape(recipe), "recipe": vars(recipe), "loss": mean_loss(work / "log.jsonl")}
    write_card(folder, model.float(), tokenizer, {**facts, "progress": read_metrics(work / "skills.jsonl")})


def run_rank(work: Path, recipe: NanoRecipe, processes: int, drawers: int, device: str, rank: int) -> None:
    torch.set_num_threads(1)
    pretrain(work, recipe, processes=processes, drawers=drawers, device=device, rank=rank)


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{one_line(message)}; --help tells all words\n")


def make_parser() -> Parser:
    parser = Parser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("outputs/nano"), help="checkpoints and log")
    parser.add_argument(
        "--out", type=Path, help="the finished model's folder: the package's own, or of another recipe WORK/model"
    )
    parser.add_argument(
        "--processes", type=int, default=1, choices=(1, 2), help="of a core each; the bits are the same"
    )
    parser.add_argument("--drawers", type=int, default=0, help="processes that draw text ahead, for a GPU")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; the bits are a device's own")
    for name, default in vars(NanoRecipe()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser


def check_means(processes: int, drawers: int, device: str) -> None:
    within(0, MOST_DRAWERS, drawers=drawers)
    if drawers and processes > 1:
        refuse("drawers", drawers, "0 beside --processes 2, each of which draws its own text")
    devices = ("cpu", *(["cuda"] if torch.cuda.is_available() else []))
    if device not in devices:
        refuse("device", device, f"one of {', '.join(devices)} on this machine")


def check_folders(work: Path, out: Path, recipe: NanoRecipe) -> None:
    """Check that the work folder can be resumed and that the result can be written."""
    make_folder(out)
    if not os.access(out, os.W_OK):
        raise FolderError(f"{out} cannot be written to: choose another --out")
    tokenizer = prepare_tokenizer(work, recipe)
    require_fitting(work, make_model(recipe, end_id(tokenizer)), made_by(recipe, tokenizer))


def main() -> None:
    parser = make_parser()
    words = vars(parser.parse_args())
    work, out, processes = (words.pop(name) for name in ("work", "out", "processes"))
    drawers, device = (words.pop(name) for name in ("drawers", "device"))
    try:
        recipe = NanoRecipe(**words)
        check_means(processes, drawers, device)
    except ValueError as error:
        parser.exit(2, f"{one_line(str(error))}\n")
    out = out or (SHIPPED if recipe == NanoRecipe() else work / "model")
    try:
        with hold_folder(work, "choose another --work"):
            check_folders(work, out, recipe)
            start_others(work, processes, run_rank, (work, recipe, processes, drawers, device))
            run_rank(work, recipe, processes, drawers, device, 0)
            export(work, out, recipe)
    except (MistakeError, FolderError, OSError) as error:
        parser.exit(2, f"{one_line(str(error), 600)}\n")


if __name__ == "__main__":
    main()
