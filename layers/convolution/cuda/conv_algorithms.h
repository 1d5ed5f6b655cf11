// SPDX-License-Identifier: MIT
// The algorithms for images (…, H, W, C) on a GPU. Each call chooses: sizes and addresses decide.
// None needs scratch.
#pragma once

#include <optional>

#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

/// A call, and what was found out about it on the way to its algorithm.
/// Thread contract: one thread.
class ConvProblem {
 public:
  /// `depthwise` are the weights as ConvolveDepthwise reads them, where each channel has one filter
  /// of its own; else null.
  ConvProblem(const ConvCall& call, ConvMath math, int device, const void* depthwise = nullptr)
      : call_(call), math_(math), device_(device), depthwise_(depthwise) {}

  const ConvCall& call() const { return call_; }
  ConvMath math() const { return math_; }
  int device() const { return device_; }
  const void* depthwise() const { return depthwise_; }
  /// The cheapest of all tiles, of which there is one where cuda::Convolves.
  const ConvPlan& plan() const {
    if (!plan_) plan_ = ChooseConvPlan(call_, math_, device_);
    return *plan_;
  }

 private:
  ConvCall call_;
  ConvMath math_;
  int device_;
  const void* depthwise_;
  mutable std::optional<ConvPlan> plan_;
};

class CudaConvAlgorithm : public ConvAlgorithm<ConvProblem> {
 public:
  using ConvAlgorithm::ConvAlgorithm;
  virtual void Run(const Stream& stream, const ConvProblem& problem, bool overlap) const = 0;
};

/// From top to bottom, for ChooseConv.
std::span<const CudaConvAlgorithm* const> CudaConvAlgorithms();

/// Chooses and runs; `wanted` as in ChooseConv.
void RunConv(const Stream& stream, const ConvProblem& problem, std::string_view wanted = "",
             bool overlap = true);

}  // namespace oort::cuda
