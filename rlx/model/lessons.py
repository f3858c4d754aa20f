"""What nano is taught beside Countdown: short seeded documents, each a question and its answer.

A lesson is `Callable[[random.Random], Document]`. A document is a tuple of segments, encoded one by one just as
prompts, completions and observations are at run time; a segment's weight says how much its tokens count in the loss
(a question's random numbers cannot be predicted, so they count little). The first segment names the item: held-out
items are told by its hash.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from random import Random

from rlx.model.skills.lesson import ANSWER, QUESTION, Document, Segment, ask, is_held_out, split_words
from rlx.model.skills.numbers import OPERATORS, draw_expression
from rlx.model.skills.order import find_swaps

__all__ = ["ANSWER", "QUESTION", "SKILLS", "Document", "Lesson", "Segment", "find_swaps", "is_held_out"]

Lesson = Callable[[Random], Document]


NAMES = split_words("Anna Ben Carl Dora Emil Fay Gus Hana Ivan Jane Karl Lena Max Nina Omar Pia Rosa Sam Tom Vera")
PLACES = split_words("kitchen garden office school park library market station museum cellar attic harbour")
THINGS = split_words("apple book lamp coin cup shoe map pen hat stone clock rope bell drum leaf")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
OBJECTS = ("ball", "box", "key", "door")
WORDS = (
    *split_words("cat dog sun moon tree river house bird fish road hand eye time day night water fire earth wind snow"),
    *split_words("compare swap calculate search access answer left right forward open close give take go stop turn"),
    *split_words("one two three four five six seven eight nine ten small large long short old new first last"),
    *THINGS,
    *PLACES,
    *COLOURS,
)
UNITS = split_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
)
TEENS = [*UNITS, "seventeen", "eighteen", "nineteen"]
TENS = ["", "", *split_words("twenty thirty forty fifty sixty seventy eighty ninety")]
NUMERALS = (*TEENS, *filter(None, TENS))
SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def show_number(value: Fraction) -> str:
    """An integer as it is, anything else to at most three decimals."""
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.3f}".rstrip("0").rstrip(".")


def say_number(value: int) -> str:
    """English for 0 to 99."""
    if value < 20:
        return TEENS[value]
    return TENS[value // 10] + (f"-{UNITS[value % 10]}" if value % 10 else "")


def draw_number(rng: Random, largest: int = 99) -> int:
    """Small numbers somewhat more often than large ones."""
    return rng.randint(1, rng.choice((9, 20, largest, largest)))


def draw_operation(rng: Random, largest: int = 99) -> tuple[int, str, int, Fraction]:
    """One step of arithmetic whose result is a whole number; differences may be negative."""
    symbol = rng.choice("++--***/")
    a, b = draw_number(rng, largest), draw_number(rng, largest)
    if symbol == "*" and a > 12 and b > 20 and rng.random() < 0.7:
        a = rng.randint(1, 12)
    if symbol == "-" and a < b and rng.random() < 0.8:
        a, b = b, a
    if symbol == "/":
        a *= b
    return a, symbol, b, OPERATORS[symbol](Fraction(a), Fraction(b))


def do_arithmetic(rng: Random) -> Document:
    a, symbol, b, result = draw_operation(rng, rng.choice((20, 99, 99, 99, 999)))
    question = f"{a} {symbol} {b} = "
    return ask(question, show_number(result))


def speak_arithmetic(rng: Random) -> Document:
    a, symbol, b = draw_number(rng, 40), rng.choice("+-*"), draw_number(rng, 40)
    words = f"{say_number(a)} {SPOKEN[symbol]} {say_number(b)}"
    return ask(f"What is {words}? ", f"{a} {symbol} {b} = {OPERATORS[symbol](Fraction(a), Fraction(b))}")


def draw_valued(rng: Random, num_numbers: int, largest: int) -> tuple[list[int], str, Fraction]:
    while True:
        numbers = [rng.randint(1, largest) for _ in range(num_numbers)]
        drawn = draw_expression(rng, numbers)
        if drawn is not None and abs(drawn[1]) < 10_000:
            return numbers, *drawn


def evaluate_expression(rng: Random) -> Document:
    _, text, value = draw_valued(rng, rng.choice((2, 3, 3, 4)), rng.choice((20, 99)))
    return ask(f"{text} = ", show_number(value))


def approach_target(rng: Random) -> Document:
    """One step back from a target: which operation on the number given leads there."""
    a, symbol, b, result = draw_operation(rng)
    return ask(f"Make {show_number(result)} from {a}: ", f"{a} {symbol} {b}")


def judge_equality(rng: Random) -> Document:
    """The verdict of a tool trace, with near misses as common as plain ones."""
    target = rng.randint(1, 199)
    near = (target + rng.choice((-10, -2, -1, 1, 2, 10, 100)), int(str(target)[::-1]), target * 10)
    seen = rng.choice((target, target, rng.choice(near), rng.randint(-20, 400)))
    sign, verdict = ("==", "it exactly equals") if seen == target else ("!=", "it does not match")
    head = f"The target is {target}.\nThe observation is {seen}. "
    return (Segment(head, QUESTION), Segment(f"Since {seen} {sign} {target}, {verdict} the target.", ANSWER))


def draw_items(rng: Random, num_items: int) -> list[str]:
    """Names, or letters that are no run from A: the sorting environment's own items are never drawn as a set."""
    if rng.random() < 0.3:
        return rng.sample(NAMES, num_items)
    while True:
        letters = rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", num_items)
        if max(letters) > chr(ord("A") + num_items + 1):
            return letters


