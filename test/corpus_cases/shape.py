# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32, integers


@case(f32(2, 3, 4), f32(2, 5, 4), f32(2, 3, 4))
def cat_and_stack():
    def body(x, y, z):
        return (
            torch.cat((x, y), 1),
            torch.cat((x, z), 0),
            torch.cat((x, z, x), -1),
            torch.stack((x, z)),
            torch.stack((x, z), 2),
            torch.stack((x, z, z), -1),
        )

    return body


@case(f32(2, 3), integers(2, 3, dtype=torch.int32), integers(2, 3))
def cat_promotes():
    def body(x, i, j):
        return torch.cat((x, i), 1), torch.cat((i, j), 0), torch.cat((j, x, i), -1)

    return body


@case(f32(2, 0, 4), f32(2, 3, 4), f32(0))
def cat_nothing():
    """Empty parts count for nothing; a rank-1 empty one is legal beside any rank."""

    def body(x, y, z):
        return torch.cat((x, y), 1), torch.cat((x, x), 1), torch.cat((z, y), 2)

    return body


@case(f32(2, 10, 7))
def split_forms():
    return Each(
        lambda x: x.chunk(3, 1),
        lambda x: x.chunk(4, -1),
        lambda x: x.chunk(2, 0),
        lambda x: x.split(4, 1),
        lambda x: x.split((1, 2, 4), 2),
        lambda x: torch.tensor_split(x, 3, 1),
        lambda x: torch.tensor_split(x, (2, 5), 2),
        lambda x: torch.unbind(x, 0),
    )


@case(f32(3, 8, 9))
def slices():
    return Each(
        lambda x: x[1:],
        lambda x: x[:, 2:7:2],
        lambda x: x[:, :, -4:-1],
        lambda x: x[..., ::3],
        lambda x: x[0:2, 1:8:3, 4:],
        lambda x: x[:, 5:3],
        lambda x: x[:, 2:100],
        lambda x: x[1, 2:4],
        lambda x: x[:, -1, ::2],
        lambda x: x[2, 3, 4],
        lambda x: x[:, None, 1:3],
    )


@case(f32(3, 8, 9))
def selects():
    return Each(
        lambda x: x.select(0, 1),
        lambda x: x.select(-1, -2),
        lambda x: x[:, 3],
        lambda x: x[-1],
        lambda x: torch.narrow(x, 1, 2, 3),
    )


@case(f32(2, 3, 4, 5))
def permutes():
    return Each(
        lambda x: x.permute(0, 2, 3, 1),
        lambda x: x.permute(3, 1, 0, 2),
        lambda x: x.permute(0, -1, 1, 2),
        lambda x: x.transpose(1, 2),
        lambda x: x.transpose(-1, 0),
        lambda x: x[0, 0].t(),
        lambda x: x.permute(0, 2, 3, 1).contiguous().view(2, 4, 15),
        lambda x: x.permute(1, 0, 2, 3).flatten(2),
    )


@case(f32(2, 3, 4, 5))
def reshapes():
    return Each(
        lambda x: x.reshape(6, 20),
        lambda x: x.view(2, -1, 10),
        lambda x: x.reshape(-1),
        lambda x: x.reshape(2, 1, 3, 4, 5, 1),
        lambda x: torch.flatten(x),
        lambda x: torch.flatten(x, 1),
        lambda x: torch.flatten(x, 1, 2),
        lambda x: torch.flatten(x, -3, -2),
        lambda x: x.unflatten(3, (5, 1)),
        lambda x: x.unflatten(-2, (2, -1)),
        nn.Flatten(),
        nn.Unflatten(1, (3, 1)),
    )


@case(f32(2, 1, 3, 1))
def squeezes():
    return Each(
        lambda x: x.squeeze(),
        lambda x: x.squeeze(1),
        lambda x: x.squeeze(-1),
        lambda x: x.squeeze(0),
        lambda x: x.unsqueeze(0),
        lambda x: x.unsqueeze(-1),
        lambda x: x.unsqueeze(2),
    )


