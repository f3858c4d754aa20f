"""Measure nano on held-out items, and write its model card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from rlx.env.countdown.countdown import Countdown
from rlx.protocol.tags import Tags
from scripts.nano.corpus import VERDICT, Example, encode
from scripts.nano.packed import pack, predict, weigh_loss
from scripts.nano.skills import SKILLS
from scripts.nano.skills.lesson import ANSWER, Document, Lesson, is_held_out
from scripts.nano.traces import write_trace

GOOD = 0.95
"""Share right from which a lesson is learned."""


@dataclass(frozen=True, kw_only=True)
class LessonScore:
    """Score of one lesson: the share of held-out items that greedy decoding answers right, to the last token."""

    skill: str
    lesson: str
    by_size: Mapping[int, tuple[int, int]]
    """Number of right items and of all items, by size."""
    harder: float
    """Share of right items at a size that is never trained on."""

    @property
    def num(self) -> int:
        return sum(num for _, num in self.by_size.values())

    @property
    def accuracy(self) -> float:
        return sum(right for right, _ in self.by_size.values()) / self.num


def held_out_documents(lesson: Lesson, size: int, num: int) -> list[Document]:
    """Distinct documents about items that training never drew, as far as the lesson has so many."""
    rng = Random(f"card:{lesson.name}:{size}")
    documents: dict[str, Document] = {}
    for _ in range(80 * num):
        document = lesson.draw(rng, size)
        if is_held_out(document):
            documents.setdefault("".join(segment.text for segment in document), document)
        if len(documents) == num:
            break
    return list(documents.values())


def held_out_by_size(lesson: Lesson, num: int) -> dict[int, list[Document]]:
    """Draw documents as training does: the lesson's list of sizes gives the frequency of each size."""
    each = ceil(num / len(lesson.sizes))
    return {s: held_out_documents(lesson, s, each * lesson.sizes.count(s)) for s in sorted(set(lesson.sizes))}


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def are_right(model: nn.Module, examples: Sequence[Example], dtype: torch.dtype = torch.float32) -> list[bool]:
    """Check each example, shortest first: all tokens of its answers, and the end, must be the likeliest.

    Exactly then greedy decoding writes these answers."""
    row = pack(examples, device_of(model))
    wrong = ((predict(model, row, dtype) != row.targets) & (row.weights >= ANSWER)).tolist()
    flags, start = [], 0
    for num, length in row.blocks:
        for index in range(num):
            flags.append(not any(wrong[start + index * length : start + (index + 1) * length]))
        start += num * length
    return flags


def score(
    model: nn.Module, tokenizer: Tokenizer, documents: Sequence[Document], dtype: torch.dtype = torch.float32
) -> tuple[int, int]:
    """Return the number of right documents and of all documents."""
    right = are_right(model, [encode(tokenizer, document) for document in documents], dtype)
    return sum(right), len(right)


def score_lesson(model: nn.Module, tokenizer: Tokenizer, skill: str, lesson: Lesson, num: int) -> LessonScore:
    sizes = held_out_by_size(lesson, num).items()
    right, num_answers = score(model, tokenizer, held_out_documents(lesson, lesson.harder, num))
    by_size = {size: score(model, tokenizer, documents) for size, documents in sizes if documents}
    return LessonScore(skill=skill, lesson=lesson.name, by_size=by_size, harder=right / max(1, num_answers))


def score_lessons(model: nn.Module, tokenizer: Tokenizer, num: int = 300) -> list[LessonScore]:
    lessons = [(name, lesson) for name, skill in SKILLS.items() for lesson in skill.lessons]
    return [score_lesson(model, tokenizer, name, lesson, num) for name, lesson in lessons]


@cache
def progress_documents(num: int) -> dict[str, list[Document]]:
    """Draw a few held-out documents per lesson."""
    lessons = [lesson for skill in SKILLS.values() for lesson in skill.lessons]
    return {lesson.name: list(chain(*held_out_by_size(lesson, num).values())) for lesson in lessons}


def score_quickly(model: nn.Module, tokenizer: Tokenizer, num: int = 40) -> dict[str, float]:
    """Score each lesson on a few items of the trained sizes."""
    shares = {}
    for name, documents in progress_documents(num).items():
        right, num_answers = score(model, tokenizer, documents, torch.bfloat16)
        shares[name] = round(right / max(1, num_answers), 3)
    return shares


def mean_by_skill(scores: Mapping[str, float]) -> dict[str, float]:
    means = {}
    for name, skill in SKILLS.items():
        means[name] = sum(scores[lesson.name] for lesson in skill.lessons) / len(skill.lessons)
    return means


