# SPDX-License-Identifier: MIT
"""Encoders of text: vectors, and how well texts answer a query."""
import os
from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple, Union

from . import _oort
from ._network import PathLike

if TYPE_CHECKING:
    import numpy

Tokenizer = _oort.Tokenizer


class Embedder:
    """Texts to vectors, by an encoder: a folder of Hugging Face (BERT, RoBERTa, MPNet, DistilBERT, ModernBERT), or one
    that tools/export-encoder.py wrote.

    pooling     "auto" (as the folder says, else the mean), "mean" or "cls"
    normalize   vectors of length 1
    max_tokens  of a text, the rest is cut off; 0: as the folder says
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        pooling: str = "auto",
        normalize: bool = True,
        max_tokens: int = 0,
        threads: int = 0,
        precision: str = "f32",
        device: str = "cpu",
    ):
        self._embedder = _oort.Embedder(os.fspath(folder), {
            "pooling": pooling, "normalize": normalize, "max_tokens": max_tokens, "threads": threads,
            "precision": precision, "device": device,
        })  # fmt: skip

    def embed(self, texts: Union[str, Sequence[str]]) -> "numpy.ndarray":
        """A row for each text; of one text its vector. Texts of similar length run together."""
        vectors: "numpy.ndarray"
        if isinstance(texts, str):
            vectors, _, _ = self._embedder.embed([texts])
            vector: "numpy.ndarray" = vectors[0]
            return vector
        vectors, _, _ = self._embedder.embed(list(texts))
        return vectors

    def tokenizer(self) -> Tokenizer:
        """The encoder's own."""
        return self._embedder.tokenizer()

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""
        return self._embedder.dimensions

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read."""
        return self._embedder.max_tokens


class Reranker:
    """How well texts answer a query, by a cross-encoder that reads both: a folder of Hugging Face such as
    bge-reranker-base.

    raw_scores  what the model's head says; else as the model asks for, mostly a number from 0 to 1
    max_tokens  of query and text together, the rest is cut off; 0: as the folder says
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        raw_scores: bool = False,
        max_tokens: int = 0,
        threads: int = 0,
        precision: str = "f32",
        device: str = "cpu",
    ):
        self._reranker = _oort.Reranker(os.fspath(folder), {
            "raw_scores": raw_scores, "max_tokens": max_tokens, "threads": threads, "precision": precision,
            "device": device,
        })  # fmt: skip

    def score(self, query: str, texts: Sequence[str]) -> List[float]:
        """A score for each text, in their order."""
        return self._reranker.score(query, list(texts))

    def rank(self, query: str, texts: Sequence[str], *, top: Optional[int] = None) -> List[Tuple[int, float]]:
        """Places of the texts with their scores, the best first; of all, or of the `top` ones."""
        scores = self.score(query, texts)
        return sorted(enumerate(scores), key=lambda pair: -pair[1])[:top]

    def tokenizer(self) -> Tokenizer:
        """The model's own."""
        return self._reranker.tokenizer()

    @property
    def max_tokens(self) -> int:
        """Tokens of query and text that are read."""
        return self._reranker.max_tokens
