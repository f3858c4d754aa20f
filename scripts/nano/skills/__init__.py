"""Skills of nano: one file each, whose lessons have a checker and a size that is never trained on."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.nano.skills import acting, numbers, order, places, puzzles, reading, sentences, worked
from scripts.nano.skills.lesson import Lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """Lessons that belong together, and their share of the lessons' tokens."""

    share: float
    lessons: tuple[Lesson, ...]


SKILLS: dict[str, Skill] = {
    "order": Skill(share=0.27, lessons=order.LESSONS),
    "numbers": Skill(share=0.25, lessons=(*numbers.LESSONS, *worked.LESSONS)),
    "reading": Skill(share=0.18, lessons=reading.LESSONS),
    "acting": Skill(share=0.07, lessons=acting.LESSONS),
    "places": Skill(share=0.09, lessons=places.LESSONS),
    "puzzles": Skill(share=0.09, lessons=puzzles.LESSONS),
    "sentences": Skill(share=0.05, lessons=sentences.LESSONS),
}
