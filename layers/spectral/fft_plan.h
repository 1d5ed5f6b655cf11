// SPDX-License-Identifier: MIT
// What a transform of some length needs, computed once in double precision and shared by all.
#pragma once

#include <complex>
#include <memory>
#include <vector>

#include "layers/spectral/fft_kernels.h"

namespace oort {

/// Bounds the tables and the scratch memory: a model can ask for any number of points.
inline constexpr int64_t kFftMaxLength = int64_t{1} << 24;

/// Throws unless a transform of so many points can be made.
void CheckFftLength(int64_t length);

/// e^(2πi k / n), to the last digit also for large n.
std::complex<double> FftRoot(int64_t k, int64_t n);

/// Whether all prime factors are at most kFftMaxRadix.
bool IsSmoothLength(int64_t length);
/// A length of at least `least` with factors 2, 3 and 5 only.
int64_t ConvenientLength(int64_t least);

/// e^(-iπ j²/n) for j < n.
std::complex<double> FftChirp(int64_t j, int64_t n);

/// A transform of lines that lie in the lanes of a block.
template <typename T>
class FftPlan {
 public:
  explicit FftPlan(int64_t length);
  const FftProgram<T>& program() const { return program_; }
  int64_t length() const { return program_.length; }
  /// Elements of scratch memory for `transform`, beside the block.
  int64_t scratch() const { return inner_ ? 2 * inner_->length() : 0; }
  size_t bytes() const;  ///< with those of the plans that it holds

 private:
  void AddStages();
  void AddConvolution();
  std::vector<int32_t> order_;
  std::vector<FftStage> stages_;
  std::vector<T> table_;
  std::vector<T> chirp_, spectrum_;
  std::shared_ptr<const FftPlan> inner_;
  FftProgram<T> program_;
};

/// Cosine and sine of k/n turns for k <= n/4: what halves the work on real lines.
template <typename T>
class FftTurns {
 public:
  explicit FftTurns(int64_t n);
  const T* data() const { return turns_.data(); }
  size_t bytes() const { return turns_.size() * sizeof(T); }

 private:
  std::vector<T> turns_;
};

/// One line that is too long for a block (or alone): a matrix of rows × columns elements, of which
/// first the columns and then the rows are transformed.
template <typename T>
class FftLongPlan {
 public:
  explicit FftLongPlan(int64_t length);
  int64_t length() const { return length_; }
  /// Elements of the arrays that RunLong needs beside the line, and of one block of a thread.
  int64_t scratch() const { return inner_ ? 2 * inner_->length_ : length_; }
  int64_t block() const;
  size_t bytes() const;

  /// Transforms `line` (pairs) in place; `scratch` has scratch() pairs, `blocks` block() elements
  /// of all lanes for each thread.
  void Run(const FftLaneKernels<T>& kernels, T* line, T* scratch, T* blocks, int threads) const;

 private:
  void RunMatrix(const FftLaneKernels<T>& kernels, T* line, T* middle, T* blocks,
                 int threads) const;
  void RunConvolution(const FftLaneKernels<T>& kernels, T* line, T* scratch, T* blocks,
                      int threads) const;
  void AddConvolution();
  int64_t length_;
  std::shared_ptr<const FftPlan<T>> columns_, rows_;
  std::vector<T> re_, im_;  // factors between the two, like the matrix
  std::shared_ptr<const FftLongPlan> inner_;
  std::vector<T> chirp_, spectrum_;
};

/// The plan for a length; plans of recent lengths are kept, up to a bound of memory.
/// May be called from any number of threads.
template <typename Plan>
std::shared_ptr<const Plan> GetFftPlan(int64_t length);

}  // namespace oort
