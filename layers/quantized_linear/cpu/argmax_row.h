// SPDX-License-Identifier: MIT
// Argmax over the rows of a matrix: the row whose product with x is the largest. The matrix is the
// head of a language model, so this is the token of greedy sampling. The time goes into reading the
// head, or with several rows of x into multiplying it. So a head of 8 bits has a coarse copy of 4
// bits, which is multiplied first, and of the head itself only those rows are that may still be the
// best.
//
// A coarse weight is at most half a step from the true one, the step being the coarse scale of its
// group. If these errors are independent and uniform over the step, then the error of a row's
// product has the variance spread = sum over groups of step^2 / 12 * |x of the group|^2 (rounding x
// to bytes adds less than a hundredth). Let b be the row with the largest coarse product. A row w
// can only beat b if their errors differ by at least the distance of their coarse products. A sum
// of such errors is above c standard deviations with a probability under exp(-c^2 / 2) (Hoeffding
// 1963). So all rows within six deviations, sqrt(spread of w + spread of b), are multiplied again
// with all their bits, in the kernel that multiplies the whole matrix, and the largest of these
// products is the result. The rows are found in two steps: first panel by panel, with the largest
// steps of its 16 rows, then row by row in the panels that are left.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cpu/sampling.h"
#include "layers/quantized_linear/cpu/quantized_matrix.h"
#include "oort/function_ref.h"

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

  /// The largest coarse product of a row of x. It is -infinity where there are no coarse ones, and
  /// NaN where they say nothing.
  struct CoarseBest {
    float product = -std::numeric_limits<float>::infinity();
    float spread = 0;
  };
  /// Makes of one for each row of x, which are those of this matrix, the best of all matrices that
  /// are parts of one.
  using ShareBests = FunctionRef<void(std::span<CoarseBest> bests)>;

  /// Of each row of x the index of the largest product, the lowest of equal ones; -1 where none is
  /// above -infinity. With `share`, which is called once, the matrix is one of several parts: then
  /// it is also -1 where the best row of another part has a larger product for sure.
  void Find(const float* x, int64_t rows, int threads, std::byte* workspace, int32_t* found,
            const ShareBests* share = nullptr) const;
  /// Whether a weight, or a part of it, may get a coarse copy on some machine.
  static bool MayTakeCoarse(const StoredMatrix& stored, Precision precision);
  size_t Workspace(int64_t rows, int threads) const;
  /// Of one row of x the product with one row of the matrix, bit by bit that of the whole product;
  /// the workspace is Find's.
  float ProductOf(const float* x, int32_t row, std::byte* workspace) const;

 private:
  QuantizedProduct ProductWith(const std::shared_ptr<const QuantizedMatrix>& matrix, const float* x,
                               int64_t rows) const;
  void FindInAll(const float* x, int64_t rows, int threads, std::byte* workspace,
                 int32_t* found) const;
  /// Leaves those of the first `count` panels that have a row which may be the best; gives how
  /// many.
  int64_t KeepNear(const NearPanels& found, int64_t count) const;
  void SpreadOf(int64_t panel, const float* energy, float (&spread)[kPanelRows]) const;
  /// Whether the coarse copy serves so many rows.
  bool TakesCoarse(int64_t rows) const;
  void FindByCoarse(const float* x, int64_t rows, int threads, std::byte* workspace, int32_t* found,
                    const ShareBests* share) const;
  /// Of one row, whose coarse products are y. Its product is NaN where these are not finite.
  CoarseBest BestOf(const float* x, const float* y, std::byte* workspace) const;
  /// Of one row, behind BestOf; its coarse products y are lost. `best` is that of all parts.
  int32_t FindAmongNear(const float* x, float* y, const CoarseBest& best, int threads,
                        std::byte* workspace) const;
  /// What multiplying one row by the head takes.
  size_t AloneBytes(int threads) const;

  QuantizedMultiplier multiplier_;
  const SamplingKernels& sampling_;
  std::shared_ptr<const QuantizedMatrix> matrix_, coarse_;
  std::vector<float> squares_;  // see NearPanels
};

}  // namespace oort