def expert_examples(tokenizer: Tokenizer, num: int) -> list[Example]:
    """Expert traces on the test problems of the default Countdown."""
    env = Countdown()
    tasks = islice(env.tasks("test", 0), num)
    return [encode(tokenizer, write_trace(env, Tags(), task, seed)) for seed, task in enumerate(tasks)]


def score_verdicts(model: nn.Module, tokenizer: Tokenizer, examples: Sequence[Example]) -> tuple[int, float]:
    """Score the verdicts: is an observation the target? Return their number and the share of right ones."""
    verdicts = torch.tensor(
        [i for token, i in tokenizer.get_vocab().items() if VERDICT.search(token)],
        device=device_of(model),
    )
    row = pack(examples, device_of(model))
    is_verdict = torch.isin(row.targets, verdicts) & (row.weights > ANSWER)
    right = (predict(model, row, torch.float32) == row.targets)[is_verdict]
    return len(right), right.float().mean().item()


@torch.no_grad()
def measure_loss(model: nn.Module, examples: Sequence[Example]) -> float:
    """Mean weighted cross-entropy per token, in nats."""
    row = pack(examples, device_of(model))
    return (weigh_loss(model, row, torch.float32) / row.weights.sum()).item()


def describe_data(trace_share: float) -> str:
    """One line a skill: its share of the tokens, and an item of it."""
    lines = [f"| Countdown traces | {trace_share:.0%} | see rlx/env/countdown/traces.py |"]
    for name, skill in SKILLS.items():
        lesson = skill.lessons[0]
        text = "".join(segment.text for segment in lesson.draw(Random(7), lesson.sizes[-1]))
        example = text.replace("\n", " ⏎ ").replace("|", "\\|")
        lines.append(f"| {name} | {skill.share * (1 - trace_share):.0%} | `{example}` |")
    return "\n".join(["| text | share of tokens | such as |", "|---|---|---|", *lines])


def describe_scores(scores: Sequence[LessonScore]) -> str:
    rows = [
        f"| {s.skill} | {s.lesson} | {s.num} | {s.accuracy:.1%} | {describe_sizes(s)} | {s.harder:.1%} |"
        for s in scores
    ]
    head = ["| skill | lesson | items | right | by size | harder |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def describe_sizes(score: LessonScore) -> str:
    return ", ".join(f"{size}: {right / num:.0%}" for size, (right, num) in score.by_size.items())


def describe_progress(progress: Sequence[Mapping[str, Any]], scores: Sequence[LessonScore], num: int = 8) -> str:
    """The share right by tokens: the mean of every skill, and each lesson that ended below GOOD."""
    names = {score.lesson for score in scores}
    complete = [
        entry for entry in progress if isinstance(entry.get("lessons"), dict) and entry["lessons"].keys() >= names
    ]
    entries = complete[::-1][:: max(1, ceil(len(complete) / num))][::-1]
    missed = [s.lesson for s in scores if s.accuracy < GOOD]
    rows = {name: [mean_by_skill(entry["lessons"])[name] for entry in entries] for name in SKILLS}
    rows |= {name: [entry["lessons"][name] for entry in entries] for name in missed}
    head = "".join(f" {entry['tokens'] / 1e6:.0f}M |" for entry in entries)
    lines = [f"| {name} |" + "".join(f" {share:.0%} |" for share in shares) for name, shares in rows.items()]
    return "\n".join([f"| after tokens |{head}", "|---|" + "---|" * len(entries), *lines])


def write_card(folder: Path, model: nn.Module, tokenizer: Tokenizer, facts: dict[str, Any]) -> None:
    """README.md of the model's folder, all of it from measurements."""
    recipe = facts["recipe"]
    experts = expert_examples(tokenizer, 200)
    num_verdicts, verdicts = score_verdicts(model, tokenizer, experts)
    loss, scores = measure_loss(model, experts), score_lessons(model, tokenizer)
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    filled = template.format(
        num_parameters=f"{sum(p.numel() for p in model.parameters()):,}",
        shape=json.dumps(facts["shape"]),
        vocabulary=tokenizer.get_vocab_size(),
        recipe=json.dumps(recipe),
        tokens=f"{facts['tokens'] / 1e6:.1f}",
        steps=recipe["steps"],
        train_loss=f"{facts['loss']:.3f}",
        trace_loss=f"{loss:.3f}",
        num_verdicts=num_verdicts,
        verdicts=f"{verdicts:.1%}",
        data=describe_data(recipe["trace_share"]),
        scores=describe_scores(scores),
        progress=describe_progress(facts["progress"], scores),
    )
    (folder / "README.md").write_text(filled, encoding="utf-8")
