// SPDX-License-Identifier: MIT
// How layers that run on either device reach a kernel of the GPU without CUDA's headers.
#pragma once

#include <string_view>
#include <vector>

#include "oort/layer.h"

/// Stands behind the declaration of a function that a .cu or .cuda.cpp file defines:
///   void SoftmaxOnDevice(cuda::Stream&, const Tensor& x, Tensor& y) OORT_CUDA_ONLY;
/// A build without CUDA includes each header in layers/ that has it into a file in which it is a
/// body that throws (see cmake/OortLayers.cmake), so that callers compile and link either way.
#ifndef OORT_CUDA_ONLY
#define OORT_CUDA_ONLY
#endif

namespace oort {

/// A layer whose Forward also runs on the GPU, because it leaves all that is done to elements to
/// routines that look at Context::stream(). Constants that it reads there it uploads when it is
/// made with such a LayerInit::device().
class AnyDevice {
 public:
  virtual ~AnyDevice() = default;
  /// Throws kUnsupported where the layer, as it was traced, would need what the GPU does not have.
  virtual void TryOnDevice(const LayerInit&) const {}
};

/// A layer of the GPU whose Forward takes memory of its own, so that it cannot be recorded.
class Unrecorded {
 public:
  virtual ~Unrecorded() = default;
};

/// For layers whose kernel on the GPU is one of floats: throws kUnsupported where the first input
/// was traced as something else.
void RequireFloatsOnDevice(const LayerInit& init);

/// The same for kernels of f32 and f64: throws kUnsupported for another dtype that is known.
void RequireWideFloat(DType dtype);

/// A layer of the host that reads shapes alone, so that its arguments may be anywhere.
class ShapeOnly {
 public:
  virtual ~ShapeOnly() = default;
};

/// Adds the CPU layers of these types as those of the GPU. A layer that turns out to be no
/// AnyDevice stays on the CPU.
void ShareWithCuda(LayerRegistry& registry, const std::vector<std::string>& types);

}  // namespace oort
