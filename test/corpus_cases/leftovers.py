# SPDX-License-Identifier: MIT
"""What pnnx leaves as ATen operators, as torch's tracer wrote them."""
import torch
import torch.nn.functional as F
from torch import nn

from .kit import case, f32, integers, unit

ATEN = "pnnx's rendering does not name ATen operators as Python does"


def leftover(*inputs, **options):
    return case(*inputs, unfaithful=ATEN, **options)


class Untracked(nn.Module):
    """Runs without gradients, as torch's fast path for encoders demands."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        with torch.no_grad():
            return self.module(*inputs)


@leftover(f32(2, 3, 4), f32(5, 6))
def aten_axes():
    def body(b, x):
        return (
            torch.movedim(b, 0, 2),
            torch.movedim(b, (0, 1), (1, 2)),
            torch.moveaxis(b, -1, 0),
            b.mT,
            b.mH,
            x.T,
            torch.fliplr(x),
            torch.flipud(x),
            torch.rot90(x),
            torch.rot90(x, 2, (0, 1)),
            torch.rot90(b, -1, (2, 0)),
        )

    return body


@leftover(f32(2, 3, 4), f32(5, 6))
def aten_windows():
    def body(b, x):
        return (
            x.unfold(1, 3, 2),
            b.unfold(0, 2, 1),
            torch.diagonal(b),
            torch.diagonal(b, 1, 1, 2),
            torch.diagonal(x, -2),
            torch.as_strided(x, (2, 3), (6, 2)),
        )

    return body


@leftover(f32(2, 4, 4), f32(5, 3))
def aten_triangles():
    def body(b, x):
        return (
            torch.tril(b),
            torch.triu(b, 1),
            torch.tril(x, -1),
            torch.triu(x, -2),
            torch.tril(x, 9),
        )

    return body


@leftover(f32(4), f32(3), f32(2))
def aten_grids():
    def body(a, b, c):
        return (
            torch.meshgrid(a, b, c, indexing="ij")
            + torch.meshgrid(a, b, indexing="xy")
            + (torch.cartesian_prod(a, b, c),)
            + tuple(torch.broadcast_tensors(a[:, None], b))
        )

    return body


@leftover(f32(3, 4), f32(3, 4), f32(4))
def aten_stacks():
    def body(x, y, v):
        return (
            torch.hstack([x, y]),
            torch.vstack([x, v]),
            torch.dstack([x, y]),
            torch.column_stack([v, v * 2]),
            torch.hstack([v, v]),
        )

    return body


@leftover(f32(4, 5), integers(2, 4, high=4), f32(3, 5))
def aten_scatter():
    def body(x, index, source):
        return (
            x.scatter(0, index, source),
            x.scatter(0, index, 2.5),
            x.scatter(0, index, 2.0, reduce="multiply"),
        )

    return body


@leftover(f32(4, 5), integers(3, 4, high=4), f32(3, 5))
def aten_scatter_reduce():
    def body(x, index, source):
        results = []
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            results.append(x.scatter_reduce(0, index, source, reduce=reduce))
            results.append(x.scatter_reduce(0, index, source, reduce=reduce, include_self=False))
        return tuple(results)

    return body


@leftover(f32(4, 5), integers(3, high=4), f32(3, 5), f32(4, 3))
def aten_index_writes():
    def body(x, rows, source, columns):
        return (
            x.index_add(0, rows, source),
            x.index_add(1, rows, columns, alpha=2),
            x.index_copy(0, torch.flip(rows, (0,)) * 0 + torch.arange(3), source),
            x.index_fill(0, rows, 1.5),
            x.index_fill(-1, rows, -2.0),
            x.index_reduce(0, rows, source, "prod"),
            x.index_reduce(0, rows, source, "mean", include_self=False),
            torch.put(x, rows, source[:, 0], accumulate=True),
        )

    return body


@leftover(f32(4, 5), integers(2, 5, high=4), integers(4, 1, high=5))
def aten_takes():
    def body(x, rows, column):
        return (
            torch.take(x, rows),
            torch.take(x, rows - 4),
            torch.take_along_dim(x, rows, dim=0),
            torch.take_along_dim(x, column, dim=1),
            torch.take_along_dim(x, rows),
        )

    return body


@leftover(f32(4, 5), f32(4, 5), by_value=True)
def aten_nonzero():
    def body(x, source):
        mask = x > 0
        return (
            torch.nonzero(mask),
            torch.argwhere(x[0] > 0),
            *torch.nonzero(mask, as_tuple=True),
            *torch.where(x > 0.5),
            x.masked_scatter(mask, source),
        )

    return body


@leftover(integers(3, 4, high=6), integers(9, high=5), unit(9), f32(30), by_value=True)
def aten_counts():
    def body(labels, vector, weights, numbers):
        return (
            F.one_hot(labels, 7),
            F.one_hot(labels),
            torch.bincount(vector),
            torch.bincount(vector, minlength=9),
            torch.bincount(vector, weights),
            torch.histc(numbers, bins=7, min=-1, max=1.5),
            torch.histc(numbers, bins=4),
        )

    return body


@leftover(f32(3, 4), f32(7), f32(3, 6), integers(3, 4, high=5), integers(3, high=5))
def aten_searches():
    def body(x, edges, rows, labels, some):
        edges = torch.sort(edges)[0]
        return (
            torch.bucketize(x, edges),
            torch.bucketize(x, edges, right=True, out_int32=True),
            torch.searchsorted(edges, x),
            torch.searchsorted(torch.sort(rows)[0], x, right=True),
            torch.searchsorted(rows, x, side="left", sorter=torch.argsort(rows)),
            torch.isin(labels, some),
            torch.isin(labels, 2),
            torch.isin(labels, some, invert=True),
        )

    return body


@leftover(integers(4, 5, high=6), integers(6, 2, high=2), by_value=True)
def aten_unique():
    def body(x, rows):
        return (
            torch.unique(x),
            *torch.unique(x, return_inverse=True, return_counts=True),
            *torch.unique(rows, dim=0, return_inverse=True, return_counts=True),
            *torch.unique_consecutive(rows, return_inverse=True, return_counts=True),
            torch.unique_consecutive(rows, dim=0),
        )

    return body


@leftover(f32(4, 5), f32(2))
def aten_order():
    def body(x, q):
        q = torch.sigmoid(q)
        return (
            torch.median(x),
            torch.nanmedian(x),
            *torch.median(x, dim=1, keepdim=True),
            *torch.nanmedian(x, dim=0),
            *torch.kthvalue(x, 2, dim=1),
            *torch.mode(torch.round(x), dim=1),
            torch.quantile(x, 0.3),
            torch.quantile(x, 0.3, dim=1, keepdim=True, interpolation="nearest"),
            torch.quantile(x, q, dim=0),
            torch.nanquantile(x, q),
        )

    return body


@leftover(f32(4, 5))
def aten_sorts():
    def body(x):
        return (
            *torch.sort(x, descending=True),
            *torch.sort(torch.round(x), dim=0, stable=True, descending=True),
            torch.argsort(x, dim=0),
            torch.argsort(torch.round(x), dim=1, stable=True),
        )

    return body


@leftover(f32(4, 5))
def aten_scans():
    def body(x):
        return (*torch.cummax(x, 1), *torch.cummin(torch.round(x), 0), torch.logcumsumexp(x, 1))

    return body


def encoder(**options):
    return Untracked(nn.TransformerEncoderLayer(8, 2, 12, **options))


@leftover(f32(2, 5, 8))
def aten_encoder_layer():
    return encoder(batch_first=True)


@leftover(f32(2, 5, 8))
def aten_encoder_layer_norm_first():
    return encoder(batch_first=True, norm_first=True, activation="gelu")


@leftover(f32(2, 5, 8), integers(2, 5, high=2))
def aten_encoder_layer_masks():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)

        def forward(self, x, labels):
            # Of masks that are bools pnnx folds what the first trace had filled in.
            infinite = torch.full((5, 5), float("-inf"))
            causal = torch.triu(infinite, 1)
            padding = torch.where((labels > 0) & (torch.arange(5) > 0), float("-inf"), 0.0)
            with torch.no_grad():
                return (
                    self.layer(x, src_mask=causal),
                    self.layer(x, src_key_padding_mask=padding),
                    self.layer(x, src_mask=causal, src_key_padding_mask=padding),
                )

    return Masked()


@leftover(unit(3, 4), unit(3, 4))
def aten_functions():
    def body(x, y):
        return (
            torch.logit(x),
            torch.logit(x, eps=0.2),
            torch.hypot(x, y),
            torch.addcmul(x, y, x, value=0.5),
            torch.addcdiv(x, y, x, value=0.5),
            torch.lerp(x, y, 0.3),
            torch.lerp(x, y, y),
            torch.nan_to_num(torch.log(x - y), nan=1.0),
            torch.frac(x * 5),
            torch.xlogy(x, y),
            torch.signbit(x - y),
            torch.copysign(x, y - 0.5),
            torch.heaviside(x - y, y),
            torch.ldexp(x, y),
            torch.fmax(x, y),
            torch.logaddexp2(x, y),
            torch.deg2rad(x),
            torch.isclose(x, y, rtol=0.1, atol=0.1),
            torch.float_power(x, y),
            torch.gcd((x * 50).long(), (y * 50).long()),
            torch.lcm((x * 50).long(), (y * 50).long()),
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 7),
            x * y.numel(),
        )

    return body


@leftover(unit(3, 4), unit(3, 4))
def aten_special_functions():
    def body(x, y):
        z = (x - y) * 6
        return (
            torch.erfinv(x - y),
            torch.digamma(z),
            torch.i0(z),
            torch.special.i0e(z * 9),
            torch.special.i1(z),
            torch.special.i1e(z * 9),
            torch.sinc(z),
            torch.polygamma(1, x),
            torch.polygamma(2, y * 9),
            torch.mvlgamma(x + 2, 3),
            torch.special.zeta(x + 1.5, y),
            torch.special.entr(x - y),
            torch.special.erfcx(z * 3),
            torch.special.ndtr(z),
            torch.special.log_ndtr(z * 5),
            torch.special.ndtri(x),
            torch.special.xlog1py(x, y),
            torch.igamma(x * 4, y * 4),
            torch.special.gammaincc(x * 4, y * 4),
        )

    return body


@leftover(f32(3, 4), f32(3, 4), f32(4), f32(2, 3, 4), f32(2, 4, 5), f32(3, 5))
def aten_products():
    def body(x, y, v, b, c, d):
        return (
            torch.outer(v, v),
            torch.inner(x, y),
            torch.dot(v, v),
            torch.tensordot(b, c, dims=([0, 2], [0, 1])),
            torch.tensordot(x, y.t(), dims=1),
            torch.addbmm(d, b, c, beta=0.5, alpha=2.0),
            torch.addmv(d[:, 0], x, v),
            torch.addr(x, d[:, 1], v, alpha=0.5),
            torch.kron(x, d),
            torch.linalg.multi_dot([x, y.t(), d]),
            torch.linalg.matrix_power(b[0] @ b[1].t(), 3),
        )

    return body


@leftover(f32(4, 5), f32(4, 5), f32(30, 5))
def aten_distances():
    def body(x, y, many):
        return (
            torch.diff(x),
            torch.diff(x, n=2, dim=0, prepend=y),
            torch.cdist(x, y),
            torch.cdist(x, many),
            torch.cdist(x, y, p=1.0),
            F.cosine_similarity(x, y, dim=0),
            torch.renorm(x, 2, 0, 0.5),
            torch.trace(x),
            torch.count_nonzero(F.relu(x), dim=1),
            torch.nansum(torch.log(x)),
            torch.nanmean(torch.log(x), dim=1),
            *torch.aminmax(x, dim=0),
            torch.msort(x),
        )

    return body


@leftover(f32(2, 4), f32(3))
def aten_rearrangements():
    def body(x, v):
        return (
            torch.broadcast_to(v, (2, 3)),
            torch.ravel(x),
            torch.atleast_2d(v),
            torch.atleast_3d(v),
            torch.hsplit(x, 2)[1],
            torch.vsplit(x, [1])[0],
            torch.dsplit(x[None], 2)[1],
            torch.diag_embed(x, offset=1),
            torch.diagflat(v),
            torch.diagonal_scatter(x, v[:2]),
            torch.block_diag(x, v[None]),
            torch.vdot(v, v),
            F.pdist(x),
        )

    return body


class Bags(nn.Module):
    """Rows gathered in every mode."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(7, 3, mode=mode) for mode in ("sum", "mean", "max"))

    def forward(self, indices):
        return tuple(bag(indices) for bag in self.bags)


@leftover(integers(2, 4, high=7))
def aten_bags():
    return Bags()


@leftover(f32(3, 5))
def aten_quantize():
    return lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize()
