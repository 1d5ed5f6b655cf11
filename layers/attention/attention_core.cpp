// SPDX-License-Identifier: MIT
#include "layers/attention/attention_core.h"

#include <algorithm>
#include <limits>

#include "core/checked.h"
#include "core/parallel.h"

namespace oort {
namespace {

constexpr int64_t kBlockRows = 64;  // queries of one piece of work
constexpr float kInfinity = std::numeric_limits<float>::infinity();

GemmSize ScoreSize(const AttentionProblem& p, int64_t rows) { return {rows, p.keys, p.dim}; }
GemmSize ValueSize(const AttentionProblem& p, int64_t rows) { return {rows, p.value_dim, p.keys}; }

int64_t ScoreFloats(const AttentionProblem& p) {
  return AlignedFloats(CheckedMultiply(std::min(kBlockRows, p.queries), p.keys));
}

/// The last block may have fewer rows and then wants no more.
int64_t PieceFloats(const AttentionKernels& kernels, const AttentionProblem& p) {
  const int64_t rows = std::min(kBlockRows, p.queries);
  int64_t gemm = 0;
  for (int64_t r : {rows, p.queries % kBlockRows}) {
    gemm = std::max({gemm, GemmWorkspace(kernels.gemm, ScoreSize(p, r), 1),
                     GemmWorkspace(kernels.gemm, ValueSize(p, r), 1)});
  }
  return CheckedAdd(ScoreFloats(p), gemm);
}

class Piece {
 public:
  Piece(const AttentionKernels& kernels, const AttentionProblem& problem, float* workspace)
      : kernels_(kernels),
        p_(problem),
        scores_(workspace),
        scratch_(workspace + ScoreFloats(problem)) {}

  /// Queries [begin, end) of matrix i.
  void Run(int64_t i, int64_t begin, int64_t end) const {
    Score(i, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      float* scores = scores_ + (row - begin) * p_.keys;
      const bool visible = Mask(i, row, scores);
      if (p_.zero_if_masked && !visible) {
        std::fill_n(scores, p_.keys, 0.0f);
      } else {
        kernels_.softmax.softmax_row(scores, scores, p_.keys, 1.0f);
      }
      if (p_.weights != nullptr) KeepWeights(i, row, scores);
    }
    Combine(i, begin, end);
  }

 private:
  void Score(int64_t i, int64_t begin, int64_t end) const {
    const size_t at = static_cast<size_t>(i);
    const MatrixSource a(kernels_.gemm,
                         {p_.q.data + p_.q.offsets[at] + begin * p_.q.row, 1, p_.q.row});
    const MatrixSource b(kernels_.gemm, {p_.k.data + p_.k.offsets[at], 1, p_.k.row});
    GemmProblem problem;
    problem.size = ScoreSize(p_, end - begin);
    problem.a = &a;
    problem.b = &b;
    problem.c = scores_;
    problem.ldc = p_.keys;
    Gemm(kernels_.gemm, problem, 1, scratch_);
  }

  void Combine(int64_t i, int64_t begin, int64_t end) const {
    const size_t at = static_cast<size_t>(i);
    const MatrixSource a(kernels_.gemm, {scores_, 1, p_.keys});
    const MatrixSource b(kernels_.gemm, {p_.v.data + p_.v.offsets[at], p_.v.row, 1});
    GemmProblem problem;
    problem.size = ValueSize(p_, end - begin);
    problem.a = &a;
    problem.b = &b;
    problem.c = p_.output + p_.output_offsets[at] + begin * p_.output_row;
    problem.ldc = p_.output_row;
    Gemm(kernels_.gemm, problem, 1, scratch_);
  }

