# SPDX-License-Identifier: MIT
"""What a language model says."""
import json as _json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple


class Piece(str):
    """A piece of an answer as it comes: text, which may be empty, with the token that brought it (-1: what was held
    back at the end), its log-probability and those of the likeliest tokens where they were asked for, and the number
    of the answer where there are several. In a chat, ``content`` and ``reasoning`` are what it brings of these."""

    __slots__ = ("_about",)  # one field: a reader makes thousands of pieces a second beside the engine
    # Text, token, log-probability, likeliest tokens, answer; then content and reasoning where these are told apart.
    _about: Tuple[Any, ...]

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
        token: int = self._about[1]
        return token

    @property
    def logprob(self) -> Optional[float]:
        """The token's log-probability, where ``logprobs`` asked for it."""
        logprob: Optional[float] = self._about[2]
        return logprob

    @property
    def top_logprobs(self) -> Optional[List[Tuple[int, float]]]:
        """The likeliest tokens of this place with theirs, where ``logprobs`` asked for them."""
        top: Optional[List[Tuple[int, float]]] = self._about[3]
        return top

    @property
    def answer(self) -> int:
        """Which of several answers (``n``) it is a piece of."""
        answer: int = self._about[4]
        return answer

    @property
    def content(self) -> str:
        """What is the answer itself: text without reasoning and calls of tools. It may come later than the text."""
        content: str = self._about[5] if len(self._about) > 5 else str.__str__(self)
        return content

    @property
    def reasoning(self) -> str:
        """What is reasoning before the answer."""
        reasoning: str = self._about[6] if len(self._about) > 6 else ""
        return reasoning


class Timings(NamedTuple):
    """Seconds: reading the prompt, from the first token to the last, and from arrival to the first token."""

    prompt: float
    generate: float
    first_token: float


class ToolCall(NamedTuple):
    """A call that an answer makes: ``id`` is what its result refers to, ``text`` the JSON of the arguments."""

    id: str
    name: str
    text: str

    @property
    def arguments(self) -> Dict[str, Any]:
        """The arguments; a ValueError where the answer was cut off within them."""
        arguments: Dict[str, Any] = _json.loads(self.text or "{}")
        return arguments


class Result(NamedTuple):
    """An answer. ``finish`` says why it ended: "stop", "length", "cancelled" or "deadline"; ``stop`` is the stop
    string that ended it. ``others`` are further answers where several were asked for. ``str()`` of it is its text,
    which is all that the model wrote: of a chat, ``content`` is the answer itself, ``reasoning`` what came before it,
    and ``tool_calls`` are what it calls."""

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
    content: str
    reasoning: str
    tool_calls: List[ToolCall]

    @classmethod
    def _of(cls, answer: Mapping[str, Any]) -> "Result":
        content, reasoning, calls = answer.get("message", (answer["text"], "", ()))
        timings = Timings(answer["prompt_seconds"], answer["generate_seconds"], answer["first_token_seconds"])
        return cls(
            answer["text"], answer["tokens"], answer["finish"], answer["stop"], answer["logprobs"],
            answer["top_logprobs"], answer["score"], timings, [cls._of(other) for other in answer.get("others", ())],
            answer.get("reused_tokens", 0), answer.get("prompt_logprobs", []), answer.get("prompt_top_logprobs", []),
            content, reasoning, [ToolCall(*call) for call in calls],
        )  # fmt: skip

    def json(self) -> Any:
        """The text read as JSON; of a chat, its content."""
        return _json.loads(self.content)

    def message(self) -> Dict[str, Any]:
        """The answer as a message for the next ``chat``."""
        message: Dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}
                for call in self.tool_calls
            ]
        return message

    def __str__(self) -> str:
        return self.text
