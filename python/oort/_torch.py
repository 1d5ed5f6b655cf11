# SPDX-License-Identifier: MIT
"""Modules of torch as networks, through pnnx."""
import os
from typing import Any, List, Optional

from ._errors import Unsupported
from ._network import Network, PathLike, load

_TYPES = {
    "torch.float32": "f32", "torch.float64": "f64", "torch.float16": "f16", "torch.bfloat16": "bf16",
    "torch.int32": "i32", "torch.int64": "i64", "torch.int16": "i16", "torch.int8": "i8", "torch.uint8": "u8",
    "torch.bool": "bool", "torch.complex64": "c64", "torch.complex128": "c128",
}  # fmt: skip


def _pnnx() -> str:
    """The program: of the package pnnx, or on the path."""
    import importlib.util
    import shutil

    package = importlib.util.find_spec("pnnx")
    if package is not None and package.submodule_search_locations:
        for folder in package.submodule_search_locations:
            for name in ("bin/pnnx", "pnnx"):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    return path
    found = shutil.which("pnnx")
    if found is None:
        raise Unsupported("from_torch writes networks by pnnx, which is not here: pip install pnnx")
    return found


def _shapes(example: Any) -> str:
    """As pnnx wants them: [1,3,224,224]f32,[1]i64"""
    texts = []
    for tensor in example:
        kind = _TYPES.get(str(tensor.dtype))
        if kind is None:
            raise Unsupported(f"pnnx takes no input of {tensor.dtype}: convert it in the module")
        texts.append(f"[{','.join(map(str, tensor.shape))}]{kind}")
    return ",".join(texts)


def from_torch(
    module: Any, example: Any, second_example: Any = None, *, folder: Optional[PathLike] = None, **options: Any
) -> Network:
    """Exports a module of torch through pnnx, and loads it.

    example         an input, or a tuple of inputs: what the module is traced with
    second_example  inputs of other sizes, so that batch, length or picture size stay open
    folder          where model.pnnx.param and model.pnnx.bin are kept; without it they go again

    All other keywords are those of `oort.load`. What pnnx cannot trace or convert is an `oort.Unsupported` that says
    so in a sentence.
    """
    import shutil
    import tempfile

    program = _pnnx()
    inputs = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    arguments = [f"inputshape={_shapes(inputs)}"]
    if second_example is not None:
        second = tuple(second_example) if isinstance(second_example, (tuple, list)) else (second_example,)
        arguments.append(f"inputshape2={_shapes(second)}")
    with tempfile.TemporaryDirectory(prefix="oort") as scratch:
        trace = os.path.join(scratch, "model.pt")
        _trace(module, inputs, trace)
        _convert(program, trace, arguments)
        files = [os.path.join(scratch, name) for name in ("model.pnnx.param", "model.pnnx.bin")]
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
            files = [shutil.copy(file, os.fspath(folder)) for file in files]
        return load(files[0], files[1], **options)


def _trace(module: Any, inputs: Any, path: str) -> None:
    """Writes what torch traces of the module as it evaluates, and leaves each part of it in its own mode."""
    try:
        import torch
    except ImportError:
        raise Unsupported("from_torch needs torch: pip install torch") from None
    modes = [(part, part.training) for part in module.modules()]
    try:
        with torch.no_grad():
            torch.jit.save(torch.jit.trace(module.eval(), inputs, check_trace=False), path)
    except Exception as error:
        raise Unsupported(f"torch cannot trace the module: {_last_line(str(error))}") from error
    finally:
        for part, training in modes:
            part.training = training


def _convert(program: str, trace: str, arguments: List[str]) -> None:
    import subprocess

    done = subprocess.run(
        [program, trace, *arguments], cwd=os.path.dirname(trace), capture_output=True, text=True, errors="replace"
    )
    made = trace.removesuffix(".pt") + ".pnnx.param"
    if done.returncode != 0 or not os.path.exists(made):
        said = _last_line(done.stderr) or _last_line(done.stdout) or f"it ended with {done.returncode}"
        raise Unsupported(f"pnnx cannot convert the module: {said}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
