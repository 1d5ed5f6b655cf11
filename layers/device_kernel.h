// SPDX-License-Identifier: MIT
// How layers that run on either device reach a kernel of the GPU without CUDA's headers.
#pragma once

#include "oort/layer.h"

/// Stands behind the declaration of a function that a .cu or .cuda.cpp file defines:
///   void SoftmaxOnDevice(cuda::Stream&, const Tensor& x, Tensor& y) OORT_CUDA_ONLY;
/// A build without CUDA includes each header in layers/ that has it into a file in which it is a
/// body that throws (see cmake/OortLayers.cmake), so that callers compile and link either way.
#ifndef OORT_CUDA_ONLY
#define OORT_CUDA_ONLY
#endif

namespace oort {

/// For layers whose kernel on the GPU is one of floats: throws kUnsupported where the first input
/// was traced as something else.
void RequireFloatsOnDevice(const LayerInit& init);

/// The same for kernels of f32 and f64: throws kUnsupported for another dtype that is known.
void RequireWideFloat(DType dtype);

}  // namespace oort