def compare_numbers(rng: Random) -> Document:
    a, b = draw_number(rng, 999), draw_number(rng, 999)
    return ask(f"compare {a} {b}: ", f"{a} {'<' if a < b else '>' if a > b else '='} {b}")


def order_numbers(rng: Random) -> Document:
    items = draw_items(rng, rng.randint(2, 6))
    values = dict(zip(items, rng.sample(range(1, 100), len(items)), strict=True))
    given = ", ".join(f"{item} = {value}" for item, value in values.items())
    return ask(f"{given}. order: ", " < ".join(sorted(items, key=values.__getitem__)))


def draw_comparison(rng: Random, low: str, high: str) -> str:
    return f"{low} < {high}" if rng.random() < 0.5 else f"{high} > {low}"


def name_order(rng: Random) -> Document:
    """From some comparisons that settle it (every neighbouring pair, and a few more), the order."""
    items = draw_items(rng, rng.randint(2, 6))
    pairs = list(pairwise(items))
    for _ in range(rng.randint(0, 2)):
        low, high = sorted(rng.sample(items, 2), key=items.index)
        pairs.append((low, high))
    rng.shuffle(pairs)
    given = ", ".join(draw_comparison(rng, low, high) for low, high in pairs)
    return ask(f"Given {given}. order: ", " < ".join(items))


def infer_comparison(rng: Random) -> Document:
    """What the comparisons seen so far say of two more items, or which pair is still open."""
    items = draw_items(rng, rng.randint(3, 5))
    pairs = list(pairwise(items))
    rng.shuffle(pairs)
    given = ", ".join(draw_comparison(rng, low, high) for low, high in pairs)
    a, b = rng.sample(items, 2)
    return ask(f"Given {given}. compare {a} {b}: ", f"{a} {'<' if items.index(a) < items.index(b) else '>'} {b}")


def find_extreme(rng: Random) -> Document:
    items = draw_items(rng, rng.randint(2, 6))
    pairs = list(pairwise(items))
    rng.shuffle(pairs)
    given = ", ".join(draw_comparison(rng, low, high) for low, high in pairs)
    word, answer = rng.choice((("smallest", items[0]), ("largest", items[-1])))
    return ask(f"Given {given}. Which is {word}? ", answer)


def name_swaps(rng: Random) -> Document:
    items = draw_items(rng, rng.randint(2, 5))
    wanted = sorted(items) if rng.random() < 0.7 else rng.sample(items, len(items))
    swaps = find_swaps(items, wanted)
    answer = ", ".join(f"swap {a} {b}" for a, b in swaps) or "sorted"
    return ask(f"Now {' < '.join(items)}. Want {' < '.join(wanted)}: ", answer)


def follow_swap(rng: Random) -> Document:
    items = draw_items(rng, rng.randint(2, 5))
    a, b = rng.sample(items, 2)
    after = [b if item == a else a if item == b else item for item in items]
    return ask(f"Now {' < '.join(items)}. swap {a} {b}: ", " < ".join(after))


def draw_words(rng: Random, low: int, high: int) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(low, high))]


def repeat_words(rng: Random) -> Document:
    text = " ".join(draw_words(rng, 1, 6))
    return ask(f"Repeat: {text}\n", text)


def reverse_words(rng: Random) -> Document:
    words = draw_words(rng, 2, 5)
    return ask(f"Reverse: {' '.join(words)}\n", " ".join(reversed(words)))


def reverse_letters(rng: Random) -> Document:
    letters = [rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 6))]
    return ask(f"Reverse: {' '.join(letters)}\n", " ".join(reversed(letters)))


def spell_word(rng: Random) -> Document:
    word = rng.choice(WORDS) if rng.random() < 0.5 else "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=4))
    return ask(f"Spell: {word}\n", " ".join(word))


def raise_case(rng: Random) -> Document:
    word = rng.choice(WORDS) if rng.random() < 0.5 else "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=4))
    return ask(f"Uppercase: {word}\n", word.upper())


def count_symbols(rng: Random) -> Document:
    alphabet = rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", rng.randint(2, 4))
    symbols = [rng.choice(alphabet) for _ in range(rng.randint(2, 12))]
    wanted = rng.choice(alphabet)
    return ask(f"How many {wanted} are in {' '.join(symbols)}? ", str(symbols.count(wanted)))


def count_words(rng: Random) -> Document:
    words = draw_words(rng, 1, 9)
    return ask(f"How many words: {' '.join(words)}\n", str(len(words)))


