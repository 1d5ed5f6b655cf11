// SPDX-License-Identifier: MIT
#pragma once

/// Functions that kernels of the GPU may call, too, where a .cu file includes them.
#ifdef __CUDACC__
#define OORT_HOST_DEVICE __host__ __device__
#else
#define OORT_HOST_DEVICE
#endif
