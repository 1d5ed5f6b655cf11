# SPDX-License-Identifier: MIT
"""Language models: answers one by one, streamed, in batches and in tasks."""
import collections
import numbers
import os
import time
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Callable, Deque, Dict, Generator, Iterable, Iterator, List, Mapping, Optional,
    Sequence, Tuple, Union,
)  # fmt: skip

from . import _oort
from ._answers import Piece, Result
from ._encoders import Embedder, Tokenizer
from ._errors import InvalidArgument, Limit, Unsupported
from ._network import PathLike
from ._options import entries, pairs, refused
from ._pictures import ChatTokens, take_pictures

if TYPE_CHECKING:
    import numpy

Prompt = Union[str, Sequence[int]]
Message = Mapping[str, Any]

# Requests of a batch that the engine has at once: far more than run together, but it looks at each in every step.
_MOST_UNDER_WAY = 4096


class Stream:
    """An answer while it comes: ``for piece in stream`` in a thread, ``async for piece in stream`` in a task. Each
    `Piece` is text that knows its token. ``result()`` and ``await stream`` give the whole answer; leaving the stream
    alone, ``cancel()``, or leaving a ``with`` block ends it."""

    def __init__(self, stream: Any):
        self._stream = stream
        self._pieces: Deque[Piece] = collections.deque()
        self._result: Optional[Result] = None

    def _take(self, seconds: float) -> bool:
        """Fetches what is there; False behind the last piece."""
        taken = self._stream.take(seconds)
        if taken is None:
            return False
        new, add = str.__new__, self._pieces.append
        for about in taken:  # as Piece does it, without a call of Python for each
            piece = new(Piece, about[0])
            piece._about = about
            add(piece)
        return True

    def __iter__(self) -> Iterator[Piece]:
        pieces = self._pieces
        while True:
            while pieces:
                yield pieces.popleft()
            if not self._take(-1.0):
                self._stream.result()  # raises what went wrong
                return

    def __next__(self) -> Piece:
        while not self._pieces:
            if not self._take(-1.0):
                self._stream.result()  # raises what went wrong
                raise StopIteration
        return self._pieces.popleft()

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self

    async def __anext__(self) -> Piece:
        while not self._pieces:
            if not self._take(0.0):
                self._stream.result()
                raise StopAsyncIteration
            if not self._pieces:
                await self._wait()
        return self._pieces.popleft()

    async def _wait(self) -> None:
        """Until the engine has something: its thread writes to a descriptor, which the event loop watches."""
        import asyncio

        loop = asyncio.get_running_loop()
        descriptor = self._stream.descriptor()
        woken = loop.create_future()

        def wake() -> None:
            try:
                os.read(descriptor, 8)
            except BlockingIOError:
                pass
            if not woken.done():
                woken.set_result(None)

        rest = self._stream.rest()  # pieces come faster than tasks should be woken
        timer = loop.call_later(rest, wake) if rest > 0 else None
        loop.add_reader(descriptor, wake)
        try:
            await woken
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            loop.remove_reader(descriptor)
            if timer is not None:
                timer.cancel()

    def __await__(self) -> Generator[Any, None, Result]:
        return self._finish().__await__()

    async def _finish(self) -> Result:
        async for _ in self:
            pass
        return self.result()

    def result(self) -> Result:
        """The whole answer; waits for it."""
        if self._result is None:  # calls get their ids there, which stay
            self._result = Result._of(self._stream.result())
        return self._result

    def cancel(self) -> None:
        """Ends the answer within a step; what came until then stays."""
        self._stream.cancel()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.cancel()


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def _tool_name(choice: Any) -> Any:
    """OpenAI's {"type": "function", "function": {"name": …}} is the name."""
    if isinstance(choice, Mapping):
        function = choice.get("function")
        choice = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(choice, str):
            raise InvalidArgument('a tool_choice that is no text is {"type": "function", "function": {"name": …}}')
    return choice


def _form(json: bool, json_schema: Any, regex: Optional[str], grammar: Optional[str], choices: Any) -> Any:
    """What the answer is held to, if anything."""
    forms: List[Any] = []
    if json:
        forms.append(("json", ""))
    if json_schema is not None:
        if hasattr(json_schema, "model_json_schema"):  # a class of pydantic
            json_schema = json_schema.model_json_schema()
        forms.append(("json_schema", json_schema if isinstance(json_schema, str) else _json(json_schema)))
    forms += [(name, text) for name, text in (("regex", regex), ("grammar", grammar)) if text is not None]
    if choices is not None:
        forms.append(("choices", entries("choices", choices)))
    if len(forms) > 1:
        raise InvalidArgument("an answer keeps to one of json, json_schema, regex, grammar and choices")
    return forms[0] if forms else None


