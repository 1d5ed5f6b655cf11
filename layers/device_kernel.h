// SPDX-License-Identifier: MIT
// How layers that run on either device reach a kernel of the GPU without CUDA's headers.
#pragma once

#include <string_view>
#include <vector>

#include "oort/layer.h"

namespace oort {

template <typename Signature>
class DeviceKernel;

/// A kernel of the GPU, for a routine that looks at Context::stream() to see where its tensors are.
/// A .cu file puts it in place when the layers are registered; a build without CUDA has none, and
/// no layer that would ask for it.
template <typename... A>
class DeviceKernel<void(A...)> {
 public:
  using Function = void (*)(A...);
  void Set(Function function) { function_ = function; }
  void operator()(A... args) const {
    if (function_ == nullptr) throw Error(ErrorCode::kUnsupported, "this build has no CUDA");
    function_(args...);
  }

 private:
  Function function_ = nullptr;
};

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
