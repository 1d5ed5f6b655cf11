# SPDX-License-Identifier: MIT
"""ATen operators that are a few calls of others: losses, integrals, statistics, norms with what they computed on the
way."""
import torch
import torch.nn.functional as F

from torch import nn

from .kit import f32, integers, unit
from .leftovers import leftover


@leftover(f32(3, 4), f32(3, 4), f32(3, 4))
def aten_losses():
    def body(x, y, z):
        sign = torch.sign(y)
        return (
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y, reduction="none", beta=0.5),
            F.smooth_l1_loss(x, y, beta=0.0),
            F.huber_loss(x, y, delta=0.7),
            F.soft_margin_loss(x, sign),
            F.hinge_embedding_loss(x, sign, margin=0.8),
            F.margin_ranking_loss(x, y, sign, margin=0.1),
            F.cosine_embedding_loss(x, y, torch.sign(z[:, 0]), margin=0.2),
            F.triplet_margin_loss(x, y, z),
            F.triplet_margin_loss(x, y, z, p=1.0, swap=True, reduction="none"),
            F.kl_div(x, y, reduction="batchmean", log_target=True),
            F.poisson_nll_loss(x, z.abs() * 3),
            F.poisson_nll_loss(x.abs(), z.abs() * 3, log_input=False, full=True),
        )

    return body


@leftover(unit(3, 4), unit(3, 4), f32(3, 4), unit(4))
def aten_binary_losses():
    def body(p, y, x, w):
        return (
            F.binary_cross_entropy(p, y),
            F.binary_cross_entropy(p, y, w, reduction="none"),
            F.binary_cross_entropy_with_logits(x, y),
            F.binary_cross_entropy_with_logits(x, y, weight=w, pos_weight=w + 0.5),
            F.kl_div(x, y, reduction="sum"),
        )

    return body


@leftover(f32(3, 4), integers(3, high=4), unit(4), f32(2, 4, 5), integers(2, 5, high=4), unit(3, 4))
def aten_class_losses():
    def body(x, y, w, image, pixels, probabilities):
        return (
            F.nll_loss(x, y),
            F.nll_loss(x, y, w, ignore_index=1),
            F.nll_loss(image, pixels, w, reduction="none"),
            F.cross_entropy(x, y, w, label_smoothing=0.1, ignore_index=2),
            F.cross_entropy(image, pixels, reduction="sum", label_smoothing=0.2),
            F.cross_entropy(x, probabilities, w, label_smoothing=0.1),
            F.cross_entropy(x[0], y[0]),
        )

    return body


@leftover(f32(3, 5), f32(5), f32(3, 5))
def aten_integrals():
    def body(y, x, same):
        return (
            torch.trapz(y),
            torch.trapezoid(y, dx=0.5, dim=0),
            torch.trapezoid(y, x),
            torch.trapezoid(y, same, dim=0),
            torch.cumulative_trapezoid(y),
            torch.cumulative_trapezoid(y, x),
            *torch.gradient(y),
            *torch.gradient(y, spacing=0.25, dim=1),
        )

    return body


@leftover(f32(3, 6), unit(6), f32(5))
def aten_statistics():
    def body(x, w, v):
        return (
            torch.cov(x),
            torch.cov(x, correction=0, aweights=w),
            torch.cov(v),
            torch.corrcoef(x),
            torch.dist(x, x * x, 3),
            *torch.std_mean(x),
            *torch.var_mean(x, unbiased=False),
            *torch.var_mean(x, 1, correction=2, keepdim=True),
            torch.vander(v),
            torch.vander(v, N=3, increasing=True),
            torch.linalg.vander(x),
            torch.linalg.vecdot(x, x * w),
            *torch.frexp(x * 100),
        )

    return body


