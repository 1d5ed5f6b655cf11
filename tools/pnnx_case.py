#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a torch module as a case folder for `oort verify`: the graph by pnnx, the answers by torch.

    model.pnnx.param  model.pnnx.bin     the graph and its weights
    in0.npy in1.npy …                    the inputs, in the order of pnnx_input_0, pnnx_input_1, …
    out0.npy out1.npy …                  torch's outputs, tuples, lists and dictionaries flattened

Not a program: the scripts beside it, models/ and test/make_corpus.py import it.
"""
import importlib.util
import os
import shutil
import subprocess
import tempfile
import warnings

import numpy as np
import torch

TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int32: "i32", torch.int64: "i64", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip


class ConversionError(RuntimeError):
    """pnnx wrote no usable graph."""


def flatten(value):
    """The tensors of a nested output, in the order in which the graph returns them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (int, float, bool)):
        return [torch.tensor(value)]
    return [tensor for item in value for tensor in flatten(item)]


class Flat(torch.nn.Module):
    """Returns a plain tensor or tuple, which is all that a trace can carry (detectors return dictionaries)."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        outputs = flatten(self.module(*inputs))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def reference(module, inputs):
    """What torch answers, as NumPy arrays."""
    with torch.no_grad():
        outputs = flatten(module(*(tensor.clone() for tensor in inputs)))
    return [tensor.detach().resolve_conj().resolve_neg().contiguous().numpy() for tensor in outputs]


def pictures(batch, size, seed):
    """Blotches of several sizes with a little noise: closer to normalised photographs than noise alone, which averages
    away."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(batch, 3, *size)
    for cells, weight in ((2, 0.3), (5, 0.3), (13, 0.25), (size, 0.15)):
        cells = cells if isinstance(cells, tuple) else (cells, cells)
        blotches = torch.rand((batch, 3, *cells), generator=generator)
        total += weight * torch.nn.functional.interpolate(blotches, size=size, mode="bilinear")
    return (total - 0.5) / 0.25


def calibrate(module, *inputs):
    """Gives batch norms the statistics of `inputs`, and affine parameters that differ from channel to channel."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    norms = [norm for norm in norms if norm.running_mean is not None]
    for norm in norms:
        if norm.affine:
            torch.nn.init.uniform_(norm.weight, 0.7, 1.3)
            torch.nn.init.uniform_(norm.bias, -0.2, 0.2)
        norm.momentum = 1.0
        norm.train()
    if norms:
        with torch.no_grad():
            module(*inputs)
    for norm in norms:
        norm.eval()
        # A channel that hardly varies would be blown up, and rounding errors with it.
        norm.running_var.add_(0.1 * norm.running_var.mean())
    return module


def shapes(inputs):
    return ",".join(
        "[" + ",".join(map(str, tensor.shape)) + "]" + TYPES[tensor.dtype] for tensor in inputs
    )


def convert(module, inputs, folder, *, second=None, optlevel=2, by_value=False, stem="model"):
    """Traces `module` and lets pnnx write folder/stem.pnnx.param and .bin; returns pnnx's Python rendering of it.

    second: inputs of other sizes, so that the axes that differ stay symbolic in the graph.
    by_value: gives pnnx the inputs themselves, for graphs whose shapes depend on them.
    """
    os.makedirs(folder, exist_ok=True)
    inputs = list(inputs)
    with tempfile.TemporaryDirectory(prefix="pnnx-") as scratch:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing is deprecated, and it is what pnnx reads
            traced = torch.jit.trace(module, tuple(inputs), check_trace=False, strict=False)
        traced.save(os.path.join(scratch, "model.pt"))
        command = [executable(), "model.pt", f"optlevel={optlevel}", "fp16=0"]
        for key, tensors in (("", inputs), ("2", second)):
            if tensors is None:
                continue
            if by_value:
                names = [f"in{key}_{i}.npy" for i in range(len(tensors))]
                for name, tensor in zip(names, tensors):
                    np.save(os.path.join(scratch, name), tensor.numpy())
                command.append(f"input{key}=" + ",".join(names))
            elif second is not None or all(tensor.dim() for tensor in tensors):
                command.append(f"inputshape{key}=" + shapes(tensors))
            # else: pnnx cannot read "[]", but finds the shapes of the trace by itself
        run = subprocess.run(command, cwd=scratch, capture_output=True, text=True, errors="replace")
        # pnnx may die in its later export to ncnn; what counts is that the graph was written.
        written = [os.path.join(scratch, f"model.pnnx.{end}") for end in ("param", "bin")]
        if not all(os.path.exists(path) and os.path.getsize(path) for path in written):
            said = f"pnnx wrote no graph (exit code {run.returncode}):\n{run.stdout}{run.stderr}"
            raise ConversionError(said[-2000:])
        for path, end in zip(written, ("param", "bin")):
            shutil.copyfile(path, os.path.join(folder, f"{stem}.pnnx.{end}"))
        rendering = os.path.join(scratch, "model_pnnx.py")
        return open(rendering).read() if os.path.exists(rendering) else ""


def executable():
    import pnnx

    return pnnx.EXEC_PATH


def replay(rendering, binary, inputs):
    """Runs pnnx's own Python rendering of a graph: what the graph means, with no part of Oort in it."""
    with tempfile.TemporaryDirectory(prefix="pnnx-") as scratch:
        os.symlink(os.path.abspath(binary), os.path.join(scratch, "model.pnnx.bin"))
        path = os.path.join(scratch, "rendering.py")
        with open(path, "w") as file:
            file.write(rendering)
        spec = importlib.util.spec_from_file_location("rendering", path)
        program = importlib.util.module_from_spec(spec)
        here = os.getcwd()
        os.chdir(scratch)  # the rendering opens its weights by a relative name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spec.loader.exec_module(program)
                return reference(program.Model().eval(), inputs)
        finally:
            os.chdir(here)


