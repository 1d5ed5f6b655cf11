// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cpu/byte_tile_kernels.h"
