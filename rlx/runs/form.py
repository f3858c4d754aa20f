"""Values as JSON and back: each kind is defined once, and read without trust in the input.

JSON has no infinities: a float that is not finite is a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

LARGEST_ID = 2**31 - 1
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class CodecError(ValueError):
    """Mismatch between a value and its format; the message is one line that names the value."""


def parse(raw: bytes) -> Any:
    """Parse strict JSON, without NaN; raise CodecError for anything else."""
    try:
        return json.loads(raw, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {type(error).__name__}") from None


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def float_to_json(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def ids(value: Any, where: str) -> tuple[int, ...]:
    """Parse a list of token ids. Ids are checked one by one only if one is wrong, because a file of episodes is mostly
    ids."""
    token_ids = require_list(value, where)
    if set(map(type, token_ids)) == {int} and min(token_ids) >= 0 and max(token_ids) <= LARGEST_ID:
        return tuple(token_ids)
    return tuple(natural(token_id, where, LARGEST_ID) for token_id in token_ids)


def numbers(value: Any, where: str) -> tuple[float, ...]:
    """Parse a list of numbers. A list of floats is taken as it is; other values are parsed one by one."""
    values = require_list(value, where)
    return tuple(values) if set(map(type, values)) == {float} else tuple(number(entry, where) for entry in values)


def record(value: Any, where: str, needed: Collection[str], allowed: Collection[str] = ()) -> dict[str, Any]:
    """Return an object that has all `needed` keys and no others but `allowed` ones."""
    members = require_map(value, where)
    missing = [key for key in needed if key not in members]
    unknown = [key for key in members if key not in needed and key not in allowed]
    if missing or unknown:
        raise CodecError(
            f"{where} lacks {missing[0]!r}" if missing else f"{where} has an unknown key {unknown[0]!r:.60}"
        )
    return members


def require_map(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"{where} is not an object")
    return value


def require_list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise CodecError(f"{where} is not a list")
    return value


def string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise CodecError(f"{where} is not a string")
    return value


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise CodecError(f"{where} is not true or false")
    return value


def natural(value: Any, where: str, largest: int = 2**63 - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise CodecError(f"{where} is not a whole number from 0 to {largest}")
    return value


def number(value: Any, where: str) -> float:
    if isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CodecError(f"{where} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise CodecError(f"{where} is too large a number") from None


REQUIRED = object()


class Form(NamedTuple):
    """Writer and reader of one kind of value as JSON. The reader accepts untrusted input."""

    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    """Function of a value and the name of its place, with which a CodecError begins."""
    attribute: str = ""
    """Attribute that holds the value, if it differs from the key."""
    default: Any = REQUIRED
    """Value that is omitted from the JSON."""

    def of(self, attribute: str) -> Form:
        return self._replace(attribute=attribute)

    def unless(self, default: Any) -> Form:
        return self._replace(default=default)


def made(make: Callable[..., Any], **fields: Form) -> Form:
    """Return the form of an object with these keys, built by `make`. A ValueError of `make` becomes a CodecError."""
    needed = [key for key, form in fields.items() if form.default is REQUIRED]
    names = {key: form.attribute or key for key, form in fields.items()}

    def write(value: Any) -> dict[str, Any]:
        values = {key: getattr(value, name) for key, name in names.items()}
        return {key: form.write(values[key]) for key, form in fields.items() if values[key] != form.default}

    def read(value: Any, where: str) -> Any:
        members = record(value, where, needed, names)
        parts = {names[key]: fields[key].read(child, f"{where}.{key}") for key, child in members.items()}
        try:
            return make(**parts)
        except ValueError as error:
            raise CodecError(f"{where}: {error}") from error

    return Form(write, read)


def many(form: Form) -> Form:
    """Return the form of a list of any length."""
    write, read = form.write, form.read
    return Form(
        lambda values: [write(value) for value in values],
        lambda value, where: tuple(read(entry, where) for entry in require_list(value, where)),
    )


def escape(name: str) -> str:
    """Return a key as part of a place: short, and without a terminal's control characters."""
    return name.encode("unicode_escape").decode()[:60]


def named(form: Form) -> Form:
    """Return the form of an object with any keys and values of one form."""
    return Form(
        lambda values: {name: form.write(value) for name, value in values.items()},
        lambda value, where: {
            string(name, f"a key of {where}"): form.read(entry, f"{where}.{escape(name)}")
            for name, entry in require_map(value, where).items()
        },
    )


def in_order(*forms: Form) -> Form:
    """Return the form of a list with exactly these entries."""

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if len(require_list(value, where)) != len(forms):
            raise CodecError(f"{where} has {len(value)} entries, not {len(forms)}")
        return tuple(form.read(entry, where) for form, entry in zip(forms, value, strict=True))

    return Form(lambda values: [form.write(value) for form, value in zip(forms, values, strict=True)], read)


def counted(make: Callable[..., Any], *names: str, rare: str | None = None) -> Form:
    """Return the form of an object stored as a list of counts: of `names`, and of `rare` where it is not 0."""
    get_counts = attrgetter(*names)

    def read(value: Any, where: str) -> Any:
        listed = require_list(value, where)
        stored_names = (*names, rare) if rare and len(listed) > len(names) else names
        return make(
            **dict(zip(stored_names, in_order(*[NATURAL] * len(stored_names)).read(listed, where), strict=True))
        )

    def write(value: Any) -> list[int]:
        last = getattr(value, rare) if rare else 0
        return [*get_counts(value), *([last] if last else [])]

    return Form(write, read)


def nothing_or(form: Form) -> Form:
    """Return the form that stores None as null."""
    return Form(
        lambda value: None if value is None else form.write(value),
        lambda value, where: None if value is None else form.read(value, where),
    )


def one_of(choices: Sequence[str]) -> Form:
    """Return the form of one of these words."""

    def read(value: Any, where: str) -> str:
        if value not in choices:
            raise CodecError(f"{where} is not one of {', '.join(choices)}")
        return str(value)

    return Form(str, read)


NATURAL, NUMBER, STRING, FLAG = Form(int, natural), Form(float_to_json, number), Form(str, string), Form(bool, flag)
IDS, NUMBERED = Form(list, ids), Form(lambda values: [float_to_json(value) for value in values], numbers)
