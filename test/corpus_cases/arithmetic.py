# SPDX-License-Identifier: MIT
import torch

from .kit import Each, boolean, case, f32, f64, integers, special, unit


@case(f32(3, 1, 5), f32(4, 1), f32(3, 4, 5), f32(1), f32())
def broadcasting():
    def body(a, b, c, d, e):
        return a + b, a * c - b, c / (d * d + 1), (a + b) * c, e * c + d, a - e, c * 2 + 1 - a / 3

    return body


@case(f32(2, 3, 7), f32(2, 3, 7), f32(2, 3, 7))
def long_expression():
    def body(x, y, z):
        w = (x * y + z) * 0.5 - (x - y) * (z + 1.25) / (x * x + 1)
        return w * torch.sigmoid(w), torch.maximum(w, x) - torch.minimum(y, z) * w

    return body


@case(f32(3, 11))
def functions():
    return Each(
        torch.abs, torch.neg, torch.exp, torch.expm1, torch.sin, torch.cos, torch.tan, torch.atan, torch.sinh,
        torch.cosh, torch.tanh, torch.asinh, torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign,
        torch.square, torch.reciprocal, torch.erf,
    )  # fmt: skip


@case(unit(3, 11))
def functions_of_positives():
    return Each(
        torch.sqrt, torch.rsqrt, torch.log, torch.log10, torch.log1p, torch.asin, torch.acos, torch.atanh,
        lambda x: torch.acosh(x + 1), lambda x: x**0.3, lambda x: torch.pow(x, -1.5),
    )  # fmt: skip


@case(special(23))
def functions_special():
    return Each(
        torch.abs, torch.neg, torch.exp, torch.sqrt, torch.rsqrt, torch.log, torch.floor, torch.round, torch.sign,
        torch.square, torch.reciprocal, lambda x: x * 0, lambda x: x / 0, lambda x: x**2, lambda x: x**0.5,
    )  # fmt: skip


@case(f32(3, 7), f32(3, 7))
def pairs():
    def body(x, y):
        return (
            x + y, x - y, x * y, x / y, torch.atan2(x, y), torch.maximum(x, y), torch.minimum(x, y),
            torch.fmod(x, y), torch.remainder(x, y), torch.pow(x.abs(), y), torch.logaddexp(x, y),
            torch.add(x, y, alpha=3), torch.sub(x, y, alpha=0.5), 2 - x, 1 / y, 2**x,
        )  # fmt: skip

    return body


@case(integers(3, 7, low=-20, high=20), integers(3, 7, low=1, high=6))
def pairs_of_integers():
    def body(i, j):
        return (
            i + j, i - j, i * j, i / j, i // j, i % j, torch.fmod(i, j), i & j, i | j, i ^ j, j << 2, i >> 1,
            torch.maximum(i, j), -i, i.abs(), i * 3 + 1, i * 0.5, i + 1.5,
        )  # fmt: skip

    return body


@case(f32(2, 5), integers(2, 5), integers(2, 5, dtype=torch.int32), boolean(2, 5), f64(2, 5),
      integers(2, 5, dtype=torch.uint8))
def promotion():
    def body(f, i, j, b, d, u):
        return f + i, i + j, f * b, i + b, j * 2.5, f + d, i / j.add(1), u + j, u + 1, b * 2, d + 1, f * 2 + i

    return body


@case(boolean(3, 4), boolean(3, 4), boolean(4))
def logic():
    def body(a, b, c):
        return (
            a & b, a | c, a ^ b, torch.logical_and(a, b), torch.logical_or(a, c), torch.logical_xor(a, b),
            torch.logical_not(a), ~a,
        )  # fmt: skip

    return body


@case(f32(3, 4), f32(3, 4), integers(3, 4, high=3))
def comparisons():
    def body(x, y, i):
        return x > y, x < 0.1, x >= y[0], y <= 0, i == 1, i != i[0], x == x, torch.gt(i, 1), x * (y > 0)

    return body


@case(special(23))
def comparisons_special():
    return Each(lambda x: x > 0, lambda x: x == x, lambda x: x != x, lambda x: x <= float("inf"))


@case(f32(3, 7), f32(3, 7))
def clamps():
    def body(x, y):
        return (
            x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp(max=0), torch.clamp(x, min=y), torch.clamp(x, y - 1, y + 1),
            torch.nn.functional.hardtanh(x, -0.1, 0.1),
        )  # fmt: skip

    return body


@case(f32(3, 5), integers(3, 5, low=-3, high=3), boolean(3, 5), f64(2, 3))
def casts():
    def body(x, i, b, d):
        return (
            x.long(), (x * 10).to(torch.int32), i.float(), b.float(), i.bool(), x.double(), d.float(), b.long() + 1,
            (x * 3).to(torch.int8), i.to(torch.int16), x.type_as(d), i.to(x),
        )  # fmt: skip

    return body


@case(f32(2, 3, 4, 5))
def swish_and_friends():
    """Activations written out, as exporters of mobile networks do."""
    return Each(
        lambda x: x * torch.sigmoid(x),
        lambda x: x * torch.clamp(x + 3, 0, 6) / 6,
        lambda x: 0.5 * x * (1 + torch.erf(x / 1.41421356)),
        lambda x: x / (1 + x.abs()),
        lambda x: torch.exp(x) / torch.exp(x).sum(1, keepdim=True),
    )
