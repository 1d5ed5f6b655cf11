# SPDX-License-Identifier: MIT
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32, special


@case(f32(1, 3, 13, 12))
def max_pool2d_forms():
    return Each(
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(3, stride=2, ceil_mode=True),
        nn.MaxPool2d((2, 3), stride=(3, 1), padding=(1, 1), ceil_mode=True),
        nn.MaxPool2d(3, stride=1, dilation=2, padding=1),
        nn.MaxPool2d((3, 2), stride=2, dilation=(1, 3), ceil_mode=True),
        nn.MaxPool2d(5, stride=1, padding=2),
    )


@case(f32(2, 3, 9, 8))
def max_pool2d_indices():
    return Each(
        nn.MaxPool2d(3, stride=2, padding=1, return_indices=True),
        nn.MaxPool2d(2, ceil_mode=True, dilation=2, return_indices=True),
        lambda x: F.max_pool2d(x, (2, 3), return_indices=True),
    )


@case(special(1, 2, 6, 6))
def max_pool2d_special():
    """NaN wins; a window of -inf stays -inf."""
    return Each(nn.MaxPool2d(2), nn.MaxPool2d(3, stride=1, padding=1))


@case(f32(2, 3, 14), f32(1, 2, 6, 7, 8))
def max_pool_1d_3d():
    def body(x, y):
        return (
            F.max_pool1d(x, 3),
            F.max_pool1d(x, 4, stride=3, padding=2, ceil_mode=True),
            F.max_pool1d(x, 2, stride=1, dilation=3, return_indices=True),
            F.max_pool3d(y, 2),
            F.max_pool3d(y, (1, 2, 3), stride=(1, 2, 2), padding=(0, 1, 1), ceil_mode=True),
            F.max_pool3d(y, 3, stride=2, padding=1, return_indices=True),
        )

    return body


@case(f32(3, 9, 8), f32(3, 13))
def pools_unbatched():
    def body(x, y):
        return (
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(x, (2, 3)),
            F.max_pool1d(y, 3, 2),
            F.avg_pool1d(y, 3, 2, 1),
            F.adaptive_avg_pool1d(y, 4),
        )

    return body


@case(f32(1, 3, 11, 12))
def avg_pool2d_forms():
    return Each(
        nn.AvgPool2d(2),
        nn.AvgPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
        nn.AvgPool2d(3, stride=2, ceil_mode=True),
        nn.AvgPool2d((4, 3), stride=(3, 2), padding=(2, 1), ceil_mode=True),
        nn.AvgPool2d((4, 3), stride=(3, 2), padding=(2, 1), ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(3, stride=1, divisor_override=5),
        lambda x: F.avg_pool2d(x, (2, 5), padding=(1, 2), divisor_override=3, ceil_mode=True),
    )


@case(f32(2, 3, 14), f32(1, 2, 6, 7, 5))
def avg_pool_1d_3d():
    def body(x, y):
        return (
            F.avg_pool1d(x, 3),
            F.avg_pool1d(x, 4, stride=3, padding=2, ceil_mode=True),
            F.avg_pool1d(x, 5, stride=2, padding=1, count_include_pad=False),
            F.avg_pool3d(y, 2),
            F.avg_pool3d(y, 3, stride=2, padding=1, count_include_pad=False, ceil_mode=True),
            F.avg_pool3d(y, (2, 3, 1), divisor_override=7),
        )

    return body


@case(f32(1, 3, 10, 7))
def adaptive_avg_pool2d_forms():
    return Each(
        nn.AdaptiveAvgPool2d(1),
        nn.AdaptiveAvgPool2d((3, 4)),
        nn.AdaptiveAvgPool2d((None, 2)),
        nn.AdaptiveAvgPool2d((13, 9)),
        lambda x: F.adaptive_avg_pool2d(x, (5, None)),
    )


@case(f32(2, 3, 11), f32(1, 2, 5, 7, 6))
def adaptive_avg_pool_1d_3d():
    def body(x, y):
        return (
            F.adaptive_avg_pool1d(x, 1),
            F.adaptive_avg_pool1d(x, 4),
            F.adaptive_avg_pool3d(y, 1),
            F.adaptive_avg_pool3d(y, (2, None, 5)),
        )

    return body


@case(f32(1, 3, 10, 7), f32(2, 3, 11), f32(1, 2, 5, 7, 6))
def adaptive_max_pool_forms():
    def body(x, y, z):
        return (
            F.adaptive_max_pool2d(x, (3, 4)),
            F.adaptive_max_pool2d(x, 1, return_indices=True),
            F.adaptive_max_pool1d(y, 4, return_indices=True),
            F.adaptive_max_pool1d(y, 1),
            F.adaptive_max_pool3d(z, (2, 3, 4), return_indices=True),
        )

    return body


@case(f32(1, 3, 10, 7))
def adaptive_max_pool2d_modules():
    return Each(nn.AdaptiveMaxPool2d((3, 2)), nn.AdaptiveMaxPool2d((None, 3)),
                nn.AdaptiveMaxPool2d(4, return_indices=True))


@case(f32(1, 2, 9, 8), f32(2, 3, 11))
def lp_pool_forms():
    def body(x, y):
        return (
            F.lp_pool2d(x, 2, 3, stride=2),
            F.lp_pool2d(x, 1, (2, 3), ceil_mode=True),
            F.lp_pool1d(y, 2, 3),
            F.lp_pool1d(y, 3, 4, stride=3, ceil_mode=True),
        )

    return body
