# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32


@case(f32(2, 5, 6, 7), f32(4, 5), f32(2, 5, 9), f32(1, 5, 3, 4, 2))
def batch_norm_forms():
    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.plane = nn.BatchNorm2d(5)
            self.plain = nn.BatchNorm2d(5, affine=False, eps=0.1)
            self.row = nn.BatchNorm1d(5)
            self.volume = nn.BatchNorm3d(5, eps=1e-3)

        def forward(self, x, y, z, w):
            return self.plane(x), self.plain(x), self.row(y), self.row(z), self.volume(w)

    return Norms()


@case(f32(2, 5, 6), f32(5), f32(5), f32(5))
def batch_norm_functional():
    def body(x, mean, weight, bias):
        variance = mean * mean + 0.5
        return (
            F.batch_norm(x, mean, variance, weight, bias, eps=1e-2),
            F.batch_norm(x, mean, variance),
        )

    return body


@case(f32(2, 3, 4, 6))
def layer_norm_forms():
    return Each(
        nn.LayerNorm(6),
        nn.LayerNorm((4, 6), eps=1e-2),
        nn.LayerNorm((3, 4, 6)),
        nn.LayerNorm(6, elementwise_affine=False),
        lambda x: F.layer_norm(x, (4, 6)),
    )


@case(f32(3, 7), f32(7), f32(7))
def layer_norm_functional():
    def body(x, weight, bias):
        return (
            F.layer_norm(x, (7,), weight, bias, eps=1e-3),
            F.layer_norm(x * 1e-4, (7,)),
            F.layer_norm(x + 1000, (7,), weight, bias),
        )

    return body


@case(f32(2, 12, 3, 5), unfaithful="without affine parameters the file lacks num_channels")
def group_norm_forms():
    return Each(
        nn.GroupNorm(3, 12),
        nn.GroupNorm(12, 12, eps=1e-2),
        nn.GroupNorm(1, 12),
        nn.GroupNorm(4, 12, affine=False),
        lambda x: F.group_norm(x, 6),
        lambda x: F.group_norm(x.flatten(1), 2),
    )


@case(f32(2, 4, 5, 6), f32(2, 4, 9), f32(1, 4, 3, 2, 5))
def instance_norm_forms():
    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = nn.InstanceNorm2d(4)
            self.affine = nn.InstanceNorm2d(4, affine=True, eps=1e-2)
            self.stored = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
            self.row = nn.InstanceNorm1d(4, affine=True)
            self.volume = nn.InstanceNorm3d(4)

        def forward(self, x, y, z):
            return self.plain(x), self.affine(x), self.stored(x), self.row(y), self.volume(z)

    return Norms()


@case(f32(2, 3, 8))
def rms_norm_forms():
    return Each(
        nn.RMSNorm(8),
        nn.RMSNorm((3, 8), eps=1e-2),
        nn.RMSNorm(8, elementwise_affine=False),
        lambda x: F.rms_norm(x, (8,), eps=1e-3),
    )


@case(f32(2, 4, 8))
def rms_norm_written_out():
    """As language models write it; pnnx may or may not recognise it."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(8) + 0.5)

        def forward(self, x):
            variance = x.pow(2).mean(-1, keepdim=True)
            return self.weight * (x * torch.rsqrt(variance + 1e-5))

    return Norm()


@case(f32(1, 7, 3, 4))
def local_response_norm_forms():
    return Each(nn.LocalResponseNorm(3), nn.LocalResponseNorm(4, alpha=0.1, beta=0.5, k=2.0))


@case(f32(2, 6, 5))
def normalize_forms():
    return Each(
        lambda x: F.normalize(x),
        lambda x: F.normalize(x, p=1, dim=2),
        lambda x: F.normalize(x * 0, dim=-1, eps=1e-3),
    )