  /// Scales a row of scores and hides what the query may not see; returns whether any is left.
  bool Mask(int64_t i, int64_t row, float* scores) const {
    for (int64_t j = 0; j < p_.keys; ++j) scores[j] *= p_.scale;
    for (const AttentionMask& mask : p_.masks) {
      const int64_t offset = mask.offsets[static_cast<size_t>(i)] + row * mask.row;
      if (mask.numbers != nullptr) {
        const float* numbers = mask.numbers + offset;
        for (int64_t j = 0; j < mask.columns; ++j) scores[j] += numbers[j * mask.column];
      } else {
        const uint8_t* flags = mask.flags + offset;
        for (int64_t j = 0; j < mask.columns; ++j) {
          if ((flags[j * mask.column] != 0) == mask.drop) scores[j] = -kInfinity;
        }
      }
    }
    if (p_.causal && row + 1 < p_.keys) {
      std::fill(scores + row + 1, scores + p_.keys, -kInfinity);
    }
    if (!p_.zero_if_masked || (p_.masks.empty() && !p_.causal)) return true;
    return std::any_of(scores, scores + p_.keys, [](float x) { return x != -kInfinity; });
  }

  void KeepWeights(int64_t i, int64_t row, const float* scores) const {
    if (!p_.mean_weights) {
      std::copy_n(scores, p_.keys, p_.weights + (i * p_.queries + row) * p_.keys);
      return;
    }
    float* mean = p_.weights + (i / p_.heads * p_.queries + row) * p_.keys;
    if (i % p_.heads == 0) std::fill_n(mean, p_.keys, 0.0f);
    const float share = 1.0f / static_cast<float>(p_.heads);
    for (int64_t j = 0; j < p_.keys; ++j) mean[j] += share * scores[j];
  }

  const AttentionKernels& kernels_;
  const AttentionProblem& p_;
  float* scores_;
  float* scratch_;
};

/// Heads whose weights are averaged belong to one piece of work.
int64_t Together(const AttentionProblem& p) {
  return p.weights != nullptr && p.mean_weights ? p.heads : 1;
}

int64_t Pieces(const AttentionProblem& p) {
  return p.count / Together(p) * CeilDivide(p.queries, kBlockRows);
}

int UsefulThreads(const AttentionProblem& p, int threads) {
  constexpr double kThreadWork = 64 * 1024;
  const double work = static_cast<double>(p.count) * static_cast<double>(p.queries) *
                      static_cast<double>(p.keys) * static_cast<double>(p.dim + p.value_dim);
  const double most = std::min(work / kThreadWork, static_cast<double>(Pieces(p)));
  return static_cast<int>(std::clamp(most, 1.0, static_cast<double>(threads)));
}

}  // namespace

int64_t AlignedFloats(int64_t floats) { return CheckedAdd<int64_t>(floats, 15) / 16 * 16; }

void ThrowAttention(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

int64_t AttentionWorkspace(const AttentionKernels& kernels, const AttentionProblem& problem,
                           int threads) {
  if (problem.count == 0 || problem.queries == 0) return 0;
  return CheckedMultiply<int64_t>(PieceFloats(kernels, problem), UsefulThreads(problem, threads));
}

void RunAttention(const AttentionKernels& kernels, const AttentionProblem& problem, int threads,
                  float* workspace) {
  if (problem.count == 0 || problem.queries == 0) return;
  const int64_t blocks = CeilDivide(problem.queries, kBlockRows), heads = Together(problem);
  const int64_t floats = PieceFloats(kernels, problem), pieces = Pieces(problem);
  const int useful = UsefulThreads(problem, threads);
  ParallelFor(useful, useful, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const Piece piece(kernels, problem, workspace + t * floats);
      for (int64_t i = pieces * t / useful; i < pieces * (t + 1) / useful; ++i) {
        const int64_t begin = i % blocks * kBlockRows;
        const int64_t end = std::min(problem.queries, begin + kBlockRows);
        for (int64_t h = 0; h < heads; ++h) piece.Run(i / blocks * heads + h, begin, end);
      }
    }
  });
}

}  // namespace oort
