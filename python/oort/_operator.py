# SPDX-License-Identifier: MIT
"""Operators written in Python."""
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from . import _oort


class Meta(NamedTuple):
    """Shape and dtype of an array that is not there yet. An operator gets names of dtypes, and may give these, dtypes
    or classes of numpy's."""

    shape: Tuple[int, ...]
    dtype: Any


class _Adapter:
    """Between the engine and a class of the user's."""

    def __init__(self, layer: Any):
        self.layer = layer

    def infer(self, inputs: Sequence[Any], outputs: int) -> List[Meta]:
        metas = [Meta(tuple(entry[0]), entry[1]) if isinstance(entry, tuple) else entry for entry in inputs]
        if not hasattr(self.layer, "infer"):
            if not metas or not isinstance(metas[0], Meta):
                raise TypeError("an operator without infer() gives what its first input is, which is no array")
            return [metas[0]] * outputs
        made = self.layer.infer(*metas)
        made = [made] if outputs == 1 and hasattr(made, "shape") else list(made)
        if len(made) != outputs:
            raise ValueError(f"infer() gives {len(made)} outputs, but the operator has {outputs}")
        return [Meta(tuple(meta.shape), meta.dtype) for meta in made]

    def forward(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        made = self.layer.forward(*inputs)
        results = [made] if len(outputs) == 1 else list(made)
        if len(results) != len(outputs):
            raise ValueError(f"forward() gives {len(results)} arrays, but the operator has {len(outputs)} outputs")
        for result, output in zip(results, outputs):
            if getattr(result, "shape", None) != output.shape:
                raise ValueError(f"forward() gives shape {getattr(result, 'shape', None)}, infer() said {output.shape}")
            output[...] = result


def register(type: str, layer: Callable[..., Any], *, replace: bool = False) -> None:
    """Adds an operator to those that networks may have, or with ``replace`` puts it in the place of one.

    ``layer(params, weights)`` is called for each operator of this type when a network is loaded, with dictionaries of
    its parameters and weights. What it returns has ``forward(*inputs)``, which gets arrays and returns an array (or a
    sequence of them), and ``infer(*inputs)``, which gets a `Meta` of each and returns those of the outputs; without
    it the outputs are like the first input. Arrays are valid while the call lasts.

    That is for prototypes: every call takes the interpreter's lock. In C++ it is a class as long
    (docs/adding-an-operator.md).

    >>> import numpy, oort
    >>> class Scale:
    ...     def __init__(self, params, weights):
    ...         self.factor = params["factor"]
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> oort.register("example.Scale", Scale)
    >>> net = oort.load(b'''7767517
    ... 3 2
    ... pnnx.Input    in   0 1 a #a=(3)f32
    ... example.Scale op   1 1 a b factor=2 #a=(3)f32 #b=(3)f32
    ... pnnx.Output   out  1 0 b #b=(3)f32
    ... ''')
    >>> net(numpy.float32([1, 2, 3]))
    array([2., 4., 6.], dtype=float32)
    """
    doc = (getattr(layer, "__doc__", None) or "An operator of Python.").strip().split("\n")[0]
    _oort.register(type, doc, lambda params, weights: _Adapter(layer(params, weights)), replace)
