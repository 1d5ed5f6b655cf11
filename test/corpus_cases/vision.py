# SPDX-License-Identifier: MIT
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torchvision import ops

from .kit import Each, case, f32, f64, special


# pnnx's rendering of a custom operator names a module that is not there.
UNNAMED = "no rendering of custom operators"
torchvision = torch.ops.torchvision


def boxes(count, *, images=1, size=32.0):
    """Boxes (K,5) for an image of that size, some of them reaching out of it."""

    def make(generator):
        index = torch.arange(count).remainder(images).float()
        corners = torch.rand((count, 2), generator=generator) * size - size / 8
        extents = torch.rand((count, 2), generator=generator) * size * 0.6 + 0.3
        return torch.cat([index[:, None], corners, corners + extents], 1)

    return make


def scored(count):
    """Boxes (N,4) in a crowd."""

    def make(generator):
        corners = torch.rand((count, 2), generator=generator) * 4
        return torch.cat([corners, corners + torch.rand((count, 2), generator=generator) * 4 + 0.5], 1)

    return make


def ties(count):
    return lambda generator: torch.randint(0, 5, (count,), generator=generator).float() / 5


@case(f32(2, 3, 7, 9), f32(2, 5, 6))
def unfold_forms():
    def body(x, y):
        return (
            F.unfold(x, 3),
            F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)),
            F.unfold(x, (7, 1), stride=3),
            F.unfold(y, 2, padding=1, dilation=3),
        )

    return body


@case(f32(2, 3, 7, 9))
def unfold_module():
    return Each(nn.Unfold((3, 2), padding=(1, 0), stride=2), nn.Unfold(1))


@case(f32(2, 18, 36), f32(12, 15))
def fold_forms():
    def body(x, y):
        return (
            F.fold(x, (5, 6), (2, 3), padding=1),
            F.fold(x, (10, 11), 3, stride=(3, 2), dilation=(1, 2), padding=(4, 2)),
            F.fold(y, (4, 6), 2),
            F.fold(y, (5, 3), (3, 1), padding=(1, 0)),
        )

    return body


@case(f32(2, 18, 36))
def fold_module():
    return Each(nn.Fold((5, 6), (2, 3), padding=1), nn.Fold((7, 8), (2, 3)))


@case(f32(1, 2, 6, 7), second=[f32(1, 2, 9, 5)], symbolic=True)
def fold_to_a_size_of_the_graph():
    return lambda x: F.fold(F.unfold(x, 3, padding=1), (x.size(2), x.size(3)), 3, padding=1)


def every_grid_sample(modes):
    def body(x, grid):
        choices = itertools.product(modes, ("zeros", "border", "reflection"), (False, True))
        return tuple(F.grid_sample(x, grid, m, p, align_corners=a) for m, p, a in choices)

    return body


@case(f32(2, 3, 5, 6), f32(2, 4, 7, 2))
def grid_sample_2d():
    return every_grid_sample(("bilinear", "nearest", "bicubic"))


@case(f32(2, 3, 4, 5, 6), f32(2, 3, 4, 3, 3))
def grid_sample_3d():
    return every_grid_sample(("bilinear", "nearest"))


@case(f64(1, 2, 5, 6), f64(1, 4, 3, 2))
def grid_sample_f64():
    return every_grid_sample(("bilinear", "bicubic"))


@case(special(1, 1, 6, 7), f32(1, 5, 6, 2))
def grid_sample_of_infinities():
    """What a sample does not touch must not reach it, not even with a weight of zero."""
    return every_grid_sample(("bilinear", "nearest"))


@case(f32(2, 2, 3), f32(3, 3, 4))
def affine_grid_forms():
    def body(x, y):
        return (
            F.affine_grid(x, (2, 3, 4, 5), align_corners=True),
            F.affine_grid(x, (2, 1, 1, 6), align_corners=False),
            F.affine_grid(y, (3, 1, 2, 3, 4), align_corners=True),
            F.affine_grid(y, (3, 2, 4, 1, 3), align_corners=False),
        )

    return body