@case(f32(3, 1, 4), f32(2, 3, 5, 4))
def expands():
    def body(x, y):
        return (
            x.expand(3, 5, 4),
            x.expand(-1, 2, -1),
            x.expand(2, 3, 5, 4),
            x.expand_as(y),
            x.repeat(2, 3, 1),
            x.repeat(2, 1, 2, 2),
            torch.tile(x, (2,)),
            x.expand(3, 5, 4) + y,
        )

    return body


@case(f32(2, 3, 5, 6))
def pads():
    return Each(
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, (1, 0, 2, 1), value=1.5),
        lambda x: F.pad(x, (0, 1, 0, 0, 2, 1)),
        lambda x: F.pad(x, (-1, 2, 1, -2)),
        lambda x: F.pad(x, (2, 3, 1, 2), mode="reflect"),
        lambda x: F.pad(x, (2, 3, 1, 2), mode="replicate"),
        lambda x: F.pad(x, (2, 3, 1, 2), mode="circular"),
        nn.ZeroPad2d((1, 2, 0, 3)),
        nn.ConstantPad2d((1, 0, 2, 0), -0.7),
        nn.ReflectionPad2d((1, 2, 3, 0)),
        nn.ReplicationPad2d((7, 0, 0, 6)),
    )


@case(f32(2, 3, 7), f32(1, 2, 3, 4, 5))
def pads_1d_3d():
    def body(x, y):
        return (
            F.pad(x, (2, 3), mode="reflect"),
            F.pad(x, (9, 1), mode="replicate"),
            F.pad(x, (3, 2), mode="circular"),
            F.pad(x, (2, 0), value=-2.0),
            F.pad(y, (1, 2, 0, 1, 2, 1), value=0.5),
            F.pad(y, (1, 2, 2, 0, 1, 1), mode="replicate"),
        )

    return body


@case(f32(3, 4, 5))
def rolls_and_flips():
    return Each(
        lambda x: torch.roll(x, 2, 1),
        lambda x: torch.roll(x, (-1, 3), (0, 2)),
        lambda x: torch.roll(x, 7),
        lambda x: torch.flip(x, (0,)),
        lambda x: torch.flip(x, (-1, 1)),
    )


@case(f32(2, 3, 4), f32(3, 2, 2, 2))
def reshape_like():
    def body(x, y):
        return x.reshape_as(y), y.reshape_as(x) * x

    return body


@case(f32())
def rank_zero():
    return Each(lambda x: x + 1, lambda x: x.reshape(1, 1), lambda x: x.expand(3), lambda x: torch.relu(x))


@case(f32(1, 3, 4, 8), unfaithful="the rendering reshapes to an extent too many")
def reshape_to_rounded_sizes():
    """Sizes that are rounded as tensors: pnnx writes factors of them again behind the shape."""

    def body(x):
        b, c, h, w = x.shape
        tracing = torch.jit.is_tracing()
        rows, columns = ((torch.ceil(n / 2) * 2).to(torch.int64) // 2 if tracing else -(-n // 2) for n in (h, w))
        patches = x.reshape(b * c * rows, 2, columns, 2).transpose(1, 2).reshape(b, c, rows * columns, 4)
        return patches.transpose(1, 3).reshape(b * 4, rows * columns, -1) * 2

    return body


@case(f32(1, 6, 8))
def as_strided_of_a_view():
    """Strides count in memory, and a transposed view has that of the tensor before."""

    def body(x):
        heads = (x * 2).view(6, 2, 4).transpose(0, 1)
        windows = heads.as_strided((2, 5, 2, 4), (4, 8, 8, 1))
        copied = heads.reshape(12, 4).as_strided((3, 4), (8, 1))
        return windows, copied, heads.as_strided((2, 6, 4), (4, 8, 1)) - heads

    return body
