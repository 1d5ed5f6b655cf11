# SPDX-License-Identifier: MIT
"""What goes wrong: one class for each code of the engine, which also is what Python would raise."""
from typing import List, NamedTuple, Optional, Sequence, Tuple

_PLACE = r"operator '(?P<name>[^']*)' \((?P<type>[^,()]*)(?:, line (?P<line>\d+))?\)"


class Problem(NamedTuple):
    """One thing that is wrong with a model."""

    code: str
    message: str
    operator: str
    type: str
    line: int


class Error(Exception):
    """The base of all errors of this package.

    ``code`` is the engine's name for the kind ("invalid_model", "not_found", …), ``operator``, ``type`` and ``line``
    say which operator of the file is to blame (None where none is), and ``problems`` lists everything that was found
    where a whole model was checked.

    >>> import oort
    >>> try:
    ...     oort.load("missing.pnnx.param")
    ... except oort.Error as error:
    ...     error.code, isinstance(error, FileNotFoundError)
    ('not_found', True)
    """

    code: str = "internal"
    operator: Optional[str] = None
    type: Optional[str] = None
    line: Optional[int] = None
    problems: List[Problem] = []


class InvalidArgument(Error, ValueError):
    """Something that was passed cannot be right."""

    code = "invalid_argument"


class InvalidModel(Error, ValueError):
    """A model file is damaged or contradicts itself."""

    code = "invalid_model"


class Unsupported(Error, NotImplementedError):
    """Well formed, but this build cannot run it."""

    code = "unsupported"


class NotFound(Error, FileNotFoundError):
    """A file, operator, operand or name that does not exist."""

    code = "not_found"


class IoError(Error, OSError):
    """The operating system refused a read or a write."""

    code = "io"


class OutOfMemory(Error, MemoryError):
    """Memory was refused."""

    code = "out_of_memory"


class Limit(Error):
    """A limit that the caller set would be exceeded."""

    code = "limit"


class Cancelled(Error):
    """The run was stopped before its end."""

    code = "cancelled"


class DeviceError(Error, RuntimeError):
    """A device or its driver failed."""

    code = "device"


class InternalError(Error, RuntimeError):
    """A bug in Oort."""

    code = "internal"


_CLASSES = {
    kind.code: kind
    for kind in (
        InvalidArgument, InvalidModel, Unsupported, NotFound, IoError, OutOfMemory, Limit, Cancelled, DeviceError,
        InternalError,
    )
}  # fmt: skip


def make(code: str, message: str, problems: Sequence[Tuple[str, str, str, str, int]] = ()) -> Error:
    """The exception for an error of the engine."""
    error = _CLASSES.get(code, Error)(message)
    error.code = code
    error.problems = [Problem(*problem) for problem in problems]
    if error.problems and error.problems[0].operator:
        first = error.problems[0]
        error.operator, error.type, error.line = first.operator, first.type, first.line or None
        return error
    import re  # not needed until something goes wrong

    place = re.search(_PLACE, message)
    if place:
        error.operator, error.type = place["name"], place["type"]
        error.line = int(place["line"]) if place["line"] else None
    return error
