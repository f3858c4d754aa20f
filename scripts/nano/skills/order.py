"""Lessons on orders: comparisons, implied and open relations, and the fewest swaps. No lesson shows how to sort
through a tool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations
from random import Random

from rlx.env.questions.known_names import NAMES
from scripts.nano.skills.lesson import Document, Lesson, ask
from scripts.nano.skills.words import CAPITALS, THINGS

RELATION = re.compile(r"([\w']+) ([<>=]) ([\w']+)")


def draw_items(rng: Random, num_items: int) -> list[str]:
    """Names, things, or letters that are no run from A: a sorting environment's own items are never drawn as a set."""
    kind = rng.random()
    if kind < 0.4:
        return rng.sample(NAMES if kind < 0.25 else THINGS, num_items)
    while True:
        letters = rng.sample(CAPITALS, num_items)
        if max(letters) > chr(ord("A") + num_items + 1):
            return letters


def draw_comparison(rng: Random, low: str, high: str) -> str:
    return f"{low} < {high}" if rng.random() < 0.5 else f"{high} > {low}"


def draw_given(rng: Random, pairs: Sequence[tuple[str, str]]) -> str:
    """The pairs as comparisons, in any order and either way round."""
    shuffled = rng.sample(pairs, len(pairs))
    return "Given " + ", ".join(draw_comparison(rng, low, high) for low, high in shuffled) + ". "


def draw_settled(rng: Random, items: Sequence[str]) -> str:
    """Comparisons that settle the order: every neighbouring pair, and a few more."""
    pairs = list(pairwise(items))
    for _ in range(rng.randint(0, 2)):
        low, high = sorted(rng.sample(items, 2), key=items.index)
        pairs.append((low, high))
    return draw_given(rng, pairs)


def read_pairs(text: str) -> list[tuple[str, str]]:
    """The comparisons in `text`, the lower item first."""
    return [(a, b) if sign == "<" else (b, a) for a, sign, b in RELATION.findall(text)]


def read_below(text: str) -> dict[str, set[str]]:
    """Return for each item all those that the comparisons in `text` put above it."""
    above: dict[str, set[str]] = {}
    for low, high in read_pairs(text):
        above.setdefault(low, set()).add(high)
        above.setdefault(high, set())
    for middle in above:
        for low in above:
            if middle in above[low]:
                above[low] |= above[middle]
    return above


def relate(above: Mapping[str, set[str]], a: str, b: str) -> str:
    """`a < b`, `a > b`, or that it is open."""
    if b in above[a]:
        return f"{a} < {b}"
    return f"{a} > {b}" if a in above[b] else "open"


def compare_numbers(rng: Random, size: int) -> Document:
    """Numbers of up to `size` digits."""
    a, b = (rng.randint(0, 10 ** rng.randint(1, size) - 1) for _ in "ab")
    b = a if rng.random() < 0.03 else b
    return ask(f"compare {a} {b}: ", f"{a} {'<' if a < b else '>' if a > b else '='} {b}")


def check_compare_numbers(question: str, answer: str) -> bool:
    a, b = map(int, re.findall(r"\d+", question))
    return answer == f"{a} {'<' if a < b else '>' if a > b else '='} {b}"


def order_numbers(rng: Random, size: int) -> Document:
    """`size` items with numbers below 100, named from the smallest."""
    items = draw_items(rng, size)
    values = dict(zip(items, rng.sample(range(1, 100), size), strict=True))
    assignments = ", ".join(f"{item} = {value}" for item, value in values.items())
    return ask(f"{assignments}. order: ", " < ".join(sorted(items, key=values.__getitem__)))


def check_order_numbers(question: str, answer: str) -> bool:
    values = {item: int(value) for item, value in re.findall(r"([\w']+) = (\d+)", question)}
    return answer == " < ".join(sorted(values, key=values.__getitem__))


def name_order(rng: Random, size: int) -> Document:
    items = draw_items(rng, size)
    return ask(f"{draw_settled(rng, items)}order: ", " < ".join(items))


