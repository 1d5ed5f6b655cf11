# SPDX-License-Identifier: MIT
import torch

from .kit import Each, boolean, case, f32, f64, integers, special


@case(f32(2, 3, 4, 5))
def mean_forms():
    return Each(
        lambda x: torch.mean(x),
        lambda x: x.mean(1),
        lambda x: x.mean((2, 3)),
        lambda x: x.mean((-1, 0), keepdim=True),
        lambda x: x.mean((2, 3), keepdim=True),
        lambda x: x.mean((0, 1, 2, 3)),
    )


@case(f32(2, 3, 4, 5))
def sum_and_product():
    return Each(
        lambda x: torch.sum(x),
        lambda x: x.sum(1),
        lambda x: x.sum((0, 3), keepdim=True),
        lambda x: x.prod(2),
        lambda x: x.prod(-1, keepdim=True),
    )


@case(f32(2, 3, 4, 5))
def extremes():
    return Each(
        lambda x: torch.max(x),
        lambda x: torch.min(x),
        lambda x: torch.max(x, 1),
        lambda x: torch.min(x, -1, keepdim=True),
        lambda x: torch.amax(x, (2, 3)),
        lambda x: torch.amin(x, 0, keepdim=True),
        lambda x: torch.argmax(x, 1),
        lambda x: torch.argmin(x, 2, keepdim=True),
        lambda x: torch.argmax(x),
    )


@case(special(3, 10))
def extremes_special():
    return Each(
        lambda x: torch.amax(x, 1),
        lambda x: torch.amin(x, 1),
        lambda x: torch.argmax(x, 1),
        lambda x: x.sum(1),
        lambda x: x.mean(1),
    )


@case(f32(2, 3, 4, 5), unfaithful="torch.var's correction is written as unbiased=0")
def spread():
    return Each(
        lambda x: torch.std(x, 1),
        lambda x: torch.std(x, (2, 3), unbiased=False, keepdim=True),
        lambda x: torch.var(x, 2),
        lambda x: torch.var(x, (0, 1), correction=0),
        lambda x: torch.norm(x),
        lambda x: torch.norm(x, dim=(2, 3), keepdim=True),
        lambda x: torch.norm(x, p=1, dim=1),
        lambda x: torch.logsumexp(x, 1),
        lambda x: torch.logsumexp(x * 300, (2, 3), keepdim=True),
    )


@case(f32(3, 4, 5))
def cumulative():
    return Each(lambda x: x.cumsum(0), lambda x: x.cumsum(-1), lambda x: x.cumprod(1))


@case(integers(3, 4, low=-9), boolean(3, 4))
def reductions_of_integers():
    def body(i, b):
        return i.sum(), i.sum(1), b.sum(0), i.amax(0), torch.argmax(i, 1), i.prod(1), i.cumsum(1), b.cumsum(0)

    return body


@case(f32(4, 7))
def largest_few():
    return Each(
        lambda x: torch.topk(x, 3),
        lambda x: torch.topk(x, 2, dim=0, largest=False),
    )


@case(f32(3, 0, 2), f32(0, 4))
def reductions_of_nothing():
    def body(x, y):
        return x.sum(1), x.mean(1), y.sum(0), y.prod(0), y.sum(1)

    return body


@case(f32(2, 3, 4), second=[f64(2, 3, 4)])
def traced_in_f32_run_in_f64():
    """pnnx drops `dtype=`; where the trace shows that none was asked for, a graph follows its inputs."""

    def body(x):
        return x.sum(1), x.mean((0, 2)), x.prod(-1), x.cumsum(1), torch.softmax(x, 1), torch.log_softmax(x, -1)

    return body
