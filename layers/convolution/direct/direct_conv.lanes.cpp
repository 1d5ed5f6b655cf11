// SPDX-License-Identifier: MIT
// Direct convolution: blocks of pixels times panels of filters.
#include "cpu/lanes.h"

#if defined(OORT_UNIT_neon_f16)
#include "layers/convolution/direct/row_block_f16_neon.h"
#else
#include "layers/convolution/direct/row_block.h"
#endif

OORT_DEFINE_LANES_KERNELS(DirectConvKernels, {.rows = kTileRows,
                                              .columns = kTileColumns,
                                              .granule = kTileGranule,
                                              .block = MultiplyBlock})
