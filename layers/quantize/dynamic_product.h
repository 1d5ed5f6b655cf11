// SPDX-License-Identifier: MIT
// Products of rows that become bytes while the network runs with weights that are bytes already.
#pragma once

#include <memory>
#include <vector>

#include "layers/linear/dense.h"
#include "layers/quantize/dynamic_rows.h"
#include "layers/quantize/integer_product.h"

namespace oort {

/// x W^T + b, for weights of bytes with a scale for each output. Each row of x gets a scale of its
/// own, and a zero point unless it is symmetric. Sums are exact, and what is made of them are the
/// same bits on every instruction set and for any number of threads.
/// Thread contract: const methods run concurrently.
class DynamicProduct {
 public:
  /// Throws kInvalidModel unless `weight` is (out, in) of i8 and `scales` has a number above 0 for
  /// each output.
  DynamicProduct(Isa isa, const Tensor& weight, const Tensor& scales, bool symmetric);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  /// Bytes of scratch for so many rows, which `apart` says do not follow each other in `y`.
  size_t Workspace(int64_t rows, bool apart) const;
  /// The bias may be null.
  void Run(int threads, int64_t rows, RowsOf<const float> x, const float* bias, RowsOf<float> y,
           std::byte* workspace, const ActivationSpec& activation = {}) const;
  double multiplications(int64_t rows) const;

 private:
  /// Where things lie in the workspace; the bytes of the rows come first.
  struct Places {
    size_t quantizers, products, scratch, all;
  };
  Places PlacesOf(const ConvGeometry& g, bool apart) const;
  ConvGeometry Geometry(int64_t rows) const;
  void QuantizeRows(const Context& context, int64_t rows, RowsOf<const float> x, std::byte* bytes,
                    RowQuantizer* quantizers) const;
  void SumWeights(const Tensor& weight, const Tensor& scales);

  const DynamicKernels& kernels_;
  const QuantizeKernels& bytes_;
  bool symmetric_, signed_;
  int64_t out_ = 0, in_ = 0;
  ConvGeometry one_row_;
  std::unique_ptr<IntegerProduct> product_;
  std::vector<float> sums_;   // what one step of the zero point adds to each output
  std::vector<float> zeros_;  // in place of a bias
};

}  // namespace oort
