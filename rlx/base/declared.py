"""Members of a base class that have a default."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    declared = property
else:

    class declared:  # noqa: N801
        """A property that a field of a dataclass may replace: an instance's own value comes first, and the class itself
        has no such attribute, which a dataclass would take for the field's default."""

        def __init__(self, default: Any) -> None:
            self.default, self.__doc__, self.name = default, default.__doc__, default.__name__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                raise AttributeError(self.name)
            return self.default(instance)


def overrides(value: object, base: type, name: str) -> bool:
    """Tell whether the class of a value defines a member itself, instead of taking the default of `base`."""
    member = next(kind.__dict__[name] for kind in type(value).__mro__ if name in kind.__dict__)
    return member is not base.__dict__[name] or name in getattr(value, "__dict__", ())


@cache
def public(base: type) -> frozenset[str]:
    """Return the names of the members that a base class declares."""
    return frozenset(name for name in vars(base) if not name.startswith("_"))
