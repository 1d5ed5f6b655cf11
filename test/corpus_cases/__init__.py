# SPDX-License-Identifier: MIT
"""The cases of test/corpus, a file for each family of operators."""
from . import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    convolution,
    dtypes,
    dynamic,
    graph,
    indexing,
    leftovers,
    matrix,
    network,
    normalization,
    pooling,
    recipes,
    recurrent,
    reduction,
    resampling,
    shape,
    spectral,
    vision,
)
from .kit import CASES  # noqa: F401
