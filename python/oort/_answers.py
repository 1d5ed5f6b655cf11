# SPDX-License-Identifier: MIT
"""What a language model says."""
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple


class Piece(str):
    """A piece of an answer as it comes: text, which may be empty, with the token that brought it (-1: what was held
    back at the end), its log-probability and those of the likeliest tokens where they were asked for, and the number
    of the answer where there are several."""

    __slots__ = ("_about",)  # one field: a reader makes thousands of pieces a second beside the engine
    _about: Tuple[str, int, Optional[float], Optional[List[Tuple[int, float]]], int]

    def __new__(
        cls,
        text: str,
        token: int = -1,
        logprob: Optional[float] = None,
        top_logprobs: Optional[List[Tuple[int, float]]] = None,
        answer: int = 0,
    ) -> "Piece":
        piece = super().__new__(cls, text)
        piece._about = (text, token, logprob, top_logprobs, answer)
        return piece

    @property
    def token(self) -> int:
        """The token that brought the text; -1 for what was held back at the end."""
        return self._about[1]

    @property
    def logprob(self) -> Optional[float]:
        """The token's log-probability, where ``logprobs`` asked for it."""
        return self._about[2]

    @property
    def top_logprobs(self) -> Optional[List[Tuple[int, float]]]:
        """The likeliest tokens of this place with theirs, where ``logprobs`` asked for them."""
        return self._about[3]

    @property
    def answer(self) -> int:
        """Which of several answers (``n``) it is a piece of."""
        return self._about[4]


class Timings(NamedTuple):
    """Seconds: reading the prompt, from the first token to the last, and from arrival to the first token."""

    prompt: float
    generate: float
    first_token: float


class Result(NamedTuple):
    """An answer. ``finish`` says why it ended: "stop", "length", "cancelled" or "deadline"; ``stop`` is the stop
    string that ended it. ``others`` are further answers where several were asked for. ``str()`` of it is its text."""

    text: str
    tokens: List[int]
    finish: str
    stop: str
    logprobs: List[float]
    top_logprobs: List[List[Tuple[int, float]]]
    score: float
    timings: Timings
    others: List["Result"]
    reused_tokens: int
    prompt_logprobs: List[float]
    prompt_top_logprobs: List[List[Tuple[int, float]]]

    @classmethod
    def _of(cls, answer: Mapping[str, Any]) -> "Result":
        timings = Timings(answer["prompt_seconds"], answer["generate_seconds"], answer["first_token_seconds"])
        return cls(
            answer["text"], answer["tokens"], answer["finish"], answer["stop"], answer["logprobs"],
            answer["top_logprobs"], answer["score"], timings, [cls._of(other) for other in answer.get("others", ())],
            answer.get("reused_tokens", 0), answer.get("prompt_logprobs", []), answer.get("prompt_top_logprobs", []),
        )  # fmt: skip

    def json(self) -> Any:
        """The text read as JSON."""
        import json

        return json.loads(self.text)

    def __str__(self) -> str:
        return self.text
