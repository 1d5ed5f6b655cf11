#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/expression/promotion_table.txt: the dtypes that torch gives to elementwise results.

    python3 test/make_promotion_table.py > test/expression/promotion_table.txt
"""
import operator
import warnings

import torch

warnings.filterwarnings("ignore")

# One letter for each dtype; '-' where torch refuses, 'x' for complex halves.
LETTERS = {
    torch.bool: "b", torch.uint8: "u", torch.int8: "c", torch.int16: "s", torch.int32: "i",
    torch.int64: "l", torch.float16: "h", torch.bfloat16: "y", torch.float32: "f",
    torch.float64: "d", torch.complex64: "C", torch.complex128: "D", torch.complex32: "x",
}
DTYPES = [dtype for dtype in LETTERS if dtype != torch.complex32]

UNARY = """abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf erfc exp exp2 expm1
floor isfinite isinf isnan lgamma log log10 log1p log2 logical_not neg positive reciprocal relu
round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc""".split()
FUNCTIONAL = """relu6 hardsigmoid hardswish silu gelu selu softsign mish logsigmoid
tanhshrink""".split()
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": operator.pow,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "eq": operator.eq,
    "lt": operator.lt, "and": operator.and_, "lshift": operator.lshift,
    "logical_and": torch.logical_and, "atan2": torch.atan2, "maximum": torch.maximum,
    "fmod": torch.fmod, "logaddexp": torch.logaddexp,
}
# Python accepts a number on one side only where torch has such an overload.
TENSORS_ONLY = {"logical_and", "atan2", "maximum", "logaddexp", "fmod"}


def letter(function, *args):
    try:
        return LETTERS[function(*args).dtype]
    except Exception:  # torch raises many kinds
        return "-"


def main():
    print("# Written by test/make_promotion_table.py with torch; do not edit.")
    print("# " + " ".join(f"{letter}={str(dtype)[6:]}" for dtype, letter in LETTERS.items()))
    print("# unary: a letter for each dtype in this order")
    for name in UNARY:
        row = "".join(letter(getattr(torch, name), torch.ones(2, dtype=d)) for d in DTYPES)
        print("unary", name, row)
    for name in FUNCTIONAL:
        function = getattr(torch.nn.functional, name)
        print("unary", name, "".join(letter(function, torch.ones(2, dtype=d)) for d in DTYPES))
    print("# binary: rows and columns are tensors, tensors of rank 0, then bool, int, float and")
    print("# complex numbers; '.' where both are numbers or torch takes no number")
    kinds = [torch.ones(2, dtype=d) for d in DTYPES] + [torch.ones((), dtype=d) for d in DTYPES]
    kinds += [True, 1, 1.5, 1.5 + 1j]
    for name, function in BINARY.items():
        print("binary", name)
        for a in kinds:
            row = ""
            for b in kinds:
                numbers = [not torch.is_tensor(x) for x in (a, b)]
                skipped = all(numbers) or (any(numbers) and name in TENSORS_ONLY)
                skipped |= name == "pow" and b is True  # torch alone takes a bool ** True
                row += "." if skipped else letter(function, a, b)
            print(row)


if __name__ == "__main__":
    main()