def check_name_order(question: str, answer: str) -> bool:
    above = read_below(question)
    return answer == " < ".join(sorted(above, key=lambda item: -len(above[item])))


def infer_comparison(rng: Random, size: int) -> Document:
    """Ask what comparisons that settle an order say of two items."""
    items = draw_items(rng, size)
    a, b = rng.sample(items, 2)
    sign = "<" if items.index(a) < items.index(b) else ">"
    return ask(f"{draw_settled(rng, items)}compare {a} {b}: ", f"{a} {sign} {b}")


def reason_comparison(rng: Random, size: int) -> Document:
    """The same with the order thought of first, which is how a comparison comes to be known."""
    items = draw_items(rng, size)
    a, b = rng.sample(items, 2)
    sign = "<" if items.index(a) < items.index(b) else ">"
    return ask(f"{draw_settled(rng, items)}Think, then compare {a} {b}: ", f"{' < '.join(items)}. {a} {sign} {b}")


def settle_comparison(rng: Random, size: int) -> Document:
    """Ask what any comparisons say of two items, which may be nothing."""
    items = draw_items(rng, size)
    pairs = [(low, high) for i, low in enumerate(items) for high in items[i + 1 :]]
    comparisons = draw_given(rng, rng.sample(pairs, rng.randint(1, size - 1)))
    below = read_below(comparisons)
    a, b = rng.sample(sorted(below), 2)
    return ask(f"{comparisons}Known or open? {a} {b}: ", relate(below, a, b))


def reason_settled(rng: Random, size: int) -> Document:
    """The same with all that one item is known to be below and above said first, one found from another."""
    document = settle_comparison(rng, size)
    comparisons, _, pair = document[0].text.partition("Known or open? ")
    a, b = pair.removesuffix(": ").split()
    return ask(f"{comparisons}Think. Known or open? {pair}", think_of(comparisons, a, b))


def think_of(comparisons: str, a: str, b: str) -> str:
    """`A < C, D. A > none. A < C`."""
    pairs = read_pairs(comparisons)
    above, below = discover(pairs, a), discover([(high, low) for low, high in pairs], a)
    relations = f"{a} < {', '.join(above) or 'none'}. {a} > {', '.join(below) or 'none'}. "
    return relations + relate(read_below(comparisons), a, b)


def discover(pairs: Sequence[tuple[str, str]], item: str) -> list[str]:
    """All that pairs lead to from `item`, the nearest first, then as they stand."""
    reached = [item]
    for each in reached:
        reached += dict.fromkeys(to for origin, to in pairs if origin == each and to not in reached)
    return reached[1:]


def check_settled(question: str, answer: str) -> bool:
    comparisons, _, pair = question.partition("Think. Known or open? ")
    return answer == think_of(comparisons, *pair.removesuffix(": ").split())


def check_comparison(question: str, answer: str) -> bool:
    comparisons, _, last_sentence = question.rpartition(". ")
    a, b = re.findall(r"([\w']+)", last_sentence)[-2:]
    return answer.rpartition(". ")[2] == relate(read_below(comparisons), a, b)


def find_extreme(rng: Random, size: int) -> Document:
    items = draw_items(rng, size)
    word, extreme = rng.choice((("smallest", items[0]), ("largest", items[-1])))
    return ask(f"{draw_given(rng, list(pairwise(items)))}Which is {word}? ", extreme)


def check_find_extreme(question: str, answer: str) -> bool:
    above = read_below(question)
    return answer in above and len(above[answer]) == (len(above) - 1 if "smallest" in question else 0)


