# SPDX-License-Identifier: MIT
"""Networks: loaded from .pnnx files, called with arrays."""
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _oort
from ._errors import NotFound
from ._options import entries
from ._tables import bytes_text, count_text, table, table_html

PathLike = Union[str, "os.PathLike[str]"]


class Port(NamedTuple):
    """An input or output of a network. ``shape`` is that of the trace (None for what it left open), ``dtype`` numpy's
    name; both are None where the file does not say."""

    name: str
    shape: Optional[Tuple[Optional[int], ...]]
    dtype: Optional[str]


class Info(Dict[str, Any]):
    """What `Network.info` found: a dictionary that prints itself as tables."""

    _COLUMNS = ("operator", "type", "inputs", "outputs", "FLOPs", "bytes", "memory")

    def _rows(self) -> List[Tuple[str, ...]]:
        return [
            (
                row["name"], row["type"], " ".join(row["inputs"]), " ".join(row["outputs"]),
                count_text(row["flops"]) if row["flops"] else "", bytes_text(row["bytes"]), row["sharing"],
            )
            for row in self["operators"]
        ]  # fmt: skip

    def _total(self) -> str:
        memory = self["memory"]
        return (
            f"{len(self['operators'])} operators, {count_text(self['flops'])} FLOPs; weights "
            f"{bytes_text(memory['weights'])}, activations {bytes_text(memory['activations'])}; {self['device']}, "
            f"{self['isa']}, {self['precision']}"
        )

    def __str__(self) -> str:
        return table(self._COLUMNS, self._rows(), right=(4, 5)) + "\n" + self._total()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(self._COLUMNS, self._rows(), right=(4, 5), caption=self._total())


class Network(_oort.Network):
    """A network that is ready to run. `oort.load` makes it.

    Calling it runs it: with arrays in the order of ``inputs``, or by name. Numpy arrays, and all that speak DLPack
    (torch, jax, cupy), are read where they are; only what is not dense is copied. The results are new arrays of the
    kind of the first input, over memory of the engine's: nothing is copied there either. For arrays on a GPU they
    are arrays there, which torch or cupy allocates, and for jax the engine.

    Any number of threads may call one network at the same time; other Python threads run meanwhile.

    >>> import numpy, oort
    >>> net = oort.load("models/digits")
    >>> net(numpy.zeros((1, 1, 28, 28), numpy.float32)).shape
    (1, 10)
    """

    @property
    def inputs(self) -> List[Port]:
        """The inputs, in the order in which a call takes them.

        >>> oort.load("models/digits").inputs
        [Port(name='pnnx_input_0', shape=(1, 1, 28, 28), dtype='float32')]
        """
        return [Port(port["name"], port["shape"], port["dtype"]) for port in self._inputs]

    @property
    def outputs(self) -> List[Port]:
        """The outputs, in the order in which a call gives them."""
        return [Port(port["name"], port["shape"], port["dtype"]) for port in self._outputs]

    def run_into(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Runs the network into arrays of the caller's: dense, writable, of the right shapes and dtypes. Nothing is
        allocated then when shapes stay the same.

        >>> result = numpy.empty((1, 10), numpy.float32)
        >>> oort.load("models/digits").run_into([numpy.zeros((1, 1, 28, 28), numpy.float32)], [result])
        """
        self._run_into(list(inputs), list(out))

    def info(self, *inputs: Any) -> Info:
        """Operators as they run, with shapes, FLOPs, bytes and memory, for arrays such as these; without any for the
        shapes of the trace. It is a dictionary that prints itself, in notebooks as a table.

        >>> oort.load("models/digits").info()["memory"]["weights"] > 0
        True
        """
        return Info(self._info(list(inputs) or None))

    def __repr__(self) -> str:
        def text(ports: List[Port]) -> str:
            return ", ".join(f"{port.name}{list(port.shape) if port.shape else ''}" for port in ports)

        return f"<oort.Network ({text(self.inputs)}) -> ({text(self.outputs)}) on {self.device}>"


def find_files(param: PathLike, bin: Optional[PathLike]) -> Tuple[str, Optional[str]]:
    """The files of a network: a .param and the .bin beside it, or a folder with one such pair."""
    path = os.fspath(param)
    if os.path.isdir(path):
        found = sorted(name for name in os.listdir(path) if name.endswith(".pnnx.param"))
        if "model.pnnx.param" in found:
            found = ["model.pnnx.param"]
        if len(found) != 1:
            names = ", ".join(found) or "none"
            raise NotFound(f"'{path}' must hold model.pnnx.param, or exactly one *.pnnx.param; found: {names}")
        path = os.path.join(path, found[0])
    beside = path[: -len("param")] + "bin"
    if bin is None and path.endswith(".param") and os.path.exists(beside):
        bin = beside
    return path, None if bin is None else os.fspath(bin)


def load(
    param: Union[PathLike, bytes],
    bin: Union[PathLike, bytes, None] = None,
    *,
    device: str = "cpu",
    precision: str = "f32",
    threads: int = 0,
    memory_limit: int = 0,
    isa: Optional[str] = None,
    conv: str = "",
    without: Iterable[str] = (),
    checksums: bool = True,
    progress: Optional[Callable[[str, int, int], Any]] = None,
) -> Network:
    """Loads a network.

    param         a .pnnx.param file or a folder with one, or the bytes of such a file
    bin           its weights; the .bin beside the .param unless given
    device        "cpu", "cuda" or "cuda:1"
    precision     "f32", "bf16", "f16", or on a GPU "tf32": what products multiply
    threads       of one call; 0 for as many as the process may use
    memory_limit  most bytes that activations may take in one call; 0 for no limit
    isa           kernels to use, by name ("neon", "avx2", …): `oort.isas()` lists them, the last is the default
    conv          an algorithm for convolutions, where one is to be tried
    without       passes to leave out, by name, or ["all"]
    checksums     whether weights are compared with the checksums of the file
    progress      called as progress(phase, done, total) while it loads

    >>> import oort
    >>> oort.load("models/digits", threads=1)
    <oort.Network (pnnx_input_0[1, 1, 28, 28]) -> (pnnx_output_0[1, 10]) on cpu>
    """
    options: Dict[str, Any] = {
        "device": device, "precision": precision, "threads": threads, "memory_limit": memory_limit, "isa": isa,
        "conv": conv, "without": entries("without", without), "checksums": checksums, "progress": progress,
    }  # fmt: skip
    files: Tuple[Any, Any] = (param, bin)
    if not isinstance(param, bytes):
        files = find_files(param, None if isinstance(bin, bytes) else bin)
        if isinstance(bin, bytes):
            files = (files[0], bin)
    elif bin is not None and not isinstance(bin, bytes):
        files = (param, os.fspath(bin))
    return Network(*files, options)
