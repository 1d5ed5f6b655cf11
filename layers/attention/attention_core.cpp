// SPDX-License-Identifier: MIT
#include "layers/attention/attention_core.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/checked.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "layers/linear/dense.h"

namespace oort {
namespace {

constexpr int64_t kBlockRows = 64;  // queries of one piece of work
template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr bool kBlocked = std::is_same_v<T, float>;

/// Subtracts the largest element, so that no exponential overflows.
void SoftmaxF64(double* scores, int64_t count) {
  double largest = -kInfinity<double>, sum = 0;
  for (int64_t j = 0; j < count; ++j) largest = std::max(largest, scores[j]);
  for (int64_t j = 0; j < count; ++j) sum += scores[j] = std::exp(scores[j] - largest);
  for (int64_t j = 0; j < count; ++j) scores[j] /= sum;
}

template <typename T>
GemmSize ScoreSize(const AttentionProblem<T>& p, int64_t rows) {
  return {rows, p.keys, p.dim};
}
template <typename T>
GemmSize ValueSize(const AttentionProblem<T>& p, int64_t rows) {
  return {rows, p.value_dim, p.keys};
}

template <typename T>
int64_t ScoreFloats(const AttentionProblem<T>& p) {
  return AlignedFloats(CheckedMultiply(std::min(kBlockRows, p.queries), p.keys));
}

/// The last block may have fewer rows and then wants no more.
template <typename T>
int64_t PieceFloats(const AttentionKernels& kernels, const AttentionProblem<T>& p) {
  if (!kBlocked<T>) return ScoreFloats(p);
  const int64_t rows = std::min(kBlockRows, p.queries);
  int64_t gemm = 0;
  for (int64_t r : {rows, p.queries % kBlockRows}) {
    gemm = std::max({gemm, GemmWorkspace(kernels.gemm, ScoreSize(p, r), 1),
                     GemmWorkspace(kernels.gemm, ValueSize(p, r), 1)});
  }
  return CheckedAdd(ScoreFloats(p), gemm);
}

template <typename T>
class Piece {
 public:
  Piece(const AttentionKernels& kernels, const AttentionProblem<T>& problem, T* workspace)
      : kernels_(kernels),
        p_(problem),
        scores_(workspace),
        scratch_(workspace + ScoreFloats(problem)) {}

  /// Queries [begin, end) of matrix i.
  void Run(int64_t i, int64_t begin, int64_t end) const {
    Score(i, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      T* scores = scores_ + (row - begin) * p_.keys;
      const bool visible = Mask(i, row, scores);
      if (p_.zero_if_masked && !visible) {
        std::fill_n(scores, p_.keys, T{0});
      } else {
        Softmax(scores);
      }
      if (p_.weights != nullptr) KeepWeights(i, row, scores);
    }
    Combine(i, begin, end);
  }

 private:
  void Softmax(T* scores) const {
    if constexpr (kBlocked<T>) {
      kernels_.softmax.softmax_row(scores, scores, p_.keys, 1.0f);
    } else {
      SoftmaxF64(scores, p_.keys);
    }
  }

  void Score(int64_t i, int64_t begin, int64_t end) const {
    const size_t at = static_cast<size_t>(i);
    const T *q = p_.q.data + p_.q.offsets[at] + begin * p_.q.row, *k = p_.k.data + p_.k.offsets[at];
    if constexpr (kBlocked<T>) {
      const MatrixSource a(kernels_.gemm, {q, 1, p_.q.row}), b(kernels_.gemm, {k, 1, p_.k.row});
      Multiply(ScoreSize(p_, end - begin), a, b, scores_, p_.keys);
    } else {
      MultiplyPlain<T>(1, end - begin, {q, p_.q.row}, {k, p_.k.row}, p_.keys, p_.dim, nullptr,
                       {scores_, p_.keys});
    }
  }

  void Combine(int64_t i, int64_t begin, int64_t end) const {
    const size_t at = static_cast<size_t>(i);
    const RowsOf<const T> v{p_.v.data + p_.v.offsets[at], p_.v.row};
    const RowsOf<T> y{p_.output + p_.output_offsets[at] + begin * p_.output_row, p_.output_row};
    if constexpr (kBlocked<T>) {
      const MatrixSource a(kernels_.gemm, {scores_, 1, p_.keys});
      const MatrixSource b(kernels_.gemm, {v.data, v.step, 1});
      Multiply(ValueSize(p_, end - begin), a, b, y.data, y.step);
    } else {
      for (int64_t row = 0; row < end - begin; ++row) {
        std::fill_n(y[row], p_.value_dim, T{0});
        for (int64_t j = 0; j < p_.keys; ++j) {
          const T weight = scores_[row * p_.keys + j];
          for (int64_t d = 0; d < p_.value_dim; ++d) y[row][d] += weight * v[j][d];
        }
      }
    }
  }

