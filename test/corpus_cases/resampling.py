# SPDX-License-Identifier: MIT
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32


def resize(**options):
    return lambda x: F.interpolate(x, **options)


@case(f32(1, 2, 5, 6))
def interpolate_nearest():
    return Each(
        nn.Upsample(scale_factor=2),
        nn.Upsample(size=(7, 4)),
        nn.Upsample(scale_factor=(1.7, 0.6)),
        resize(scale_factor=2.3, mode="nearest"),
        resize(scale_factor=1.4, mode="nearest", recompute_scale_factor=True),
        resize(size=(3, 11), mode="nearest"),
        resize(size=(7, 9), mode="nearest-exact"),
        resize(scale_factor=1.6, mode="nearest-exact"),
        nn.UpsamplingNearest2d(scale_factor=3),
    )


@case(f32(1, 2, 5, 6))
def interpolate_bilinear():
    return Each(
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        nn.Upsample(size=(3, 8), mode="bilinear"),
        resize(scale_factor=(1.7, 0.6), mode="bilinear"),
        resize(scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
        resize(size=(9, 1), mode="bilinear", align_corners=True),
        nn.UpsamplingBilinear2d(scale_factor=2),
        nn.UpsamplingBilinear2d(size=(4, 9)),
    )


@case(f32(1, 2, 5, 6))
def interpolate_bicubic():
    return Each(
        nn.Upsample(scale_factor=2, mode="bicubic"),
        resize(size=(8, 3), mode="bicubic", align_corners=True),
        resize(scale_factor=1.6, mode="bicubic"),
    )


@case(f32(2, 3, 7), f32(1, 2, 3, 4, 5))
def interpolate_1d_3d():
    def body(x, y):
        return (
            F.interpolate(x, scale_factor=2.5, mode="nearest"),
            F.interpolate(x, size=11, mode="linear"),
            F.interpolate(x, scale_factor=1.5, mode="linear", align_corners=True),
            F.interpolate(y, scale_factor=2, mode="nearest"),
            F.interpolate(y, size=(5, 3, 7), mode="trilinear"),
            F.interpolate(y, scale_factor=(1.5, 2, 1), mode="trilinear", align_corners=True),
        )

    return body


@case(f32(1, 2, 6, 8))
def interpolate_area():
    return Each(resize(size=(3, 4), mode="area"), resize(size=(4, 5), mode="area"),
                resize(scale_factor=0.5, mode="area"))


@case(f32(1, 8, 3, 4))
def pixel_shuffles():
    return Each(
        nn.PixelShuffle(2),
        nn.ChannelShuffle(4),
        lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2),
    )
