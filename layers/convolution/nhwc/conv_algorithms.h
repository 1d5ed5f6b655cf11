// SPDX-License-Identifier: MIT
// The algorithms for images (…, H, W, C) on the CPU. Which one a layer takes is decided once, when
// it is made: the weights are kept in one form only, which serves all sizes of images.
#pragma once

#include <memory>
#include <optional>

#include "cpu/gemm.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/conv_images.h"

namespace oort {

/// What is known of a convolution when its layer is made.
struct NhwcConvProblem {
  Isa isa = Isa::kScalar;
  Precision precision = Precision::kF32;  ///< of products
  Shape weight;                           ///< torch's: (out, in / groups, height, width)
  int64_t groups = 1;
  std::array<int64_t, 2> stride{1, 1}, dilation{1, 1};
  bool more_inputs = false;            ///< beside the image, as an addend is
  std::optional<ConvGeometry> traced;  ///< of the traced size, which is a hint; none if unknown

  bool rounds() const { return precision == Precision::kBF16; }
  const GemmKernels& gemm() const { return GemmKernelsFor(isa, precision); }
  int64_t taps() const { return weight.Product(2, 4); }
};

/// An algorithm with the weights of one layer, packed. Of elements T: float, or Half for what
/// computes in f16. Thread contract: const methods run concurrently.
template <typename T>
class PreparedNhwcConv {
 public:
  virtual ~PreparedNhwcConv() = default;
  /// Whether Run multiplies the image by ConvOperandsOf::scale on its way.
  virtual bool TakesScale(const ConvGeometry&) const { return false; }
  /// Bytes that Run needs; `in_pixel` as in ConvImagesOf, `scaled` where a scale will come.
  virtual size_t Scratch(const ConvGeometry& geometry, int64_t in_pixel, int threads,
                         bool scaled) const = 0;
  virtual void Run(const Context& context, const ConvGeometry& geometry,
                   const ConvOperandsOf<T>& operands) const = 0;
};

template <typename T>
class NhwcConvAlgorithm : public ConvAlgorithm<NhwcConvProblem> {
 public:
  using ConvAlgorithm::ConvAlgorithm;
  /// `weight` is that of the problem in f32, `bias` (out) in f32 or undefined.
  virtual std::unique_ptr<PreparedNhwcConv<T>> Prepare(const NhwcConvProblem& problem,
                                                       const Tensor& weight,
                                                       const Tensor& bias) const = 0;
};

/// From top to bottom, for ChooseConv.
template <typename T>
std::span<const NhwcConvAlgorithm<T>* const> NhwcConvAlgorithms();

}  // namespace oort