  void Multiply(const GemmSize& size, const MatrixSource& a, const MatrixSource& b, float* c,
                int64_t ldc) const requires kBlocked<T> {
    GemmProblem problem;
    problem.size = size;
    problem.a = &a;
    problem.b = &b;
    problem.c = c;
    problem.ldc = ldc;
    Gemm(kernels_.gemm, problem, 1, scratch_);
  }

  /// Scales a row of scores and hides what the query may not see; returns whether any is left.
  bool Mask(int64_t i, int64_t row, T* scores) const {
    for (int64_t j = 0; j < p_.keys; ++j) scores[j] *= p_.scale;
    for (const AttentionMask<T>& mask : p_.masks) {
      const int64_t offset = mask.offsets[static_cast<size_t>(i)] + row * mask.row;
      if (mask.numbers != nullptr) {
        const T* numbers = mask.numbers + offset;
        for (int64_t j = 0; j < mask.columns; ++j) scores[j] += numbers[j * mask.column];
      } else {
        const uint8_t* flags = mask.flags + offset;
        for (int64_t j = 0; j < mask.columns; ++j) {
          if ((flags[j * mask.column] != 0) == mask.drop) scores[j] = -kInfinity<T>;
        }
      }
    }
    if (p_.causal && row + 1 < p_.keys) {
      std::fill(scores + row + 1, scores + p_.keys, -kInfinity<T>);
    }
    if (!p_.zero_if_masked || (p_.masks.empty() && !p_.causal)) return true;
    return std::any_of(scores, scores + p_.keys, [](T x) { return x != -kInfinity<T>; });
  }

  void KeepWeights(int64_t i, int64_t row, const T* scores) const {
    if (!p_.mean_weights) {
      std::copy_n(scores, p_.keys, p_.weights + (i * p_.queries + row) * p_.keys);
      return;
    }
    T* mean = p_.weights + (i / p_.heads * p_.queries + row) * p_.keys;
    if (i % p_.heads == 0) std::fill_n(mean, p_.keys, T{0});
    const T share = 1 / static_cast<T>(p_.heads);
    for (int64_t j = 0; j < p_.keys; ++j) mean[j] += share * scores[j];
  }

  const AttentionKernels& kernels_;
  const AttentionProblem<T>& p_;
  T* scores_;
  T* scratch_;
};

/// Heads whose weights are averaged are computed by one task.
template <typename T>
int64_t Together(const AttentionProblem<T>& p) {
  return p.weights != nullptr && p.mean_weights ? p.heads : 1;
}

template <typename T>
int64_t Pieces(const AttentionProblem<T>& p) {
  return p.count / Together(p) * CeilDivide(p.queries, kBlockRows);
}

template <typename T>
double GrainsOf(const AttentionProblem<T>& p) {
  return static_cast<double>(p.count) * static_cast<double>(p.queries) *
         static_cast<double>(p.keys) * static_cast<double>(p.dim + p.value_dim) / GrainProducts();
}

template <typename T>
int UsefulThreads(const AttentionProblem<T>& p, int threads) {
  return static_cast<int>(
      std::min<int64_t>(ChoosePieces(threads, GrainsOf(p), true), std::max<int64_t>(1, Pieces(p))));
}

}  // namespace

int64_t AlignedFloats(int64_t floats) { return CheckedAdd<int64_t>(floats, 15) / 16 * 16; }

void ThrowAttention(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

template <typename T>
int64_t AttentionWorkspace(const AttentionKernels& kernels, const AttentionProblem<T>& problem,
                           int threads) {
  if (problem.count == 0 || problem.queries == 0) return 0;
  return CheckedMultiply<int64_t>(PieceFloats(kernels, problem), UsefulThreads(problem, threads));
}

template <typename T>
void RunAttention(const AttentionKernels& kernels, const AttentionProblem<T>& problem, int threads,
                  T* workspace) {
  if (problem.count == 0 || problem.queries == 0) return;
  const int64_t blocks = CeilDivide(problem.queries, kBlockRows), heads = Together(problem);
  const int64_t floats = PieceFloats(kernels, problem), pieces = Pieces(problem);
  const int useful = UsefulThreads(problem, threads);
  ParallelPieces(threads, useful, GrainsOf(problem), [&](int t) {
    const Piece<T> piece(kernels, problem, workspace + t * floats);
    for (int64_t i = pieces * t / useful; i < pieces * (t + 1) / useful && !IsCancelled(); ++i) {
      const int64_t begin = i % blocks * kBlockRows;
      const int64_t end = std::min(problem.queries, begin + kBlockRows);
      for (int64_t h = 0; h < heads; ++h) piece.Run(i / blocks * heads + h, begin, end);
    }
  });
}

template int64_t AttentionWorkspace(const AttentionKernels&, const AttentionProblem<float>&, int);
template int64_t AttentionWorkspace(const AttentionKernels&, const AttentionProblem<double>&, int);
template void RunAttention(const AttentionKernels&, const AttentionProblem<float>&, int, float*);
template void RunAttention(const AttentionKernels&, const AttentionProblem<double>&, int, double*);

}  // namespace oort
