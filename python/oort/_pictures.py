# SPDX-License-Identifier: MIT
"""Pictures in the messages of a chat."""
import base64
import binascii
import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from ._errors import InvalidArgument


class ChatTokens(List[int]):
    """The tokens of a chat, with the pictures that they have places for, and what it says of tools."""

    pictures: Sequence[Any] = ()
    chat: Optional[Mapping[str, Any]] = None


def _from_url(given: Any) -> bytes:
    url = given.get("url") if isinstance(given, Mapping) else given
    head, comma, text = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        raise InvalidArgument('an image_url is "data:image/png;base64,…": nothing is fetched')
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument(f"a picture's data: URL is no base64: {error}") from None


def _source(part: Mapping[str, Any]) -> Any:
    """Bytes of a file, or an array of pixels."""
    if part["type"] == "image_url":
        return _from_url(part.get("image_url"))
    given = part.get("image")
    if given is None:
        raise InvalidArgument('a part of type "image" has its picture as "image": an array, bytes or a path')
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    if isinstance(given, (str, os.PathLike)):
        with open(given, "rb") as file:
            return file.read()
    import numpy

    if hasattr(given, "convert"):  # Pillow's: a palette or transparency becomes what it shows
        given = given.convert("RGB")
    return numpy.ascontiguousarray(given)


def take_pictures(messages: Any) -> Tuple[Any, List[Any]]:
    """The messages with nothing but {"type": "image"} where pictures are, and these in their order."""
    if not isinstance(messages, (list, tuple)):
        return messages, []
    shown, sources = [], []
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, (list, tuple)):
            parts: List[Any] = []
            for part in content:
                if isinstance(part, Mapping) and part.get("type") in ("image", "image_url"):
                    sources.append(_source(part))
                    part = {"type": "image"}
                parts.append(part)
            message = {**message, "content": parts}
        shown.append(message)
    return shown, sources
