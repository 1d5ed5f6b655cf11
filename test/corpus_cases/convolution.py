# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32


@case(f32(2, 4, 17))
def conv1d_forms():
    return Each(
        nn.Conv1d(4, 6, 3),
        nn.Conv1d(4, 6, 4, stride=3, padding=2, bias=False),
        nn.Conv1d(4, 8, 3, padding=2, dilation=2, groups=2),
        nn.Conv1d(4, 4, 5, groups=4, padding="same"),
        nn.Conv1d(4, 3, 2, padding="valid"),
        nn.Conv1d(4, 3, 4, padding="same", dilation=3),
    )


@case(f32(2, 4, 11))
def conv1d_padding_modes():
    return Each(
        nn.Conv1d(4, 3, 3, padding=2, padding_mode="reflect"),
        nn.Conv1d(4, 3, 3, padding=2, padding_mode="replicate", stride=2),
        nn.Conv1d(4, 3, 5, padding=2, padding_mode="circular"),
    )


@case(f32(4, 15))
def conv1d_unbatched():
    return Each(nn.Conv1d(4, 5, 3, stride=2, padding=1), nn.Conv1d(4, 4, 3, groups=2))


@case(f32(1, 4, 11, 13))
def conv2d_stride_padding():
    return Each(
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2), bias=False),
        nn.Conv2d(4, 6, 3, stride=(1, 3), padding=(0, 1)),
        nn.Conv2d(4, 5, 3, stride=1, padding=4),
        nn.Conv2d(4, 5, (11, 13)),
    )


@case(f32(1, 3, 23, 19))
def conv2d_stems():
    return Each(
        nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False),
        nn.Conv2d(3, 8, 6, stride=2, padding=2),
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.Conv2d(3, 8, 8, stride=8),
        nn.Conv2d(3, 4, 5, stride=4, padding=2),
    )


@case(f32(2, 7, 9, 10))
def conv2d_pointwise():
    return Each(
        nn.Conv2d(7, 9, 1),
        nn.Conv2d(7, 16, 1, bias=False),
        nn.Conv2d(7, 3, 1, stride=2),
        nn.Conv2d(7, 3, 1, stride=(1, 3), padding=(2, 1)),
        nn.Conv2d(7, 1, 1),
    )


@case(f32(1, 4, 12, 14))
def conv2d_dilation():
    return Each(
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, dilation=(1, 3), padding=(1, 3)),
        nn.Conv2d(4, 4, (2, 3), dilation=(3, 2), stride=(2, 3), padding=(4, 1)),
        nn.Conv2d(4, 4, 3, dilation=2, groups=4, padding=2),
    )


@case(f32(1, 12, 9, 11))
def conv2d_groups():
    return Each(
        nn.Conv2d(12, 12, 3, groups=12, padding=1),
        nn.Conv2d(12, 24, 3, groups=12, stride=2, padding=1, bias=False),
        nn.Conv2d(12, 12, 5, groups=12, stride=2, padding=2),
        nn.Conv2d(12, 6, 3, groups=3),
        nn.Conv2d(12, 8, 1, groups=4),
        nn.Conv2d(12, 12, (7, 3), groups=12, padding=(3, 1)),
    )


@case(f32(1, 4, 9, 10))
def conv2d_same_valid():
    return Each(
        nn.Conv2d(4, 3, 3, padding="same"),
        nn.Conv2d(4, 3, (4, 2), padding="same"),
        nn.Conv2d(4, 3, (2, 5), padding="same", dilation=(3, 1)),
        nn.Conv2d(4, 3, 3, padding="valid", stride=2),
        nn.Conv2d(4, 4, 4, padding="same", groups=4),
    )


@case(f32(1, 4, 8, 9))
def conv2d_padding_modes():
    return Each(
        nn.Conv2d(4, 3, 3, padding=(2, 1), padding_mode="reflect"),
        nn.Conv2d(4, 3, 3, padding=2, padding_mode="replicate", stride=2),
        nn.Conv2d(4, 3, (5, 3), padding=(3, 1), padding_mode="circular"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect", groups=4, bias=False),
        nn.Conv2d(4, 3, 4, padding="same", padding_mode="replicate"),
    )


@case(f32(3, 9, 8))
def conv2d_unbatched():
    return Each(nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(3, 3, 3, groups=3, stride=2))


@case(f32(5, 3, 7, 6))
def conv2d_batch():
    return Each(nn.Conv2d(3, 5, 3, padding=1), nn.Conv2d(3, 6, 3, groups=3), nn.Conv2d(3, 4, 1))


@case(f32(1, 13, 6, 7))
def conv2d_odd_channels():
    return Each(
        nn.Conv2d(13, 17, 3, padding=1),
        nn.Conv2d(13, 1, 3, padding=1),
        nn.Conv2d(13, 33, 1),
        nn.Conv2d(13, 13, 3, groups=13),
    )


@case(f32(1, 6, 1, 1))
def conv2d_one_pixel():
    return Each(nn.Conv2d(6, 9, 1), nn.Conv2d(6, 5, 3, padding=1), nn.Conv2d(6, 6, 5, padding=2, groups=6))


@case(f32(1, 16, 14, 13))
def conv2d_three_by_three():
    return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3))


@case(f32(0, 4, 6, 5))
def conv2d_no_pictures():
    return Each(nn.Conv2d(4, 3, 3, padding=1), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 2, 1))


