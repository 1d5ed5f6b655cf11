# SPDX-License-Identifier: MIT
"""Networks in 8 bits."""
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

from . import _oort
from ._network import PathLike, find_files
from ._options import entries


class QuantizeReport(Dict[str, Any]):
    """What became of a network: method, samples, bytes before and after, how far its answers are from those in
    floats (sqnr_db, cosine, agreement), layers that stayed float and why, warnings; ``param``, ``bin`` and ``recipe``
    are the files that were written."""

    def __str__(self) -> str:
        quantized = sum(layer["quantized"] for layer in self["layers"])
        lines = [
            f"{self['param']}: {quantized} of {len(self['layers'])} layers in 8 bits, weights "
            f"{self['float_bytes']} -> {self['bytes']} bytes, ranges by {self['method']}"
        ]
        if self["cosine"] is not None:
            near = f"cosine {self['cosine']:.5f}, {self['sqnr_db']:.1f} dB"
            lines.append(f"answers: {near} over {self['judged']} samples")
        if self["agreement"] is not None:
            lines.append(f"the same class in {100 * self['agreement']:.1f} %")
        lines += [f"float: {row['name']}: {row['why_float']}" for row in self["layers"] if not row["quantized"]]
        return "\n".join(lines + [f"warning: {text}" for text in self["warnings"]])

    __repr__ = __str__


def _as_samples(samples: Iterable[Any]) -> List[List[Any]]:
    """One input is an array, several are a tuple or list of them."""
    return [list(sample) if isinstance(sample, (tuple, list)) else [sample] for sample in samples]


def quantize(
    network: PathLike,
    output: PathLike,
    samples: Iterable[Any] = (),
    *,
    test: Iterable[Any] = (),
    labels: Sequence[int] = (),
    dynamic: bool = False,
    equalize: bool = False,
    adaround: bool = False,
    symmetric: bool = False,
    one_scale: bool = False,
    method: str = "auto",
    budget: Optional[float] = None,
    recipe: Optional[PathLike] = None,
    threads: int = 0,
    progress: Optional[Callable[[str, int, int], Any]] = None,
) -> QuantizeReport:
    """Writes a network whose convolutions and linear layers compute in 8 bits; see docs/quantization.md.

    network   a .pnnx.param file, or a folder with one
    output    the .pnnx.param to write; the .bin and the .recipe.json go beside it
    samples   what the network will see: an array each, or a tuple of arrays where it has several inputs
    test      samples to judge the result by; without them every tenth one of `samples` is held back
    labels    the class of every sample of `test` (or of `samples`)
    dynamic   linear layers alone, with scales found while the network runs: no samples are needed
    equalize, adaround, symmetric, one_scale, method, budget, recipe   as in `oort quantize --help`

    >>> import numpy, oort, tempfile
    >>> pictures = [numpy.random.default_rng(i).random((1, 1, 28, 28), numpy.float32) for i in range(8)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = oort.quantize("models/digits", folder + "/digits.int8.pnnx.param", pictures)
    ...     net = oort.load(report["param"])
    >>> report["bytes"] < report["float_bytes"], net(pictures[0]).shape
    (True, (1, 10))
    """
    import pathlib

    out = pathlib.Path(output)
    if out.suffix != ".param":
        raise ValueError(f"output must end in .param, got '{out}'")
    files = find_files(network, None)
    out_bin = out.with_suffix(".bin")
    for read in filter(None, files):
        if any(written.exists() and os.path.samefile(read, written) for written in (out, out_bin)):
            raise ValueError(f"output would overwrite the network itself: '{read}'")
    options = {
        "recipe": pathlib.Path(recipe).read_text(encoding="utf-8") if recipe is not None else "",
        "method": method, "dynamic": dynamic, "equalize": equalize, "adaround": adaround,
        "symmetric": symmetric, "one_scale": one_scale,
        "labels": entries("labels", labels), "budget": budget, "threads": threads, "progress": progress,
    }  # fmt: skip
    report, text = _oort.quantize(
        *files, _as_samples(samples), _as_samples(test), os.fspath(out), os.fspath(out_bin), options
    )
    stem = out.with_suffix("")
    recipe_path = (stem.with_suffix("") if stem.suffix == ".pnnx" else stem).as_posix() + ".recipe.json"
    pathlib.Path(recipe_path).write_text(text, encoding="utf-8")
    return QuantizeReport(report, param=os.fspath(out), bin=os.fspath(out_bin), recipe=recipe_path)
