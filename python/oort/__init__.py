# SPDX-License-Identifier: MIT
"""Oort runs neural networks and language models.

>>> import numpy, oort
>>> net = oort.load("models/digits")
>>> net(numpy.zeros((1, 1, 28, 28), numpy.float32)).shape
(1, 10)

>>> model = oort.LanguageModel("models/storyteller")
>>> for piece in model.chat([{"role": "user", "content": "A story about a fox"}], stream=True, max_tokens=3):
...     text = str(piece)
"""
import atexit as _atexit
from typing import List

from . import _oort
from ._answers import Piece, Result, Timings, ToolCall
from ._encoders import Embedder, Reranker, Tokenizer
from ._errors import (
    Cancelled, DeviceError, Error, InternalError, InvalidArgument, InvalidModel, IoError, Limit, NotFound, OutOfMemory,
    Problem, Unsupported,
)  # fmt: skip
from ._language import LanguageModel, Stream
from ._network import Info, Network, Port, load
from ._operator import Meta, register
from ._profile import Profile, profile
from ._quantize import QuantizeReport, quantize
from ._torch import from_torch

__version__: str = _oort.__version__


def devices() -> List[str]:
    """What networks can run on here: "cpu", and a name for each GPU that this build can use."""
    return _oort.devices()


def isas() -> List[str]:
    """Instruction sets that this processor has kernels for, slowest first."""
    return _oort.isas()


__all__ = [
    "Cancelled", "DeviceError", "Embedder", "Error", "Info", "InternalError", "InvalidArgument", "InvalidModel",
    "IoError", "LanguageModel", "Limit", "Meta", "Network", "NotFound", "OutOfMemory", "Piece", "Port", "Problem",
    "Profile", "QuantizeReport", "Reranker", "Result", "Stream", "Timings", "Tokenizer", "ToolCall", "Unsupported",
    "devices", "from_torch", "isas", "load", "profile", "quantize", "register",
]  # fmt: skip

# What still computes is stopped before the interpreter goes, in whatever thread it is.
_atexit.register(_oort._shutdown)
