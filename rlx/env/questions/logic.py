"""Questions of logic: does a statement follow from facts and rules in invented words? As in RuleTaker (Clark et al.
2020, arXiv:2002.05867). Answers are exact, by forward chaining.

    Bazu is lomi. If someone is lomi then they are puda. ... Is it true that Bazu is puda?  ->  yes

The depth of a question is the number of rules, one after the other, that its proof needs. Where the answer rests on
something that does not follow, it would follow at that depth, were one fact of the proof not missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import NamedTuple

from rlx.base.limits import refuse, within
from rlx.env.questions.question import DrawnQuestions, Question, end_judged
from rlx.env.questions.wording import normal
from rlx.types import Step, Task

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aiou"
MEANINGS = {"yes": "yes", "true": "yes", "no": "no", "false": "no"}
DEEPEST = 20
"""Rules in a row, at most."""

Fact = tuple[str, str]
"""Someone, and what they are."""


class Rule(NamedTuple):
    """Whoever is all of `body` is `head`."""

    body: tuple[str, ...]
    head: str


@dataclass(frozen=True, kw_only=True)
class Logic(DrawnQuestions):
    """The reward is 1 for the right one of yes and no."""

    depths: tuple[int, ...] = (0, 1, 2, 3)
    """Number of chained rules that a question needs: one of these, drawn evenly."""
    num_distractors: int = 4
    """Number of irrelevant facts, and of irrelevant rules."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "depths", tuple(self.depths))
        if not self.depths or not all(0 <= depth <= DEEPEST for depth in self.depths):
            refuse("depths", list(self.depths), f"integers from 0 to {DEEPEST}, at least one")
        within(0, 50, num_distractors=self.num_distractors)

    @property
    def stream(self) -> str:
        return "logic"

    def draw(self, rng: Random) -> Question:
        depth, follows, is_denied = rng.choice(self.depths), rng.random() < 0.5, rng.random() < 0.5
        while True:
            theory, missing = draw_theory(rng, depth, self.num_distractors)
            complete_theory = replace(theory, facts=sorted({*theory.facts, missing}))
            if complete_theory.chain().get(theory.goal) == depth and theory.goal not in theory.chain():
                return ask(rng, complete_theory if follows else theory, follows, is_denied, depth)

    def judge(self, task: Task, text: str) -> Step:
        key = task.data["key"]
        right = float(MEANINGS.get(normal(text)) == key["answer"])
        return end_judged(right, metrics={f"depth_{key['depth']}": right})

    def unanswered(self, task: Task) -> Mapping[str, float]:
        return {f"depth_{task.data['key']['depth']}": 0.0}

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: a coin, thrown each time."""
        rng = Random(f"logic/random/{seed}/{task.id}")
        return [rng.choice(("yes", "no")) for _ in range(num)]


@dataclass(frozen=True, kw_only=True)
class Theory:
    facts: Sequence[Fact]
    rules: Sequence[Rule]
    goal: Fact
    """Fact that the question is about."""

    def chain(self) -> dict[Fact, int]:
        """All that follows, each with the fewest rules in a row that lead to it."""
        depths, depth = dict.fromkeys(self.facts, 0), 0
        while new := {fact for fact in self.next(depths) if fact not in depths}:
            depth += 1
            depths |= dict.fromkeys(sorted(new), depth)
        return depths

    def next(self, facts: Mapping[Fact, int]) -> Iterator[Fact]:
        """Yield the facts that one application of a rule adds."""
        for rule in self.rules:
            for person in {person for person, _ in facts}:
                if all((person, word) in facts for word in rule.body):
                    yield person, rule.head


def draw_theory(rng: Random, depth: int, num_distractors: int) -> tuple[Theory, Fact]:
    """A proof of `depth` rules among others, without the fact that is given beside it: it is said of another person."""
    words = draw_words(rng, depth + 12 + 2 * max(0, num_distractors - 8))  # with few words for many rules all follows
    people, chained, others = [word.capitalize() for word in words[:3]], words[3 : depth + 4], words[depth + 4 :]
    leaves, rules = [chained[0]], []
    for word, head in pairwise(chained):
        beside = rng.sample(others, rng.randint(0, 1))
        leaves += beside
        rules.append(Rule(tuple(rng.sample([word, *beside], 1 + len(beside))), head))
    for _ in range(num_distractors):
        head, *body = rng.sample([*others, *chained[1:]], rng.randint(2, 3))
        rules.append(Rule(tuple(body), head))
    missing = rng.choice(leaves)
    facts = {(people[0], word) for word in (*leaves, rng.choice(others)) if word != missing}
    facts |= {(rng.choice(people), rng.choice(others)) for _ in range(num_distractors)}
    theory = Theory(facts=sorted({*facts, (people[1], missing)}), rules=rules, goal=(people[0], chained[-1]))
    return theory, (people[0], missing)


def ask(rng: Random, theory: Theory, follows: bool, is_denied: bool, depth: int) -> Question:
    sentences = [*map(tell, theory.facts), *map(spell, theory.rules)]
    story = " ".join(rng.sample(sentences, len(sentences)))
    statement = f"{theory.goal[0]} is {'not ' * is_denied}{theory.goal[1]}"
    answer = "yes" if follows != is_denied else "no"
    text = f"{story}\nWhat does not follow is not so.\nQuestion: Is it true that {statement}? Answer yes or no."
    return Question(text=text, key={"answer": answer, "depth": depth}, answer=answer, worked=show(theory))


def show(theory: Theory) -> str:
    """Write the facts about the subject of the question, then those that follow, until the question is settled."""
    name, goal = theory.goal
    depths = {word: depth for (person, word), depth in theory.chain().items() if person == name}
    last = depths.get(goal, DEEPEST + 1)
    used = [word for word, depth in depths.items() if depth < last or word == goal]
    sentences = [f"So {name} is {word}." if depths[word] else f"{name} is {word}." for word in used]
    return " ".join([*sentences, *([] if goal in depths else [f"It does not follow that {name} is {goal}."])])


def tell(fact: Fact) -> str:
    return f"{fact[0]} is {fact[1]}."


def spell(rule: Rule) -> str:
    return f"If someone is {' and '.join(rule.body)} then they are {rule.head}."


def draw_words(rng: Random, num: int) -> list[str]:
    """Different words of two syllables, which mean nothing."""
    words: dict[str, None] = {}
    while len(words) < num:
        words["".join(rng.choice(letters) for letters in (CONSONANTS, VOWELS) * 2)] = None
    return list(words)