def draw_facts(rng: Random) -> tuple[list[str], list[tuple[str, str]]]:
    """Sentences about different people, and a question with its answer for each."""
    facts, questions = [], []
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        kind = rng.randrange(3)
        place, thing, colour = rng.choice(PLACES), rng.choice(THINGS), rng.choice(COLOURS)
        facts.append((f"{name} is in the {place}.", f"{name} has a {thing}.", f"{name} likes {colour}.")[kind])
        question = (f"Where is {name}?", f"What does {name} have?", f"Which colour does {name} like?")[kind]
        questions.append((question, (place, thing, colour)[kind]))
    return facts, questions


def read_passage(rng: Random) -> Document:
    facts, questions = draw_facts(rng)
    question, answer = rng.choice(questions)
    return ask(f"{' '.join(facts)}\nQuestion: {question}\n", f"<answer>{answer}</answer>")


def search_passage(rng: Random) -> Document:
    """A question, a search, what came back, and the answer read from it."""
    facts, questions = draw_facts(rng)
    question, answer = rng.choice(questions)
    return (
        Segment(f"Search, then answer. Question: {question}\n", QUESTION),
        Segment(f"<search>{question.rstrip('?')}</search>", ANSWER),
        Segment(f"<information>{' '.join(facts)}</information>", QUESTION),
        Segment(f"<answer>{answer}</answer>", ANSWER),
    )


def draw_story(rng: Random) -> tuple[str, str, Fraction]:
    """A sum told in words, its expression and its value."""
    a, b, name, thing = rng.randint(2, 99), rng.randint(2, 99), rng.choice(NAMES), rng.choice(THINGS)
    a, b = max(a, b), min(a, b)
    symbol = rng.choice("+-*")
    told = {
        "+": f"{name} has {a} {thing}s and finds {b} more.",
        "-": f"{name} has {a} {thing}s and loses {b}.",
        "*": f"{name} has {a} boxes with {b} {thing}s each.",
    }[symbol]
    return f"{told} How many {thing}s?", f"{a} {symbol} {b}", OPERATORS[symbol](Fraction(a), Fraction(b))


def use_calculator(rng: Random) -> Document:
    """A sum told in words and the calculator, in the tagged form and in the form that routes by a word."""
    story, expression, value = draw_story(rng)
    if rng.random() < 0.5:
        return (
            Segment(f"{story}\n", QUESTION),
            Segment(f"calculate {expression} = ", ANSWER),
            Segment(f"{show_number(value)}\n", QUESTION),
            Segment(f"<answer>{show_number(value)}</answer>", ANSWER),
        )
    return (
        Segment(f"{story} Use the calculator.\n", QUESTION),
        Segment(f"<calculator>{expression}</calculator>", ANSWER),
        Segment(f"<result>{show_number(value)}</result>", QUESTION),
        Segment(f"<answer>{show_number(value)}</answer>", ANSWER),
    )


def count_steps(number: int) -> str:
    return f"{number} step" if number == 1 else f"{number} steps"


def place_object(rng: Random, across: int, ahead: int) -> str:
    """`2 steps left and 1 step forward`: lateral distance first, nothing where it is zero."""
    parts = [f"{count_steps(abs(across))} {'left' if across < 0 else 'right'}"] if across else []
    return " and ".join([*parts, f"{count_steps(ahead)} forward"] if ahead else parts)


def choose_turn(across: int, ahead: int) -> str:
    if ahead > 0:
        return "go forward"
    return "turn left" if across < 0 else "turn right"


def navigate_room(rng: Random) -> Document:
    """Which way to a named object, directly or after a short thought."""
    seen = rng.sample([(colour, thing) for colour in COLOURS for thing in OBJECTS], rng.randint(1, 4))
    places = [(rng.randint(-3, 3), rng.randint(0, 6)) for _ in seen]
    places = [place if any(place) else (0, 1) for place in places]
    lines = [f"You see a {c} {t} {place_object(rng, *p)}\n" for (c, t), p in zip(seen, places, strict=True)]
    chosen = rng.randrange(len(seen))
    goal, action = " ".join(seen[chosen]), choose_turn(*places[chosen])
    question = f"Your goal is to go to the {goal}.\n{''.join(lines)}"
    where = place_object(rng, *places[chosen])
    return ask(question, action if rng.random() < 0.5 else f"The {goal} is {where}.\nfinal answer: {action}")


SKILLS: dict[str, tuple[float, tuple[Lesson, ...]]] = {
    "arithmetic": (0.40, (do_arithmetic, do_arithmetic, evaluate_expression, approach_target, speak_arithmetic)),
    "verdict": (0.06, (judge_equality,)),
    "compare": (0.03, (compare_numbers,)),
    "order": (0.18, (name_order, name_order, order_numbers, infer_comparison, find_extreme)),
    "swap": (0.10, (name_swaps, name_swaps, follow_swap)),
    "instruction": (0.09, (repeat_words, reverse_words, reverse_letters, spell_word, raise_case)),
    "count": (0.03, (count_symbols, count_words)),
    "passage": (0.04, (read_passage,)),
    "tool": (0.04, (search_passage, use_calculator)),
    "navigation": (0.03, (navigate_room,)),
}
"""Skill: its share of the lessons' documents, and its lessons, drawn evenly."""