@case(f32(1, 4, 5, 6, 7))
def conv3d_forms():
    return Each(
        nn.Conv3d(4, 3, 3, padding=1),
        nn.Conv3d(4, 3, (1, 2, 3), stride=(1, 2, 1), bias=False),
        nn.Conv3d(4, 4, 3, groups=4, padding=(2, 1, 0), dilation=(2, 1, 2)),
        nn.Conv3d(4, 3, (2, 3, 2), padding="same"),
        nn.Conv3d(4, 2, 3, padding=1, padding_mode="replicate"),
        nn.Conv3d(4, 2, 1, stride=2),
    )


@case(f32(4, 4, 5, 6))
def conv3d_unbatched():
    return nn.Conv3d(4, 2, 3, stride=(1, 2, 1), padding=1)


@case(f32(2, 4, 9), f32(6, 4, 3), f32(6), f32(1, 4, 6, 7), f32(4, 2, 3, 2), f32(1, 2, 4, 5, 4), f32(2, 2, 2, 2, 3))
def conv_functional():
    def body(x1, w1, b1, x2, w2, x3, w3):
        return (
            F.conv1d(x1, w1, b1, stride=2, padding=1),
            F.conv1d(x1, w1, None, padding="same", dilation=2),
            F.conv2d(x2, w2, None, stride=(2, 1), padding=(1, 0), groups=2),
            F.conv2d(x2, w2, b1[:4], padding="same", groups=2),
            F.conv3d(x3, w3, None, stride=(1, 2, 1), padding=(0, 1, 1)),
        )

    return body


def norm_pair(conv, norm):
    return nn.Sequential(conv, norm, nn.ReLU())


@case(f32(2, 4, 9, 8), optlevel=1)
def conv_batch_norm_apart():
    """Below its full optimisation pnnx leaves batch norms beside their convolutions, for Oort to merge."""
    return Each(
        norm_pair(nn.Conv2d(4, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)),
        norm_pair(nn.Conv2d(4, 6, 3, stride=2), nn.BatchNorm2d(6, eps=1e-2)),
        norm_pair(nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8, affine=False)),
        norm_pair(nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect", groups=4), nn.BatchNorm2d(4)),
    )


@case(f32(2, 4, 9), f32(1, 4, 5, 4, 6), optlevel=1)
def conv_batch_norm_apart_1d_3d():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = norm_pair(nn.Conv1d(4, 6, 3, groups=2), nn.BatchNorm1d(6))
            self.three = norm_pair(nn.Conv3d(4, 3, 2, bias=False), nn.BatchNorm3d(3))

        def forward(self, x, y):
            return self.one(x), self.three(y)

    return Both()


@case(f32(1, 4, 7, 7), optlevel=1)
def conv_batch_norm_shared():
    """The convolution's result is used twice, so the batch norm cannot be merged into it."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 5, 3, padding=1)
            self.norm = nn.BatchNorm2d(5)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + torch.relu(y)

    return Shared()


@case(f32(1, 3, 8, 8))
def conv_batch_norm_merged_by_pnnx():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.SiLU(), nn.Conv2d(6, 6, 1, groups=2), nn.BatchNorm2d(6)
    )


@case(f32(1, 3, 9, 7))
def conv_after_pad():
    return Each(
        nn.Sequential(nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(3, 4, 3)),
        nn.Sequential(nn.ReflectionPad2d((2, 1, 1, 2)), nn.Conv2d(3, 4, 3, stride=2)),
        nn.Sequential(nn.ConstantPad2d(1, 0.5), nn.Conv2d(3, 4, 3)),
    )


@case(
    f32(2, 4, 7),
    f32(1, 4, 5, 6),
    f32(1, 4, 3, 4, 3),
    unfaithful="y[0] of one picture becomes a torch.unbind, whose one result the rendering leaves in a tuple",
)
def conv_transpose_forms():
    class Transposed(nn.Module):
        def __init__(self):
            super().__init__()
            self.row = nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)
            self.twice = nn.ConvTranspose2d(4, 3, 2, stride=2, bias=False)
            self.alone = nn.ConvTranspose2d(4, 3, 3, padding=1)
            self.grouped = nn.ConvTranspose2d(4, 6, 3, stride=(2, 1), padding=(1, 0), output_padding=(1, 0), groups=2)
            self.spread = nn.ConvTranspose2d(4, 4, (2, 3), dilation=(3, 2), padding=1, groups=4)
            self.volume = nn.ConvTranspose3d(4, 2, (2, 3, 2), stride=(1, 2, 2), padding=(0, 1, 0))

        def forward(self, x, y, z):
            return self.row(x), self.twice(y), self.grouped(y), self.spread(y), self.volume(z), self.alone(y[0])

    return Transposed()


@case(
    f32(2, 4, 5, 6, 7),
    unfaithful="the rendering pads both sides of each axis twice",
)
def conv3d_circular():
    """pnnx writes the padding of a circular 3d convolution as torch pads: both sides, the last axis first."""
    return Each(
        nn.Conv3d(4, 3, (3, 2, 1), padding=(1, 0, 2), dilation=(1, 2, 3), padding_mode="circular"),
        nn.Conv3d(4, 3, (1, 3, 2), padding="same", padding_mode="circular"),
    )


@case(f32(2, 3, 8), unfaithful="the rendering has an empty padding")
def conv1d_same_by_mode():
    """Uneven sides with another mode than zeros: pnnx loses them in 1d."""
    return Each(
        nn.Conv1d(3, 4, 4, padding="same", padding_mode="reflect"),
        nn.Conv1d(3, 4, 2, padding="same", padding_mode="circular"),
        nn.Conv1d(3, 4, 3, padding="same", padding_mode="replicate"),
    )