def find_swaps(now: Sequence[str], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """The fewest swaps (n less the number of cycles), settled from the left."""
    state, swaps = list(now), []
    for place, item in enumerate(wanted):
        if state[place] != item:
            swaps.append((state[place], item))
            other = state.index(item)
            state[place], state[other] = state[other], state[place]
    return swaps


def swapped(items: Sequence[str], a: str, b: str) -> list[str]:
    return [b if item == a else a if item == b else item for item in items]


def name_swaps(rng: Random, size: int) -> Document:
    items = draw_items(rng, size)
    wanted = rng.choice(list(permutations(items))) if size < 4 else rng.sample(items, size)
    wanted = sorted(items) if rng.random() < 0.4 else wanted
    answer = ", ".join(f"swap {a} {b}" for a, b in find_swaps(items, wanted)) or "sorted"
    return ask(f"Now {' < '.join(items)}. Want {' < '.join(wanted)}: ", answer)


def check_name_swaps(question: str, answer: str) -> bool:
    """Check that the swaps lead to the wanted order, and that no shorter list of swaps does."""
    now, wanted = (re.findall(r"[\w']+", part)[1:] for part in question.split(". "))
    swaps = re.findall(r"swap ([\w']+) ([\w']+)", answer)
    state = list(now)
    for a, b in swaps:
        state = swapped(state, a, b)
    spoken = ", ".join(f"swap {a} {b}" for a, b in swaps) or "sorted"
    return state == wanted and answer == spoken and len(swaps) == len(find_swaps(now, wanted))


def reason_swaps(rng: Random, size: int) -> Document:
    """The same with the state said after every swap."""
    items = draw_items(rng, size)
    wanted = rng.sample(items, size)
    state, lines = list(items), []
    for a, b in find_swaps(items, wanted):
        state = swapped(state, a, b)
        lines.append(f"swap {a} {b}: {' < '.join(state)}")
    text = "\n".join([*lines, "sorted"])
    return ask(f"Now {' < '.join(items)}. Step by step to {' < '.join(wanted)}:\n", text)


def check_reason_swaps(question: str, answer: str) -> bool:
    """Check that each swap gives the stated order and the last the wanted order, and that no shorter list does."""
    now, wanted = (re.findall(r"[\w']+", part) for part in question.removeprefix("Now ").split(". Step by step to "))
    *lines, last = answer.split("\n")
    state = now
    for line in lines:
        match = re.fullmatch(r"swap ([\w']+) ([\w']+): (.+)", line)
        if match is None or match[3] != " < ".join(state := swapped(state, match[1], match[2])):
            return False
    return last == "sorted" and state == wanted and len(lines) == len(find_swaps(now, wanted))


def follow_swap(rng: Random, size: int) -> Document:
    items = draw_items(rng, size)
    a, b = rng.sample(items, 2)
    return ask(f"Now {' < '.join(items)}. swap {a} {b}: ", " < ".join(swapped(items, a, b)))


def check_follow_swap(question: str, answer: str) -> bool:
    now, swap = question.split(". ")
    a, b = re.findall(r"[\w']+", swap)[1:]
    return answer == " < ".join(swapped(re.findall(r"[\w']+", now)[1:], a, b))


LESSONS = (
    Lesson(draw=compare_numbers, check=check_compare_numbers, sizes=(1, 2, 3), harder=4, weight=0.5),
    Lesson(draw=order_numbers, check=check_order_numbers, sizes=(2, 3, 3, 4, 4, 5, 6), harder=7),
    Lesson(draw=name_order, check=check_name_order, sizes=(2, 3, 3, 4, 4, 5, 6), harder=7, weight=2),
    Lesson(draw=infer_comparison, check=check_comparison, sizes=(2, 3, 3, 4, 4, 5, 6), harder=7, weight=2),
    Lesson(draw=reason_comparison, check=check_comparison, sizes=(3, 4, 5, 6), harder=7),
    Lesson(draw=settle_comparison, check=check_comparison, sizes=(3, 3, 4, 4, 5, 6), harder=7),
    Lesson(draw=reason_settled, check=check_settled, sizes=(3, 3, 4, 4, 5, 6), harder=7),
    Lesson(draw=find_extreme, check=check_find_extreme, sizes=(2, 3, 4, 5, 6), harder=7),
    Lesson(draw=name_swaps, check=check_name_swaps, sizes=(2, 3, 3, 4, 4, 5, 6), harder=7, weight=2),
    Lesson(draw=reason_swaps, check=check_reason_swaps, sizes=(2, 3, 4, 5, 6), harder=7),
    Lesson(draw=follow_swap, check=check_follow_swap, sizes=(2, 3, 4, 5, 6), harder=7),
)
