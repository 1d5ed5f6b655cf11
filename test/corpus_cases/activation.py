# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32, special


def bounded():
    return [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(), nn.Hardtanh(-0.3, 0.7), nn.Hardsigmoid(), nn.Hardswish(),
            nn.Sigmoid(), nn.Tanh()]


def smooth():
    return [nn.SiLU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.Mish(), nn.Softplus(), nn.Softplus(2, 5),
            nn.LogSigmoid(), nn.Softsign()]


def linear_parts():
    return [nn.LeakyReLU(), nn.LeakyReLU(0.3), nn.ELU(), nn.ELU(0.5), nn.SELU(), nn.CELU(1.7), nn.Threshold(0.1, 0.4),
            nn.RReLU()]


def shrinking():
    return [nn.Hardshrink(), nn.Hardshrink(0.2), nn.Softshrink(), nn.Softshrink(0.8), nn.Tanhshrink()]


@case(f32(2, 3, 5, 7))
def activations_bounded():
    return Each(*bounded())


@case(f32(2, 3, 5, 7))
def activations_smooth():
    return Each(*smooth())


@case(f32(2, 3, 5, 7))
def activations_linear_parts():
    return Each(*linear_parts())


@case(f32(2, 3, 5, 7))
def activations_shrinking():
    return Each(*shrinking())


@case(special(31))
def activations_special():
    """What each makes of zeros of both signs, infinities, NaN, and huge and tiny numbers."""
    return Each(*bounded(), *smooth(), *linear_parts(), *shrinking())


@case(f32(19))
def activations_functional():
    return Each(
        F.relu,
        F.relu6,
        torch.sigmoid,
        torch.tanh,
        F.silu,
        F.gelu,
        lambda x: F.gelu(x, approximate="tanh"),
        F.hardswish,
        F.hardsigmoid,
        F.mish,
        F.elu,
        lambda x: F.elu(x, 0.4),
        F.selu,
        lambda x: F.celu(x, 0.4),
        lambda x: F.leaky_relu(x, 0.2),
        lambda x: F.hardtanh(x, -0.2, 0.6),
        lambda x: F.softplus(x, 1.5, 1.0),
        F.softsign,
        F.logsigmoid,
        F.tanhshrink,
        lambda x: F.threshold(x, 0.2, -3.0),
    )


@case(f32(2, 4, 3, 5))
def activations_of_channels():
    prelu = nn.PReLU(4)
    nn.init.uniform_(prelu.weight, -0.5, 0.5)
    return Each(prelu, nn.PReLU(), nn.GLU(1), lambda x: F.glu(x, 1), nn.Softmax2d())


@case(f32(2, 4, 3, 5))
def softmax_forms():
    return Each(
        nn.Softmax(1),
        nn.Softmax(-1),
        nn.LogSoftmax(2),
        nn.Softmin(0),
        lambda x: F.softmax(x, 3),
        lambda x: F.log_softmax(x * 200, 1),
        lambda x: F.softmax(x * 1000, -1),
        lambda x: F.softmin(x, 1),
    )


@case(f32(3, 5))
def softmax_of_masked_rows():
    """A row that is masked throughout is NaN, in torch too."""

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            mask = torch.zeros(3, 5)
            mask[0, 2:] = float("-inf")
            mask[1] = float("-inf")
            self.register_buffer("mask", mask)

        def forward(self, x):
            return F.softmax(x + self.mask, -1), F.log_softmax(x + self.mask, -1)

    return Masked()


@case(f32(1))
def softmax_of_one():
    return Each(nn.Softmax(0), lambda x: F.log_softmax(x, 0))
