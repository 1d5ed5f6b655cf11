from collections.abc import Sequence
from typing import Any

__version__: str


def _shutdown() -> None: ...

class Network:
    def __init__(self, param: object, bin: object | None, options: dict) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def _call_beside(self, *args: Any, **kwargs: Any) -> Any: ...

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Runs the network on {name: array}, and gives {name: array} of its outputs."""

    def _run_into(self, inputs: object, out: object) -> None: ...

    def _measure(self, inputs: list, runs: int) -> dict: ...

    def _info(self, inputs: object | None) -> dict: ...

    @property
    def _inputs(self) -> list: ...

    @property
    def _outputs(self) -> list: ...

    @property
    def device(self) -> str:
        """Where it runs: "cpu", "cuda:0", …"""

    @property
    def precision(self) -> str:
        """What products multiply: "f32", "bf16", …"""

    @property
    def threads(self) -> int:
        """Threads of one call; 0 for as many as the process may use."""

class Tokenizer:
    """
    Text to tokens and back, as the model's own tokenizer does it.

    Its path is a GGUF file, a tokenizer.json, a sentencepiece model, or a folder with one of them.

    >>> import oort
    >>> tokenizer = oort.Tokenizer("models/storyteller")
    >>> tokenizer.decode(tokenizer.encode("Once upon a time"))
    'Once upon a time'
    """

    def __init__(self, path: str) -> None: ...

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """
        Ids of a text. add_special puts what the model wants around it; without parse_special
        the text of a special token is nothing but its characters.
        """

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of tokens."""

    def __len__(self) -> int: ...

    def piece(self, token: int) -> str:
        """
        A token as the vocabulary spells it ("Ġthe", "▁the"); empty where there is none.
        """

    def id_of(self, piece: str) -> int | None:
        """The token that the vocabulary spells so; None where there is none."""

    def is_special(self, token: int) -> bool:
        """
        Whether it is a token such as the end of a text, which decode() leaves out.
        """

    @property
    def bos(self) -> int | None:
        """The token that texts begin with; None without one."""

    @property
    def eos(self) -> int | None:
        """The token that texts end with; None without one."""

class Stream:
    def take(self, seconds: float) -> object: ...

    def result(self) -> dict: ...

    def cancel(self) -> None: ...

    def descriptor(self) -> int: ...

    def rest(self) -> float: ...

class Picture:
    pass

class Model:
    def __init__(self, path: str, options: dict) -> None: ...

    def submit(self, request: dict) -> Stream: ...

    def stats(self) -> dict: ...

    def info(self) -> dict: ...

    def tokenizer(self) -> Tokenizer: ...

    def end_tokens(self) -> list[int]: ...

    def encode_chat(self, arg0: dict, arg1: str, arg2: list, /) -> list[int]: ...

    def read_picture(self, given: object) -> Picture: ...

    def format_chat(self, arg0: dict, arg1: str, /) -> str: ...

class Embedder:
    def __init__(self, folder: str, options: dict) -> None: ...

    def embed(self, texts: Sequence[str]) -> tuple: ...

    def tokenizer(self) -> Tokenizer: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

def is_encoder(arg: str, /) -> bool: ...

class Reranker:
    def __init__(self, folder: str, options: dict) -> None: ...

    def score(self, query: str, texts: Sequence[str]) -> list[float]: ...

    def tokenizer(self) -> Tokenizer: ...

    @property
    def max_tokens(self) -> int: ...

def register(type: str, doc: str, factory: object, replace: bool) -> None: ...

def quantize(
    param: object, bin: object | None, samples: list, test: list, to_param: str, to_bin: str, options: dict
) -> tuple: ...

def devices() -> list[str]: ...

def isas() -> list[str]: ...
