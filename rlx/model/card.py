"""What nano can do, measured on items it never saw, and the card that says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from rlx.env.countdown import Countdown
from rlx.model.corpus import VERDICT, Example, cut_batches, encode
from rlx.model.lessons import ANSWER, SKILLS, Document, Lesson, is_held_out
from rlx.model.traces import write_trace
from rlx.protocol.tags import Tags

# Shapes: B examples, T tokens.

TOKENS_PER_PASS = 8192


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one lesson: the share of held-out items whose whole answer is what greedy decoding says."""

    skill: str
    lesson: str
    num: int
    accuracy: float


def held_out_documents(lesson: Lesson, num: int) -> list[Document]:
    """Distinct documents about items that training never drew, as far as the lesson has so many."""
    rng = Random(f"card:{lesson.__name__}")
    found: dict[str, Document] = {}
    for _ in range(400 * num):
        document = lesson(rng)
        if is_held_out(document):
            found.setdefault("".join(segment.text for segment in document), document)
        if len(found) == num:
            break
    return list(found.values())


@torch.no_grad()
def predict(model: nn.Module, examples: Sequence[Example]) -> Iterator[tuple[Example, list[int]]]:
    """With each example, the likeliest token at every place after the first, given the true ones before it."""
    for batch in cut_batches(examples, TOKENS_PER_PASS):
        ids_BT = nn.utils.rnn.pad_sequence([torch.tensor(e.ids) for e in batch], batch_first=True)
        best_BT = model(input_ids=ids_BT, use_cache=False).logits.argmax(-1)
        yield from ((e, best_BT[row, : len(e.ids) - 1].tolist()) for row, e in enumerate(batch))


def is_right(example: Example, predicted: Sequence[int]) -> bool:
    """Whether every token of the answers, and the end, is the likeliest: just then greedy decoding says them."""
    pairs = zip(example.ids[1:], example.weights[1:], predicted, strict=True)
    return all(guess == token for token, weight, guess in pairs if weight >= ANSWER)


def score_lessons(model: nn.Module, tokenizer: Tokenizer, num: int = 300) -> list[Score]:
    scores = []
    for skill, (_, lessons) in SKILLS.items():
        for lesson in dict.fromkeys(lessons):
            examples = [encode(tokenizer, document) for document in held_out_documents(lesson, num)]
            right = [is_right(*pair) for pair in predict(model, examples)]
            name = lesson.__name__.replace("_", " ")
            scores.append(Score(skill=skill, lesson=name, num=len(right), accuracy=sum(right) / len(right)))
    return scores


def expert_examples(tokenizer: Tokenizer, num: int) -> list[Example]:
    """Expert traces on the test problems of the default Countdown."""
    env = Countdown()
    tasks = islice(env.tasks("test", 0), num)
    return [encode(tokenizer, write_trace(env, Tags(), task, seed)) for seed, task in enumerate(tasks)]


def score_verdicts(model: nn.Module, tokenizer: Tokenizer, num: int = 200) -> tuple[int, float]:
    """How often the model says rightly whether an observation is the target, in expert traces on test problems."""
    verdicts = {i for token, i in tokenizer.get_vocab().items() if VERDICT.search(token)}
    right = [
        guess == token
        for example, predicted in predict(model, expert_examples(tokenizer, num))
        for token, weight, guess in zip(example.ids[1:], example.weights[1:], predicted, strict=True)
        if token in verdicts and weight > ANSWER
    ]
    return len(right), sum(right) / len(right)


@torch.no_grad()
def measure_loss(model: nn.Module, examples: Sequence[Example]) -> float:
    """Mean weighted cross-entropy per token, in nats."""
    from rlx.model.pretrain import weigh_loss

    total = sum(sum(example.weights[1:]) for example in examples)
    return sum(float(weigh_loss(model, batch)) for batch in cut_batches(examples, TOKENS_PER_PASS)) / total


def describe_data(trace_share: float) -> str:
    """One line a skill: its share of the documents at first, and an item of it."""
    lines = [f"| Countdown traces | {trace_share:.0%} | see rlx/env/countdown_traces.py |"]
    for skill, (share, lessons) in SKILLS.items():
        text = "".join(segment.text for segment in lessons[0](Random(7))).replace("\n", " ⏎ ").replace("|", "\\|")
        lines.append(f"| {skill} | {share * (1 - trace_share):.0%} | `{text}` |")
    return "\n".join(["| text | share of documents | such as |", "|---|---|---|", *lines])


def describe_scores(scores: Sequence[Score]) -> str:
    rows = [f"| {s.skill} | {s.lesson} | {s.num} | {s.accuracy:.1%} |" for s in scores]
    return "\n".join(["| skill | lesson | held-out items | right |", "|---|---|---|---|", *rows])


def write_card(folder: Path, model: nn.Module, tokenizer: Tokenizer, facts: dict[str, Any]) -> None:
    """README.md of the model's folder, all of it from measurements."""
    recipe = facts["recipe"]
    num_verdicts, verdicts = score_verdicts(model, tokenizer)
    loss = measure_loss(model, expert_examples(tokenizer, 200))
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    filled = template.format(
        num_parameters=f"{sum(p.numel() for p in model.parameters()):,}",
        shape=json.dumps(facts["shape"]),
        vocabulary=tokenizer.get_vocab_size(),
        recipe=json.dumps(recipe),
        tokens=f"{facts['tokens'] / 1e6:.1f}",
        late_step=recipe["late_step"],
        late_share=f"{recipe['late_trace_share']:.0%}",
        steps=recipe["steps"],
        train_loss=f"{facts['loss']:.3f}",
        trace_loss=f"{loss:.3f}",
        num_verdicts=num_verdicts,
        verdicts=f"{verdicts:.1%}",
        data=describe_data(recipe["trace_share"]),
        scores=describe_scores(score_lessons(model, tokenizer)),
    )
    (folder / "README.md").write_text(filled, encoding="utf-8")