@case(f32(1, 2, 3), f32(1, 3, 8, 9), second=[f32(1, 2, 3), f32(1, 3, 6, 5)], symbolic=True)
def spatial_transformer():
    return lambda theta, x: F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)


@case(f32(2, 4, 16, 18), boxes(5, images=2), unfaithful=UNNAMED)
def roi_align_forms():
    def body(x, rois):
        return (
            ops.roi_align(x, rois, (3, 2), 0.5, 2, True),
            ops.roi_align(x, rois, 4, 0.5, -1, True),
            ops.roi_align(x, rois, (2, 3), 0.5, -1, False),
            ops.roi_align(x, rois, (7, 7), 1.0, 1, False),
        )

    return body


@case(f32(2, 4, 16, 18), boxes(5, images=2))
def roi_align_module():
    return Each(ops.RoIAlign((3, 2), 0.5, 2), ops.RoIAlign(5, 0.25, 0, aligned=True))


@case(f32(2, 12, 16, 18), boxes(5, images=2), unfaithful=UNNAMED)
def roi_pools():
    """Both outputs of each: the values, and where or in which channel they were found."""

    def body(x, rois):
        return (
            torchvision.roi_pool(x, rois, 0.5, 3, 2),
            torchvision.roi_pool(x, rois, 1.0, 7, 7),
            torchvision.ps_roi_align(x, rois, 0.5, 3, 2, 2),
            torchvision.ps_roi_align(x, rois, 0.5, 2, 2, -1),
            torchvision.ps_roi_pool(x, rois, 0.5, 3, 2),
            torchvision.ps_roi_pool(x, rois, 1.0, 1, 2),
        )

    return body


@case(scored(40), ties(40), by_value=True, unfaithful=UNNAMED)
def nms_forms():
    return lambda corners, scores: (
        ops.nms(corners, scores, 0.3),
        ops.nms(corners, scores, 0.7),
        ops.nms(corners.double(), scores.double(), 0.5),
    )


@case(
    f32(1, 4, 16, 18), boxes(6), ties(6), second=[f32(1, 4, 11, 9), boxes(11), ties(11)], symbolic=True,
    unfaithful=UNNAMED,
)  # fmt: skip
def regions_that_survive_nms():
    return lambda x, rois, scores: ops.roi_align(x, rois[ops.nms(rois[:, 1:], scores, 0.1)], 3, 0.5, 2)


@case(f32(2, 4, 9, 8), f32(2, 18, 9, 8), f32(2, 9, 9, 8))
def deform_conv2d_module():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
            self.masked = ops.DeformConv2d(4, 5, 3, padding=1, bias=False)

        def forward(self, x, offset, mask):
            return self.plain(x, offset), self.masked(x, offset * 3, mask)

    return Both()


@case(f32(2, 4, 9, 8), f32(2, 24, 5, 6), f32(2, 12, 5, 6), f32(6, 2, 3, 2), f32(6), unfaithful=UNNAMED)
def deform_conv2d_function():
    def body(x, offset, mask, weight, bias):
        return (
            ops.deform_conv2d(x, offset, weight, bias, stride=(2, 1), padding=(1, 0), dilation=(1, 2), mask=mask),
            ops.deform_conv2d(x, offset, weight, None, stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        )

    return body


@case(f32(1, 2, 9, 11), unfaithful="the rendering is no Python: it calls aten::")
def interpolate_antialias():
    def resize(**options):
        return lambda x: F.interpolate(x, antialias=True, **options)

    return Each(
        resize(size=(3, 4), mode="bilinear"),
        resize(size=(3, 4), mode="bicubic"),
        resize(size=(14, 5), mode="bilinear", align_corners=True),
        resize(size=(1, 23), mode="bicubic", align_corners=True),
        resize(scale_factor=0.4, mode="bilinear"),
        resize(scale_factor=(0.3, 1.7), mode="bicubic"),
        resize(scale_factor=0.45, mode="bicubic", recompute_scale_factor=True),
        resize(size=(9, 4), mode="bilinear"),
    )
