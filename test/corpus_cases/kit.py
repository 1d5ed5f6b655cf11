# SPDX-License-Identifier: MIT
"""How a case of the corpus is declared. A case is a function that builds a module; its name is the case's folder.

    @case(f32(1, 4, 9, 10))
    def conv2d_stride():
        return Each(nn.Conv2d(4, 6, 3, stride=2), lambda x: F.avg_pool2d(x, 3))
"""
import dataclasses
import typing
import zlib

import pnnx_case
import torch
from torch import nn

CASES = {}


@dataclasses.dataclass
class Case:
    name: str
    build: typing.Callable
    inputs: tuple
    second: list | None
    symbolic: bool
    calibrate: bool
    unfaithful: str
    options: dict  # of pnnx_case.convert

    def seed(self):
        return zlib.crc32(self.name.encode())

    def module(self):
        """The seeded module in inference mode, with norms that are not the identity."""
        torch.manual_seed(self.seed())
        body = self.build()
        # pnnx's rendering cannot name the bare numbers of a sequence's parts.
        whole = isinstance(body, nn.Module) and not isinstance(body, nn.Sequential)
        module = body if whole else Each(body)
        for part in module.modules():
            scatter(part)
        if self.calibrate:
            inputs = self.tensors(self.inputs, salt=2)
            pnnx_case.calibrate(module.eval(), *(torch.cat([x] + [torch.randn_like(x)] * 3) for x in inputs))
        return module.eval()

    def tensors(self, specs, salt):
        generator = torch.Generator().manual_seed(self.seed() + salt)
        return [spec(generator) for spec in specs]


def case(*inputs, second=None, symbolic=False, calibrate=False, unfaithful="", **options):
    """Declares a case.

    second: inputs of other sizes; a second folder NAME@2 has the same network with these.
    symbolic: both folders hold a graph that is traced for both sizes (else the plain trace must do for both).
    calibrate: batch norms get the statistics of random inputs, so that deep networks keep their signal.
    optlevel, by_value: as in pnnx_case.convert.
    unfaithful: pnnx's own Python rendering of this graph is known to be wrong, for the reason given.
    """

    def declare(build):
        name = build.__name__
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, build, inputs, second, symbolic, calibrate, unfaithful, options)
        return build

    return declare


class Each(nn.Module):
    """Applies each of several modules or functions to the inputs and returns all results."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(p if isinstance(p, nn.Module) else Function(p) for p in parts)

    def forward(self, *inputs):
        results = tuple(part(*inputs) for part in self.parts)
        return results[0] if len(results) == 1 else results


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def scatter(module):
    """Norms start as the identity, which would hide that a weight or a statistic is ignored."""
    norms = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
    if not isinstance(module, norms):
        return
    if getattr(module, "weight", None) is not None:
        nn.init.uniform_(module.weight, 0.5, 1.5)
    if getattr(module, "bias", None) is not None:
        nn.init.uniform_(module.bias, -0.5, 0.5)
    if getattr(module, "running_mean", None) is not None:
        module.running_mean.uniform_(-0.5, 0.5)
        module.running_var.uniform_(0.5, 1.5)


def f32(*shape):
    return lambda generator: torch.randn(shape, generator=generator)


def unit(*shape):
    """In 0…1, without the ends."""
    return lambda generator: torch.rand(shape, generator=generator) * 0.98 + 0.01


def f64(*shape):
    return lambda generator: torch.randn(shape, generator=generator, dtype=torch.float64)


def integers(*shape, low=0, high=10, dtype=torch.int64):
    """In low…high-1."""
    return lambda generator: torch.randint(low, high, shape, generator=generator).to(dtype)


def boolean(*shape):
    return lambda generator: torch.rand(shape, generator=generator) < 0.6


def some_true(*shape):
    """Each row has a True first and a False last."""

    def make(generator):
        values = torch.rand(shape, generator=generator) < 0.5
        values[..., 0] = True
        values[..., -1] = False
        return values

    return make


def special(*shape):
    """Ordinary numbers and those at which functions break: ±0, ±inf, NaN, very large and very small."""

    def make(generator):
        odd = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e30, -1e30, 1e-30, -1e-30, 90.0, -90.0]
        odd += [0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 20.0, 20.5]
        values = torch.randn(shape, generator=generator) * 3
        values.view(-1)[: len(odd)] = torch.tensor(odd)
        return values

    return make