@leftover(f32(2, 4, 6), f32(6), f32(4), unit(4))
def aten_native_norms():
    def body(x, w, m, v):
        return (
            *torch.native_layer_norm(x, [6], w, None, 1e-5),
            *torch.native_layer_norm(x, [4, 6], None, None, 1e-3),
            *torch.native_group_norm(x, m, v, 2, 4, 6, 2, 1e-5),
            torch.native_batch_norm(x, m, v, m, v, False, 0.1, 1e-5)[0],
            *torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
            torch._weight_norm(x, x[:1, :, :1], 1),
            torch._safe_softmax(x, 1),
            torch._safe_softmax(torch.where(x > 9, x, -torch.inf), 1),
            torch._masked_softmax(x, x > 0, 2),
        )

    return body


@leftover(f32(5, 2, 3), f32(1, 2, 4), f32(1, 2, 4), f32(16, 3), f32(16, 4), f32(16), f32(16))
def aten_recurrent():
    def body(x, h, c, w, u, b, d):
        return (
            *torch.lstm(x, (h, c), [w, u, b, d], True, 1, 0.0, False, False, False),
            *torch.gru(x, h, [w[:12], u[:12]], False, 1, 0.0, False, False, False),
            *torch.rnn_tanh(x, h, [w[:4], u[:4], b[:4], d[:4]], True, 1, 0.0, False, False, False),
            *torch.rnn_relu(
                x.transpose(0, 1), torch.cat([h, c]), [w[:4], u[:4], w[4:8], u[4:8]], False, 1, 0.0, False, True, True
            ),
        )

    return body


@leftover(f32(1, 2, 6, 7), f32(1, 4, 5, 2), f32(1, 2, 4, 5, 6), f32(1, 3, 4, 5, 3), f32(7, 2, 3), f32(3, 3, 4), f32(4))
def aten_samplers():
    def body(x, grid, volume, points, sequence, weight, bias):
        return (
            torch.grid_sampler_2d(x, torch.tanh(grid), 1, 1, True),
            torch.grid_sampler_2d(x, torch.tanh(grid), 2, 2, False),
            torch.grid_sampler_3d(volume, torch.tanh(points), 0, 2, False),
            torch.conv_tbc(sequence, weight, bias, 1),
        )

    return body


@leftover(f32(4, 6), integers(6, high=3))
def aten_splits():
    def body(x, counts):
        return (
            *torch.tensor_split(x, torch.tensor([1, 4]), 1),
            *torch.unsafe_split_with_sizes(x, [1, 5], 1),
            torch.repeat_interleave(counts),
            x.sum_to_size(4, 1),
            x.sum_to_size(6),
            torch.native_channel_shuffle(x.reshape(1, 4, 2, 3), 2),
        )

    return body


@leftover(f32(4, 6), f32(5), f32(2, 3))
def aten_fills():
    def body(x, v, block):
        return (
            torch.nn.utils.rnn.pad_sequence([v, v[:2]], padding_value=7.0),
            torch.nn.utils.rnn.pad_sequence([x, block.repeat(1, 2)], batch_first=True),
            torch.as_strided_scatter(x, block, (2, 3), (1, 6), 3),
            torch.combinations(v),
            torch.combinations(v, 3, with_replacement=True),
            torch.nonzero_static(x > 0, size=30, fill_value=-7),
            torch.nonzero_static(x > 0, size=3),
        )

    return body


@leftover(f32(4, 6), f32(7, 4))
def aten_diagonals():
    def body(x, tall):
        return (
            x.clone().fill_diagonal_(5.0),
            tall.clone().fill_diagonal_(5.0, wrap=True),
        )

    return body


@leftover(f32(3, 4), f32(3, 5))
def aten_bilinear():
    return nn.Bilinear(4, 5, 6)


@leftover(f32(3, 4), f32(3, 4))
def aten_complex_norms():
    def body(x, y):
        z = torch.complex(x, y)
        return torch.norm(z, dim=1), torch.norm(z, p=1, dim=0, keepdim=True), torch.linalg.norm(z)

    return body
