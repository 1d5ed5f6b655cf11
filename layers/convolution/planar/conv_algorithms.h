// SPDX-License-Identifier: MIT
// The algorithms for images (N, C, …) of f32 on the CPU. Weights may be operands, and whether a
// volume is deep is known only when it comes: each call chooses.
#pragma once

#include <memory>

#include "cpu/gemm.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

struct PlanarOperands {
  const float* image = nullptr;
  const float* weight = nullptr;  ///< torch's; only where the algorithm ReadsWeight
  const float* bias = nullptr;    ///< may be null
  float* out = nullptr;
};

/// An algorithm for one layer, with its weights packed where they are known and that pays.
/// Thread contract: const methods run concurrently.
class PreparedPlanarConv {
 public:
  virtual ~PreparedPlanarConv() = default;
  /// Whether Run may read PlanarOperands::weight.
  virtual bool ReadsWeight() const = 0;
  /// Bytes that Run needs.
  virtual size_t Scratch(const ConvGeometry& geometry, int threads) const = 0;
  virtual void Run(const Context& context, const ConvGeometry& geometry,
                   const PlanarOperands& operands) const = 0;
};

class PlanarConvAlgorithm : public ConvAlgorithm<ConvGeometry> {
 public:
  using ConvAlgorithm::ConvAlgorithm;
  /// `weight` is undefined where it is an operand.
  virtual std::unique_ptr<PreparedPlanarConv> Prepare(Isa isa, const GemmKernels& gemm,
                                                      const Tensor& weight,
                                                      int64_t groups) const = 0;
};

/// From top to bottom, for ChooseConv.
std::span<const PlanarConvAlgorithm* const> PlanarConvAlgorithms();

}  // namespace oort
