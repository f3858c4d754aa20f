"""Symbols: how many of one there are in a row, and a row said again and again.

How many # are in # @ % # @?     2          count(@; # @ % # @) = ?     2
Say # @ 3 times.     # @ # @ # @
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from rlx.base.limits import refuse, within
from rlx.env.calc.calc_question import CalcQuestions, NumberQuestions
from rlx.env.questions.question import Question
from rlx.types import Task

SYMBOLS = "@#$%&*+!~^"
LONGEST = 1000


def refuse_symbols(symbols: str) -> None:
    if (
        len(symbols) < 2
        or len(set(symbols)) < len(symbols)
        or any(symbol.isspace() or symbol in ":;?." for symbol in symbols)
    ):
        refuse("symbols", symbols, "two or more characters, each once, and none a blank or one of : ; ? .")


@dataclass(frozen=True, kw_only=True)
class Count(NumberQuestions):
    """The reward is 1 for how many there are."""

    symbols: str = SYMBOLS
    """Symbols of the rows; each question has two to four of them."""
    length: int = 20
    """Largest number of symbols in a row."""
    words: float = 0.9
    """Share of questions in words; the others are a formula."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_symbols(self.symbols)
        within(2, LONGEST, length=self.length)
        within(0.0, 1.0, words=self.words)

    @property
    def stream(self) -> str:
        return "calc/count"

    def draw(self, rng: Random) -> Question:
        several = rng.sample(self.symbols, min(len(self.symbols), rng.randint(2, 4)))
        row, wanted = rng.choices(several, k=rng.randint(2, self.length)), rng.choice(several)
        row_text, number = " ".join(row), row.count(wanted)
        identity = f"{wanted}: {row_text}"
        in_words = Random(f"{self.stream}/{identity}").random() < self.words
        return Question(
            text=f"How many {wanted} are in {row_text}?" if in_words else f"count({wanted}; {row_text}) = ?",
            identity=identity,
            key={"answer": str(number), "length": len(row)},
            answer=str(number),
            worked="".join(f"{wanted} {index}, " for index in range(1, number + 1)) + "so",
        )

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: any number from 0 to all."""
        numbers = range(task.data["key"]["length"] + 1)
        rng = Random(f"{self.stream}/random/{seed}/{task.id}")
        return [str(number) for number in rng.sample(numbers, min(num, len(numbers)))]


@dataclass(frozen=True, kw_only=True)
class Repeat(CalcQuestions):
    """The reward is 1 for all of it, and nothing else, blanks aside."""

    symbols: str = SYMBOLS
    """Symbols that rows are made of."""
    length: int = 3
    """Largest number of symbols in a row."""
    times: int = 20
    """Largest number of repetitions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_symbols(self.symbols)
        within(1, LONGEST, length=self.length, times=self.times)

    @property
    def stream(self) -> str:
        return "calc/repeat"

    def draw(self, rng: Random) -> Question:
        row, times = rng.choices(self.symbols, k=rng.randint(1, self.length)), rng.randint(1, self.times)
        row_text = " ".join(row)
        how = "once" if times == 1 else f"{times} times"
        answer = " ".join(row * times)
        return Question(text=f"Say {row_text} {how}.", key={"answer": answer}, answer=answer)

    def is_right(self, key: Any, text: str) -> bool:
        return "".join(final(text).split()) == "".join(key["answer"].split())


def final(text: str) -> str:
    """Return the answer in a text: the last line, without the part up to its last colon."""
    lines = text.strip().splitlines()
    return lines[-1].rpartition(":")[2].strip() if lines else ""
