# SPDX-License-Identifier: MIT
import torch

from .kit import boolean, case, f32, integers


@case(f32(4, 5, 6), integers(3, high=4), integers(2, 5, 6, high=4), integers(4, 2, 6, high=5))
def gathers():
    def body(x, rows, deep, wide):
        return (
            torch.index_select(x, 0, rows),
            torch.index_select(x, 2, rows),
            torch.gather(x, 0, deep),
            torch.gather(x, 1, wide),
        )

    return body


@case(
    f32(4, 5, 6),
    integers(3, high=4),
    integers(3, high=5),
    unfaithful="the rendering indexes by a list of lists, which torch takes for a tensor",
)
def indexes():
    def body(x, i, j):
        return x[i], x[:, j], x[i, j], x[:, :, [0, 2]], x[[1, 3], [0, 4]]

    return body


@case(f32(2, 3, 4), f32(2, 3, 4), boolean(2, 3, 4), boolean(3, 1))
def choices():
    def body(x, y, mask, narrow):
        return (
            torch.where(mask, x, y),
            torch.where(narrow, x, y),
            torch.where(mask, x, 0.5),
            x.masked_fill(mask, -2.0),
            x.masked_fill(narrow, float("-inf")),
        )

    return body


@case(f32(4, 5), f32(2, 5), f32(4))
def writes():
    """Assignments into parts of a tensor."""

    def body(x, rows, column):
        a = x.clone()
        a[1:3] = rows
        b = x.clone()
        b[:, 2] = column
        c = x.clone()
        c[::2, 1:4] = 7.0
        return a, b, c

    return body
