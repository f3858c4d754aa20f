"""What can follow in a command line: groups, options and keys."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.config.compose import complete


def complete_words(before: Sequence[str], incomplete: str) -> list[str]:
    """bash splits at `=`, so a word may come in three pieces of which it wants the last."""
    words = " ".join(before).replace(" = ", "=").split()
    head = ""
    if words and words[-1] == "=" and len(words) > 1:
        head = words[-2] + "="
    elif words and "=" not in words[-1] and not words[-1].startswith("-"):
        head = words[-1] + "="
    found = complete([word for word in words if "=" in word[1:]], head + incomplete)
    return [word.removeprefix(head) for word in found]
