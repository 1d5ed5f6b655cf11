// SPDX-License-Identifier: MIT
// The fast Walsh-Hadamard transform of keys and queries. Sums have one order on all instruction
// sets, that of the distance of their terms, and so have those of a GPU (decode_attention.cu).
#include <cmath>

#include "cpu/quad.h"
#include "cpu/vec.h"
#include "layers/attention/paged/cpu/kv_kernels.h"

namespace oort::OORT_ISA {
namespace {

constexpr int64_t kSquare = 16;

/// Terms 1 and then 2 rows apart.
inline void SpreadRows(Quad (&rows)[4]) {
  const Quad sums[2] = {rows[0] + rows[1], rows[2] + rows[3]};
  const Quad differences[2] = {rows[0] - rows[1], rows[2] - rows[3]};
  rows[0] = sums[0] + sums[1];
  rows[1] = differences[0] + differences[1];
  rows[2] = sums[0] - sums[1];
  rows[3] = differences[0] - differences[1];
}

/// Terms 1, 2, 4 and 8 apart, of 16 elements as a square: its columns, then its rows.
inline void SpreadSquare(const float* from, float* to) {
  Quad rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = LoadQuad(from + 4 * i);
  Transpose(rows);
  SpreadRows(rows);
  Transpose(rows);
  SpreadRows(rows);
  for (int i = 0; i < 4; ++i) StoreQuad(rows[i], to + 4 * i);
}

/// Terms that are whole vectors apart.
inline void SpreadVectors(float* x, int64_t width, int64_t apart) {
  for (int64_t i = 0; i < width; i += 2 * apart) {
    for (int64_t j = i; j < i + apart; j += Vec::kWidth) {
      const Vec first = Vec::Load(x + j), second = Vec::Load(x + j + apart);
      (first + second).Store(x + j);
      (first - second).Store(x + j + apart);
    }
  }
}

void Spread(const float* from, float* to, int64_t head_dim, int64_t width) {
  const float factor = 1.0f / std::sqrt(static_cast<float>(width));
  for (int64_t begin = 0; begin < head_dim; begin += width) {
    for (int64_t i = begin; i < begin + width; i += kSquare) SpreadSquare(from + i, to + i);
    for (int64_t apart = kSquare; apart < width; apart *= 2) {
      SpreadVectors(to + begin, width, apart);
    }
  }
  for (int64_t i = 0; i < head_dim; ++i) to[i] *= factor;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(KvSpreadKernels, {.spread = OORT_ISA::Spread})