def _one_or_many(prompt: Any) -> Tuple[Any, bool]:
    """What to go on with, and whether that is several texts or lists of tokens."""
    if isinstance(prompt, str):
        return prompt, False
    if hasattr(prompt, "tolist"):  # an array of tokens, or of texts
        prompt = prompt.tolist()
    if isinstance(prompt, bytes) or not hasattr(prompt, "__iter__"):
        raise refused("prompt", prompt, "a text, tokens, or a list of these")
    if not isinstance(prompt, (list, tuple, Mapping)):
        prompt = list(prompt)
    if not isinstance(prompt, Mapping) and prompt and isinstance(prompt[0], numbers.Integral):
        return prompt, False
    if isinstance(prompt, Mapping) or any(isinstance(one, Mapping) for one in prompt):
        raise InvalidArgument("messages are for chat(); generate() takes a text, tokens, or a list of these")
    return prompt, True


class LanguageModel:
    """A language model from a GGUF file, a folder of Hugging Face, a checkpoint of llama2.c or a .pnnx.param; or an
    encoder, for `embed` alone.

    device          "cpu", "cuda" or "cuda:1"
    weights         what weights become while they are loaded: "int8", "int4", "bf16", "f16" or "f32"
    group           weights that share a scale
    activations     "int8" or "fp8": of what products on a Hopper GPU are
    exact           whether activations stay f32 throughout
    threads         0 for as many as the process may use
    cache_tokens    of all requests together; 0: the model's context, at most 8192
    kv              how keys and values are kept: "f32", "f16", "int8", on a CPU "k6v4", on a GPU "fp8"
    memory_limit    bytes of weights, activations and cache together; 0: no limit
    deterministic   each answer to the last bit as if it were alone
    reuse_prefixes  whether prompts begin with what was read of others; None: unless deterministic
    adapters        LoRA adapters, {name: path}, which requests may name
    progress        called as progress(phase, done, total) while it loads

    ranks           threads of this process that compute the model together: one for each GPU, say
    split           how they share it: "fast", "exact" (to the bits of one rank) or "pipeline"
    exchange        how ranks on GPUs exchange numbers: "auto" (by NCCL where all have it), "nccl" or "host"
    rank_deadline   seconds that ranks wait for one that does not come

    draft           who guesses what answers say next, so that they take fewer steps: "ngram", "model" or "heads"
    draft_model     the path of the smaller model that guesses
    draft_heads     the folder of Medusa's heads that guess
    draft_tokens    guesses in a step for each answer; 0: as many as pay

    prompt_chunk    most tokens of a prompt in one step
    step_tokens     most tokens of a step on a GPU
    step_seconds    about how long an answer waits for its next token while prompts are read; 0: no limit
    most_running    requests at a time; others wait
    most_waiting    requests that may wait, and most_waiting_tokens, of their prompts: more are an `oort.Limit`
    reserve_cache   start a request only when the cache has room for all of it; None: only where deterministic
    swap_bytes      host memory for requests that wait in the middle

    What is None is at its default. An encoder has `device` and `threads` alone.

    Requests may come from any number of threads and tasks: one engine on a thread of its own computes all of them
    together.

    >>> import oort
    >>> model = oort.LanguageModel("models/storyteller")
    >>> answer = model.chat([{"role": "user", "content": "Tell me a story about a fox."}], max_tokens=16)
    >>> len(answer.tokens), answer.finish
    (16, 'length')
    """

    def __init__(
        self,
        path: PathLike,
        *,
        device: str = "cpu",
        weights: str = "",
        group: int = 32,
        activations: str = "",
        exact: Optional[bool] = None,
        threads: int = 0,
        cache_tokens: int = 0,
        kv: str = "",
        memory_limit: int = 0,
        deterministic: bool = False,
        reuse_prefixes: Optional[bool] = None,
        adapters: Optional[Mapping[str, PathLike]] = None,
        progress: Optional[Callable[[str, int, int], Any]] = None,
        ranks: Optional[int] = None,
        split: Optional[str] = None,
        exchange: Optional[str] = None,
        rank_deadline: Optional[float] = None,
        draft: Optional[str] = None,
        draft_model: Optional[PathLike] = None,
        draft_heads: Optional[PathLike] = None,
        draft_tokens: Optional[int] = None,
        prompt_chunk: Optional[int] = None,
        step_tokens: Optional[int] = None,
        step_seconds: Optional[float] = None,
        most_running: Optional[int] = None,
        most_waiting: Optional[int] = None,
        most_waiting_tokens: Optional[int] = None,
        reserve_cache: Optional[bool] = None,
        swap_bytes: Optional[int] = None,
    ):
        self.path = os.fspath(path)
        self._embedder: Optional[Embedder] = None
        self._loaded: Any = None
        options = {
            "device": device, "weights": weights, "group": group, "activations": activations, "exact": exact,
            "threads": threads, "cache_tokens": cache_tokens, "kv": kv, "memory_limit": memory_limit,
            "deterministic": deterministic, "reuse_prefixes": reuse_prefixes, "adapters": adapters,
            "progress": progress, "ranks": ranks, "split": split, "exchange": exchange,
            "rank_deadline": rank_deadline, "draft": draft, "draft_model": draft_model,
            "draft_heads": draft_heads, "draft_tokens": draft_tokens,
            "prompt_chunk": prompt_chunk, "step_tokens": step_tokens, "step_seconds": step_seconds,
            "most_running": most_running, "most_waiting": most_waiting, "most_waiting_tokens": most_waiting_tokens,
            "reserve_cache": reserve_cache, "swap_bytes": swap_bytes,
        }  # fmt: skip
        if _oort.is_encoder(self.path):
            self._refuse_for_encoder(options)
            self._embedder = Embedder(path, device=device, threads=threads)
            return
        if draft_model is not None:
            options.update(draft="model" if draft is None else draft, draft_model=os.fspath(draft_model))
        if draft_heads is not None:
            options.update(draft=options["draft"] or "heads", draft_heads=os.fspath(draft_heads))
        options["adapters"] = [(name, os.fspath(file)) for name, file in pairs("adapters", adapters)]
        self._loaded = _oort.Model(self.path, options)

    def _refuse_for_encoder(self, options: Mapping[str, Any]) -> None:
        """What says how answers are computed would be of no effect."""
        defaults = LanguageModel.__init__.__kwdefaults__ or {}
        given = [
            name
            for name, value in options.items()
            if name not in ("device", "threads") and value is not None and value != defaults[name]
        ]
        if given:
            raise InvalidArgument(
                f"'{self.path}' is an encoder, for which there is no {', '.join(given)}: it takes device and threads "
                "(oort.Embedder takes more)"
            )

    @property
    def _model(self) -> Any:
        if self._loaded is None:
            raise Unsupported(f"'{self.path}' is an encoder of text, which gives vectors (embed) and no answers")
        return self._loaded

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's own.

        >>> len(model.tokenizer.encode("Hello")) > 0
        True
        """
        return (self._embedder or self._model).tokenizer()

    def info(self) -> Dict[str, Any]:
        """What the model is made of: family, layers, sizes, context, bytes.

        >>> model.info()["family"]
        'llama'
        """
        info: Dict[str, Any] = self._model.info()
        return info

    def stats(self) -> Dict[str, int]:
        """What the engine has done, and what waits and runs."""
        stats: Dict[str, int] = self._model.stats()
        return stats

    def generate(
        self,
        prompt: Union[Prompt, Sequence[str], Sequence[Sequence[int]]],
        *,
        stream: bool = False,
        max_tokens: Optional[int] = None,
        min_tokens: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Optional[Mapping[int, float]] = None,
        seed: int = 0,
        stop: Union[str, Sequence[str]] = (),
        stop_tokens: Sequence[int] = (),
        ignore_end: bool = False,
        logprobs: Optional[int] = None,
        prompt_logprobs: Optional[int] = None,
        n: int = 1,
        best_of: int = 0,
        beams: int = 0,
        length_penalty: float = 1.0,
        early_stopping: Union[bool, str] = False,
        json: bool = False,
        json_schema: Any = None,
        regex: Optional[str] = None,
        grammar: Optional[str] = None,
        choices: Optional[Sequence[str]] = None,
        adapter: str = "",
        cache_salt: str = "",
        most_draft_tokens: Optional[int] = None,
        priority: int = 0,
        timeout: Optional[float] = None,
    ) -> Any:
        """Goes on with a text, or with tokens (a list or an array of numbers). A list of texts is a batch, of any
        length: its answers are computed together and come as a list.

        With ``stream=True`` it returns a `Stream` at once, which threads and tasks of asyncio iterate over; else it
        returns a `Result`. Without a temperature the likeliest token is always taken. ``logprobs=5`` tells the
        log-probabilities of each token and of the five likeliest; ``json``, ``json_schema`` (a dictionary, text, or a
        class of pydantic), ``regex``, ``grammar`` or ``choices`` hold the answer to a form. ``timeout`` is in seconds:
        what there is by then is the answer. Beams divide the log-probability of an answer by its length to the power
        ``length_penalty``, and end with ``early_stopping`` (True, False or "never") as in transformers. Beginnings of
        prompts are shared with requests of the same ``cache_salt`` alone. What is None is at its default.

        >>> model.generate("Once upon a time", max_tokens=8).finish
        'length'
        >>> for piece in model.generate("Once upon a time", max_tokens=4, stream=True):
        ...     assert isinstance(piece, str) and piece.token >= 0
        >>> len(model.generate(["Once", "There was"], max_tokens=5))
        2
        >>> model.generate("Is it day or night?", choices=["day", "night"]).text in ("day", "night")
        True
        """
        request = {
            "max_tokens": max_tokens, "min_tokens": min_tokens, "temperature": temperature, "top_k": top_k,
            "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty,
            "presence_penalty": presence_penalty, "frequency_penalty": frequency_penalty,
            "logit_bias": pairs("logit_bias", logit_bias), "seed": seed, "stop": entries("stop", stop),
            "stop_tokens": entries("stop_tokens", stop_tokens), "ignore_end": ignore_end, "logprobs": logprobs,
            "prompt_logprobs": prompt_logprobs, "n": n, "best_of": best_of, "beams": beams,
            "length_penalty": length_penalty, "early_stopping": early_stopping, "adapter": adapter,
            "cache_salt": cache_salt, "most_draft_tokens": most_draft_tokens, "priority": priority,
            "timeout": timeout, "stream": stream, "form": _form(json, json_schema, regex, grammar, choices),
        }  # fmt: skip
        given, several = _one_or_many(prompt)
        if not several:
            started = self._submit(self._tokens(given), request)
            return started if stream else started.result()
        if stream:
            return [self._submit(self._tokens(one), request) for one in given]
        return self._answer_all(given, request)

    def _answer_all(self, prompts: Sequence[Any], request: Dict[str, Any]) -> List[Result]:
        """Answers of a batch, in its order. What the engine does not take yet waits until it has finished others."""
        start, seconds = time.monotonic(), request["timeout"]
        under_way: Deque[Stream] = collections.deque()
        results: List[Result] = []
        try:
            for prompt in prompts:
                tokens = self._tokens(prompt)
                while True:
                    if len(under_way) >= _MOST_UNDER_WAY:
                        results.append(under_way.popleft().result())
                    if isinstance(seconds, (int, float)):  # it counts from the call
                        request["timeout"] = start + seconds - time.monotonic()
                    try:
                        under_way.append(self._submit(tokens, request))
                        break
                    except Limit:
                        if not under_way:
                            raise
                        results.append(under_way.popleft().result())
            while under_way:
                results.append(under_way.popleft().result())
        except BaseException:
            for stream in under_way:
                stream.cancel()
            raise
        return results

    def _tokens(self, prompt: Any) -> List[int]:
        if isinstance(prompt, ChatTokens):
            return prompt
        given, several = _one_or_many(prompt)
        if isinstance(given, str):
            return self.tokenizer.encode(given)
        if several and given:
            raise refused("a prompt", given, "a text or tokens")
        return list(given)

    def _submit(self, tokens: List[int], request: Mapping[str, Any]) -> Stream:
        chat = tokens if isinstance(tokens, ChatTokens) else ChatTokens()
        said = {"prompt": tokens, "pictures": chat.pictures, "chat": chat.chat}
        return Stream(self._model.submit({**request, **said}))

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        tool_choice: Union[str, Mapping[str, Any], None] = None,
        parallel_tool_calls: bool = True,
        documents: Optional[Sequence[Mapping[str, Any]]] = None,
        variables: Optional[Mapping[str, Any]] = None,
        continue_final_message: bool = False,
        **options: Any,
    ) -> Any:
        """Answers a conversation, with the chat template that came with the model. ``variables`` are for the template
        (enable_thinking …); all other keywords are those of `generate`.

        ``tools`` are functions that the model may call, as OpenAI's API has them, and ``tool_choice`` is "auto",
        "none", "required", or the name of the one to call; an answer calls one at most without
        ``parallel_tool_calls``. The answer has ``content``, ``reasoning`` and ``tool_calls`` apart, and its
        ``message()`` is for the next chat, with ``{"role": "tool", "tool_call_id": call.id, "content": …}`` behind
        it. Pieces of a stream have ``content`` and ``reasoning``; calls are in its ``result()``.

        >>> clock = {"name": "now", "parameters": {"type": "object", "properties": {}}}
        >>> tools = [{"type": "function", "function": clock}]
        >>> asked = [{"role": "user", "content": "How late is it?"}]
        >>> answer = model.chat(asked, tools=tools, tool_choice="now", max_tokens=60)
        >>> answer.tool_calls[0].name
        'now'

        To a model that reads pictures (SmolVLM, Idefics3) a message may show some: its content is then a list of parts,
        ``{"type": "text", "text": …}`` and ``{"type": "image", "image": …}``. The latter is an array of bytes (height,
        width[, 3]), a picture of Pillow's, the bytes of a file, or its path. OpenAI's ``image_url`` with a ``data:``
        URL does, too; nothing is fetched.

        >>> seer = oort.LanguageModel("test/checkpoints/smolvlm")
        >>> picture = {"type": "image", "image": "test/checkpoints/vision_tall.png"}
        >>> asked = [{"role": "user", "content": [picture, {"type": "text", "text": "What is it?"}]}]
        >>> len(seer.chat(asked, max_tokens=4, ignore_end=True).tokens)
        4

        >>> for piece in model.chat([{"role": "user", "content": "A story about a cat"}], max_tokens=3, stream=True):
        ...     assert piece.token >= 0
        """
        shown, sources = take_pictures(messages)
        inputs = self._chat_inputs(shown, tools, documents, variables, continue_final_message)
        inputs.update(tool_choice=_tool_name(tool_choice), parallel_tool_calls=parallel_tool_calls)
        pictures = [self._model.read_picture(source) for source in sources]
        tokens = ChatTokens(self._model.encode_chat(inputs, "default", pictures))
        tokens.pictures, tokens.chat = pictures, inputs
        return self.generate(tokens, **options)

    def format_chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        documents: Optional[Sequence[Mapping[str, Any]]] = None,
        variables: Optional[Mapping[str, Any]] = None,
        continue_final_message: bool = False,
    ) -> str:
        """The conversation as the text that the model was trained on."""
        shown, _ = take_pictures(messages)
        inputs = self._chat_inputs(shown, tools, documents, variables, continue_final_message)
        text: str = self._model.format_chat(inputs, "default")
        return text

    @staticmethod
    def _chat_inputs(messages: Any, tools: Any, documents: Any, variables: Any, go_on: bool) -> Dict[str, Any]:
        if isinstance(messages, (str, Mapping)):
            raise InvalidArgument('messages is a list such as [{"role": "user", "content": "…"}]')
        return {
            "messages": _json(list(messages)), "tools": _json(tools) if tools else "",
            "documents": _json(documents) if documents else "",
            "variables": _json(variables) if variables else "", "continue_final_message": go_on,
            "tool_choice": None, "parallel_tool_calls": True,
        }  # fmt: skip

    def embed(self, texts: Union[str, Sequence[str]]) -> "numpy.ndarray":
        """Vectors of texts, where the model is an encoder; see `Embedder`."""
        if self._embedder is None:
            raise Unsupported(
                f"'{self.path}' is a decoder, which answers and gives no vectors: embed() wants an encoder such as "
                "all-MiniLM-L6-v2"
            )
        return self._embedder.embed(texts)

    def __repr__(self) -> str:
        if self._loaded is None:
            return f"<oort.LanguageModel encoder '{self.path}'>"
        info = self.info()
        return f"<oort.LanguageModel {info['family']}, {info['layers']} layers, on {info['device']}>"
