// SPDX-License-Identifier: MIT
// The row of a matrix whose product with x is the largest: the likeliest token, the matrix being
// the head of a language model. What is read of the head decides how long that takes, so of 8 bits
// a coarse copy of 4 is read first, and of the matrix itself only what the copy leaves open.
//
// A coarse weight is at most half a step away, the step being the coarse scale of its group. Taken
// as independent errors, spread evenly over that step, they make an error of a row's product with
// variance  spread = sum over groups of step^2 / 12 * |x of the group|^2  (rounding x to bytes adds
// less than a hundredth). A row w that beats the coarse best row b has an error beyond b's by at
// least the distance of their coarse products; errors of this kind are above c deviations with a
// probability under exp(-c^2 / 2). So all rows with a distance up to six deviations,
// sqrt(spread of w + spread of b), are multiplied again with all their bits, in the kernel that
// multiplies the whole matrix: of what they are, that of the largest is the result. Which rows
// these are is asked in two steps: first panel by panel, with the largest steps of its 16 rows,
// then row by row in the panels that are left.
#pragma once

#include <memory>
#include <vector>

#include "cpu/sampling.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"

namespace oort {

/// Thread contract: immutable once it is made; Find may run concurrently.
class ArgmaxRow {
 public:
  ArgmaxRow(Isa isa, Precision precision, std::shared_ptr<const QuantizedMatrix> matrix);

  /// Makes the coarse copy where it pays: little memory, for little is gained on large models,
  /// whose heads are a small part.
  void MakeCoarse(int threads);
  const QuantizedMatrix* coarse() const { return coarse_.get(); }
  const QuantizedMatrix& matrix() const { return *matrix_; }

  /// Of each row of x the index of the largest product, the lowest of equal ones; -1 where none is
  /// above -infinity.
  void Find(const float* x, int64_t rows, int threads, std::byte* workspace, int32_t* found) const;
  size_t Workspace(int64_t rows, int threads) const;

 private:
  QuantizedProduct ProductWith(const std::shared_ptr<const QuantizedMatrix>& matrix, const float* x,
                               int64_t rows) const;
  void FindInAll(const float* x, int64_t rows, int threads, std::byte* workspace,
                 int32_t* found) const;
  /// Leaves those of the first `count` panels that have a row which may be the best; gives how
  /// many.
  int64_t KeepNear(const NearPanels& found, int64_t count) const;
  void SpreadOf(int64_t panel, const float* energy, float (&spread)[kPanelRows]) const;
  /// Gives whether the coarse products say anything: they are finite.
  bool FindByCoarse(const float* x, int threads, std::byte* workspace, int32_t* found) const;

  QuantizedMultiplier multiplier_;
  const SamplingKernels& sampling_;
  std::shared_ptr<const QuantizedMatrix> matrix_, coarse_;
  std::vector<float> squares_;  // see NearPanels
};

}  // namespace oort
