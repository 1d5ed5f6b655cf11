# SPDX-License-Identifier: MIT
import torch
import torch.nn.functional as F
from torch import nn

from .kit import Each, case, f32, integers


@case(f32(2, 3, 7), f32(7), f32(1, 7), f32(0, 7))
def linear_forms():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = nn.Linear(7, 19)
            self.bare = nn.Linear(7, 5, bias=False)
            self.one = nn.Linear(7, 1)

        def forward(self, x, vector, row, nothing):
            return self.wide(x), self.bare(x), self.one(x), self.wide(vector), self.bare(row), self.one(nothing)

    return Layers()


@case(f32(2, 4, 6), f32(5, 6), f32(5))
def linear_functional():
    return Each(F.linear, lambda x, w, b: F.linear(x, w))


@case(f32(1, 64), f32(9, 33))
def linear_sizes():
    """One row and several, against widths that no tile divides."""

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Linear(64, 17)
            self.up = nn.Linear(33, 50)

        def forward(self, x, y):
            return self.down(x), self.up(y)

    return Layers()


@case(f32(5), f32(5), f32(4, 5), f32(5, 3), f32(2, 4, 5), f32(3, 2, 5, 4), f32(1, 2, 4, 6))
def matmul_ranks():
    def body(v, w, a, b, c, d, e):
        return (
            torch.matmul(v, w),
            torch.matmul(v, b),
            torch.matmul(a, v),
            torch.matmul(a, b),
            torch.matmul(c, b),
            torch.matmul(a, c.transpose(1, 2)),
            torch.matmul(c, v),
            torch.matmul(v, c.transpose(1, 2)),
            torch.matmul(d, e),
            torch.matmul(c, d),
        )

    return body


@case(f32(2, 4, 5), f32(2, 5, 3), f32(4, 5), f32(5, 6), f32(5), f32(4, 6), f32(2, 4, 3))
def matrix_products():
    def body(x, y, a, b, v, bias, batch_bias):
        return (
            torch.bmm(x, y),
            torch.mm(a, b),
            torch.mv(a, v),
            torch.addmm(bias, a, b),
            torch.addmm(bias, a, b, beta=0.5, alpha=-2.0),
            torch.addmm(bias[0], a, b, beta=1.5),
            torch.baddbmm(batch_bias, x, y, beta=0.7, alpha=1.3),
        )

    return body


@case(f32(3, 0), f32(0, 4), f32(2, 0, 3), f32(2, 3, 5))
def matmul_nothing():
    """An inner size of zero gives zeros; an outer size of zero gives nothing."""

    def body(a, b, c, d):
        return torch.matmul(a, b), torch.matmul(c, d)

    return body


@case(integers(2, 5, high=11))
def embedding():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(11, 6)
            self.padded = nn.Embedding(11, 3, padding_idx=2)

        def forward(self, x):
            return self.words(x), self.padded(x), self.words(x[:, 0])

    return Words()


@case(integers(3, 4, high=7, dtype=torch.int32), integers(2, high=7), f32(7, 5))
def embedding_functional():
    def body(i, j, weight):
        return F.embedding(i, weight), F.embedding(j, weight)

    return body


@case(integers(1, 6, high=13), unfaithful="the shared weight comes as an input of nn.Linear")
def embedding_tied():
    """The embedding's weight serves again as the last layer's, as in language models."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(13, 8)
            self.head = nn.Linear(8, 13, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x):
            return self.head(torch.tanh(self.words(x)))

    return Tied()


@case(f32(3, 4), f32(4, 5), f32(2, 3, 4), f32(2, 5, 4), f32(4, 4), f32(2, 3, 3))
def einsum_forms():
    def body(a, b, c, d, e, f):
        return (
            torch.einsum("ij,jk->ik", a, b),
            torch.einsum("ij,jk->ki", a, b),
            torch.einsum("ij,jk", a, b),
            torch.einsum("bij,bkj->bik", c, d),
            torch.einsum("bij,bkj->kbi", c, d),
            torch.einsum("bij,bkj,jl->bikl", c, d, e),
            torch.einsum("ij->ji", a),
            torch.einsum("ij->", a),
            torch.einsum("bij->j", c),
            torch.einsum("ii->i", e),
            torch.einsum("ii", e),
            torch.einsum("bii->b", f),
            torch.einsum("ij,ij->ij", a, a),
            torch.einsum("bij,ij->bij", c, a),
            torch.einsum("i,j->ij", a[0], b[0]),
        )

    return body


@case(
    f32(2, 3, 4, 5),
    f32(2, 3, 5, 6),
    f32(3),
    f32(5),
    unfaithful="pnnx drops the ellipsis",
)
def einsum_ellipsis():
    def body(a, b, c, d):
        return (
            torch.einsum("...ij,...jk->...ik", a, b),
            torch.einsum("bi...,i->b...", a, c),
            torch.einsum("b...j,j->b...", a, d),
            torch.einsum("...j,j->...", a, d),
        )

    return body


@case(f32(2, 3, 4), f32(2, 3, 4), f32(3, 3), f32(3, 3))
def cross_products():
    def body(a, b, c, d):
        return torch.cross(a, b, dim=1), torch.cross(c, d), torch.cross(c, d, dim=-1)

    return body


@case(f32(3, 5), f32(3, 5), f32(1, 5))
def distances():
    def body(a, b, c):
        return (
            F.pairwise_distance(a, b),
            F.pairwise_distance(a, b, p=1, keepdim=True),
            F.pairwise_distance(a, b, p=float("inf")),
            F.pairwise_distance(a, b, p=0.5, eps=0.1),
            F.pairwise_distance(a, c),
        )

    return body
