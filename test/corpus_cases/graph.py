# SPDX-License-Identifier: MIT
"""The graph itself: inputs, outputs, constants and how operators hang together."""
import torch
from torch import nn

from .kit import boolean, case, f32, f64, integers


@case(f32(2, 3), f32(3, 4), f32(4))
def inputs_three():
    def body(x, y, z):
        return torch.matmul(x, y) + z

    return body


@case(f32(2, 3), f32(2, 3))
def inputs_crossed():
    """The second input is used first: inputs go by number, not by first use."""

    def body(x, y):
        return torch.exp(y) - x

    return body


@case(f32(2, 3))
def outputs_nested():
    def body(x):
        return x + 1, (x * 2, [x - 1, x / 2]), torch.relu(x)

    return body


@case(f32(2, 3))
def output_is_input():
    def body(x):
        return x, x + 1

    return body


@case(f32(2, 3))
def output_twice():
    def body(x):
        y = torch.tanh(x)
        return y, y * 2, y

    return body


@case(f32(2, 4, 6), f32(2, 4, 6))
def outputs_also_used():
    """Intermediates that are outputs must outlive their last reader."""

    def body(x, y):
        a = torch.relu(x)
        b = a + y
        c = b * a
        d = torch.sigmoid(c) + b
        return b, d, a, c - d

    return body


@case(f32(3, 4))
def diamond():
    def body(x):
        a = torch.relu(x)
        b = torch.tanh(a)
        c = torch.sigmoid(a)
        d = torch.matmul(b, c.t())
        return torch.cat((d, torch.matmul(c, b.t())), 1) + d.sum() + a[0, 0]

    return body


@case(f32(2, 8))
def long_chain():
    def body(x):
        for i in range(12):
            x = torch.sin(x.view(4, 4) if i % 2 == 0 else x.view(2, 8)) * 1.5 + 0.1 * i
        return x

    return body


@case(f32(2, 6, 3))
def unused_parts():
    """Outputs of a split that nobody reads."""

    def body(x):
        a, _, c = x.split(2, 1)
        values, _ = torch.max(x, 1)
        return a + c, values

    return body


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(3, 1) + 0.5)
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("keep", torch.tensor([[True, False, True, True]]))
        self.register_buffer("exact", torch.arange(4, dtype=torch.float64) / 8)
        self.register_buffer("small", torch.tensor([1, 2, 3, 4], dtype=torch.int32))
        self.shift = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        y = (x * self.scale + self.shift)[self.order]
        return y, torch.where(self.keep, y, -y), x * self.small, x.double() * self.exact


@case(f32(3, 4))
def constants():
    return Constants()


@case(f32(3, 4))
def constants_computed():
    """Parts that do not depend on the input: pnnx folds some, Oort the rest."""

    def body(x):
        grid = torch.arange(4).float().view(1, 4) * 0.5 - 1
        eye = torch.ones(3, 4) * torch.tensor([[1.0], [2.0], [3.0]])
        return x + grid, x * eye + torch.zeros(4), torch.full((3, 4), 2.5) - x

    return body


@case(f32(2, 3))
def output_constant():
    def body(x):
        return x + 1, torch.arange(5), torch.ones(2, 2)

    return body


@case(boolean(2, 3), integers(2, 3), integers(3, dtype=torch.int32), f64(3),
      integers(2, 1, high=200, dtype=torch.uint8))
def inputs_of_all_types():
    def body(b, i, j, d, u):
        return torch.where(b, i, j), d * i, u + j, b & (i > 4)

    return body


@case(f32(2, 5, 4))
def layers_reused():
    """One layer, called twice: its weight exists once in torch, twice in the file."""

    class Reused(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.layer(self.norm(self.layer(x))) + x)

    return Reused()


@case(f32(2, 6), optlevel=0)
def unoptimized():
    """pnnx's lowest level keeps torch's names for operands and some operators as the trace had them."""
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3), nn.Softmax(-1))