def differences(ours, theirs):
    """Complaints by the rule of `oort verify`: same shapes and dtypes, floats within 1e-4 + 1e-3·|reference|."""
    if len(ours) != len(theirs):
        return [f"{len(ours)} outputs instead of {len(theirs)}"]
    found = []
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(f"output {i} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}")
        elif a.dtype.kind not in "fc":
            if (a != b).any():
                found.append(f"output {i} has other values")
        elif not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
            with np.errstate(invalid="ignore"):
                worst = np.nanmax(np.abs(a - b) / (1e-4 + 1e-3 * np.abs(b)))
            found.append(f"output {i} differs by {worst:.1f} times the tolerance")
    return found


def agree(ours, theirs):
    return not differences(ours, theirs)


def save_tensors(folder, inputs, outputs):
    for old in os.listdir(folder):
        if old.endswith(".npy"):
            os.remove(os.path.join(folder, old))
    for i, tensor in enumerate(inputs):
        np.save(os.path.join(folder, f"in{i}.npy"), tensor.numpy())
    for i, array in enumerate(outputs):
        np.save(os.path.join(folder, f"out{i}.npy"), array)


def link_graph(source, target):
    """Gives `target` the same graph as `source`, without storing the weights twice where links exist."""
    os.makedirs(target, exist_ok=True)
    for name in ("model.pnnx.param", "model.pnnx.bin"):
        path = os.path.join(target, name)
        if os.path.lexists(path):
            os.remove(path)
        try:
            os.link(os.path.join(source, name), path)
        except OSError:
            shutil.copyfile(os.path.join(source, name), path)


def copy_graph(source, target):
    os.makedirs(target, exist_ok=True)
    for name in ("model.pnnx.param", "model.pnnx.bin"):
        shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


def operators(param):
    """[(type, parameters)] of a .param file."""
    with open(param) as file:
        lines = file.read().splitlines()[2:]
    return [(line.split()[0], line.split()[4 + int(line.split()[2]) + int(line.split()[3]) :]) for line in lines]


def write_case(module, inputs, folder, *, second=None, second_folder=None, symbolic=False, **options):
    """Writes the case, and with `second` inputs a second folder: the same network at other sizes.

    The second case uses the very same graph where that is right at the other size; where pnnx froze a size of the
    trace into it, or where `symbolic` asks for it, a graph traced for both sizes. Returns which: "traced" or "symbolic"
    (None without `second`).
    """
    rendering = convert(module, inputs, folder, **options)
    save_tensors(folder, inputs, reference(module, inputs))
    if second is None:
        return None
    wanted = reference(module, second)
    binary = os.path.join(folder, "model.pnnx.bin")
    if not symbolic and not faults(rendering, binary, second, wanted):
        link_graph(folder, second_folder)
        kind = "traced"
    else:
        for name in ("model.pnnx.param", "model.pnnx.bin"):
            path = os.path.join(second_folder, name)
            if os.path.lexists(path):
                os.remove(path)  # it may be a link to the first case's graph
        rendering = convert(module, inputs, second_folder, second=second, **options)
        binary = os.path.join(second_folder, "model.pnnx.bin")
        found = faults(rendering, binary, second, wanted)
        if found:
            shutil.rmtree(second_folder)
            raise ConversionError("traced for both sizes, pnnx's graph is wrong at the second: " + "; ".join(found))
        kind = "symbolic"
    save_tensors(second_folder, second, wanted)
    return kind


def write_pair(module, inputs, folder, *, second, second_folder=None, replayed=True, **options):
    """Writes one graph, traced for both sizes, as a case at each of them (or, without a second folder, at the first).

    replayed: the graph must pass in pnnx's own rendering of it, which cannot express all that pnnx writes (operators
    left as aten::).
    """
    rendering = convert(module, inputs, folder, second=second, **options)
    binary = os.path.join(folder, "model.pnnx.bin")
    for tensors in (inputs, second):
        found = faults(rendering, binary, tensors, reference(module, tensors)) if replayed else []
        if found:
            raise ConversionError(f"traced for both sizes, pnnx's graph is wrong at {shapes(tensors)}: "
                                  + "; ".join(found))
    save_tensors(folder, inputs, reference(module, inputs))
    if second_folder:
        link_graph(folder, second_folder)
        save_tensors(second_folder, second, reference(module, second))


def faults(rendering, binary, inputs, wanted):
    """How pnnx's own rendering of a graph differs from what torch answered; empty where it does not."""
    try:
        return differences(replay(rendering, binary, inputs), wanted)
    except Exception as error:  # whatever a frozen size breaks
        return [f"pnnx's rendering fails: {error}".splitlines()[0]]
