#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Networks that torch quantized, in pnnx's notation, with what torch answers.

    pip install torch numpy
    test/quantize/make_torch_goldens.py

pnnx converts such modules only where its libtorch has an engine for them, so this script writes the two files itself,
as pnnx does: modules with their weights, scales and zero points, functions with constants as expressions.
"""
import pathlib
import warnings
import zipfile

import numpy as np
import torch
from torch import nn
from torch.ao import quantization

HERE = pathlib.Path(__file__).parent / "goldens"
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.quint8: "u8", torch.qint8: "i8"}


class Writer:
    """A .param file and its .bin, operator by operator."""

    def __init__(self):
        self.lines, self.files, self.operands = [], {}, 0

    def operand(self):
        self.operands += 1
        return str(self.operands - 1)

    def add(self, kind, name, inputs, result, attributes=(), shapes=None, **params):
        out = [] if result is None else [self.operand()]
        words = [kind, name, str(len(inputs)), str(len(out)), *inputs, *out]
        words += [f"{key}={value}" for key, value in params.items()]
        for key, tensor in attributes:
            quantized = tensor.is_quantized
            words.append(f"@{key}=({','.join(map(str, tensor.shape))}){DTYPES[tensor.dtype]}")
            plain = tensor.int_repr() if quantized else tensor
            self.files[f"{name}.{key}"] = plain.detach().contiguous().numpy().tobytes()
        for operand in out:
            words.append(f"#{operand}=({','.join(map(str, result.shape))}){DTYPES[result.dtype]}")
        self.lines.append(" ".join(words))
        return out[0] if out else None

    def constant(self, value):
        name = f"pnnx_expr_{len(self.lines)}"
        operand = self.operand()
        self.lines.append(f"pnnx.Expression {name} 0 1 {operand} expr={value}")
        return operand

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        head = f"7767517\n{len(self.lines)} {self.operands}\n"
        (folder / "model.pnnx.param").write_text(head + "\n".join(self.lines) + "\n")
        with zipfile.ZipFile(folder / "model.pnnx.bin", "w", zipfile.ZIP_STORED) as file:
            for name, data in self.files.items():
                file.writestr(zipfile.ZipInfo(name), data)


def weights(module):
    weight, bias = module.weight(), module.bias()
    return [
        ("bias", bias),
        ("weight", weight),
        ("weight.q_per_channel_scales", weight.q_per_channel_scales()),
        ("weight.q_per_channel_zero_points", weight.q_per_channel_zero_points()),
    ]


def numbers(module):
    return {"scale": f"{float(module.scale):.9e}", "zero_point": int(module.zero_point)}


def pair(value):
    return "(" + ",".join(map(str, value)) + ")"


class Network(nn.Module):
    """Everything that torch leaves of a small residual network: modules, functions, and what keeps its scale."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.first_relu = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.third, self.relu = nn.Conv2d(8, 4, 1), nn.ReLU()
        self.sum = torch.ao.nn.quantized.FloatFunctional()
        self.join = torch.ao.nn.quantized.FloatFunctional()
        self.product = torch.ao.nn.quantized.FloatFunctional()
        self.pool, self.squeeze = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)
        self.hidden, self.hidden_relu, self.head = nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 5)

    def forward(self, x):
        return self.walk(x, None)

    def walk(self, x, w):
        """The answer; each step is also written by `w`, if there is one."""

        def step(kind, name, inputs, result, **options):
            return w and w.add(kind, name, inputs, result, **options)

        def module(kind, name, operand, y, **params):
            layer = getattr(self, name)
            return w and w.add(kind, name, [operand], y, weights(layer), **params, **numbers(layer))

        def convolution(kind, name, operand, y):
            c = getattr(self, name)
            return w and module(
                kind, name, operand, y, stride=pair(c.stride), padding=pair(c.padding), dilation=pair(c.dilation),
                groups=c.groups, padding_mode="zeros", in_channels=c.in_channels, out_channels=c.out_channels,
                kernel_size=pair(c.kernel_size), bias=True)

        def function(kind, name, operands, y):
            if w is None:
                return None
            by = numbers(getattr(self, name))
            return w.add(kind, name, [*operands, w.constant(by["scale"]), w.constant(by["zero_point"])], y)

        i = step("pnnx.Input", "pnnx_input_0", [], x)
        q = self.enter(x)
        # pnnx calls every such dtype qint8.
        i = w and w.add("nn.quantized.Quantize", "enter", [i], q, dtype="torch.qint8", **numbers(self.enter))
        a = self.first_relu(self.first(q))
        ia = convolution("nn.intrinsic.quantized.ConvReLU2d", "first", i, a)
        b = self.second(a)
        ib = convolution("nn.quantized.Conv2d", "second", ia, b)
        y = self.sum.add_relu(a, b)
        iy = function("quantized::add_relu", "sum", [ia, ib], y)
        t = self.third(y)
        it = convolution("nn.quantized.Conv2d", "third", iy, t)
        z = self.relu(t)
        iz = step("nn.ReLU", "relu", [it], z)
        windows = {"kernel_size": "(2,2)", "stride": "(2,2)", "padding": "(0,0)", "dilation": "(1,1)",
                   "ceil_mode": False, "return_indices": False}
        z = self.pool(z)
        iz = step("nn.MaxPool2d", "pool", [iz], z, **windows)
        y = self.pool(y)
        iy = step("nn.MaxPool2d", "pool_1", [iy], y, **windows)
        y = self.join.cat([y, z], 1)
        iy = w and w.add("nn.quantized.cat", "join", [iy, iz], y, dim=1, **numbers(self.join))
        y = self.squeeze(y)
        iy = step("nn.AdaptiveAvgPool2d", "squeeze", [iy], y, output_size="(1,1)")
        y = torch.flatten(y, 1)
        iy = step("torch.flatten", "flatten", [iy], y, start_dim=1, end_dim=-1)
        y = self.hidden_relu(self.hidden(y))
        iy = module("nn.intrinsic.quantized.LinearReLU", "hidden", iy, y, in_features=12, out_features=9)
        y = self.product.mul(y, y)
        iy = function("quantized::mul", "product", [iy, iy], y)
        y = self.head(y)
        iy = module("nn.quantized.Linear", "head", iy, y, in_features=9, out_features=5)
        y = self.leave(y)
        iy = step("nn.quantized.DeQuantize", "leave", [iy], y)
        step("pnnx.Output", "pnnx_output_0", [iy], None)
        return y


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(7)
    engines = torch.backends.quantized.supported_engines
    torch.backends.quantized.engine = "qnnpack" if "qnnpack" in engines else "fbgemm"
    network = Network().eval()
    network = quantization.fuse_modules(network, [["first", "first_relu"], ["hidden", "hidden_relu"]])
    network.qconfig = quantization.QConfig(
        activation=quantization.HistogramObserver.with_args(reduce_range=False),
        weight=quantization.default_per_channel_weight_observer,
    )
    prepared = quantization.prepare(network)
    for _ in range(16):
        prepared(torch.randn(2, 3, 8, 8))
    quantized = quantization.convert(prepared)
    x = torch.randn(2, 3, 8, 8)
    writer = Writer()
    with torch.no_grad():
        y = quantized.walk(x, writer)
    folder = HERE / "torch"
    writer.write(folder)
    np.save(folder / "in0.npy", x.numpy())
    np.save(folder / "out0.npy", y.numpy())


if __name__ == "__main__":
    main()
