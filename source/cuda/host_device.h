// SPDX-License-Identifier: MIT
// Functions for both sides: plain C++ where the compiler is not nvcc.
#pragma once

#ifdef __CUDACC__
#define OORT_HOST_DEVICE __host__ __device__
#else
#define OORT_HOST_DEVICE
#endif
