# SPDX-License-Identifier: MIT
"""What people pass as lists and dictionaries, before the engine looks at what is in them."""
from typing import Any, List, Mapping, Tuple

from ._errors import InvalidArgument


def refused(name: str, given: Any, wanted: str) -> InvalidArgument:
    """The error for a keyword that is something else."""
    return InvalidArgument(f"{name} is {wanted}, not {type(given).__name__}")


def entries(name: str, given: Any) -> List[Any]:
    """A list of whatever can be iterated over; one text is a list of it, None an empty one."""
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    try:
        return list(given)
    except TypeError:
        raise refused(name, given, "a list") from None


def pairs(name: str, given: Any) -> List[Tuple[Any, Any]]:
    """What a dictionary has; None is an empty one."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise refused(name, given, "a dictionary")
    return list(given.items())
