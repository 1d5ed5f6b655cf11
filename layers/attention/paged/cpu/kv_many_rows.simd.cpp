// SPDX-License-Identifier: MIT
// Attention of many rows, as of a prompt: keys and values become f32 once for all rows, a few
// blocks at a time, which then stay in the nearest cache. Each sum is made by the same operations
// in the same order as in kv_attention.simd.cpp, so that its bits are the same.
#include <type_traits>

#include "layers/attention/paged/cpu/kv_rows.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kPartBlocks = static_cast<int>(KvManyRows::kPartTokens) / kTokens;
// A tile of rows and vectors, as many as the registers hold.
#if defined(OORT_ISA_avx512)
constexpr int kRows = 6, kVectors = 4;
#elif defined(OORT_ISA_avx2)
constexpr int kRows = 6, kVectors = 2;
#else
constexpr int kRows = 4, kVectors = 4;
#endif

/// Calls body(first, number of rows as a constant) for all rows.
template <typename Body>
void ForRows(int rows, Body body) {
  for (int first = 0; first < rows; first += kRows) {
    switch (rows - first) {
      case 1: body(first, std::integral_constant<int, 1>{}); break;
      case 2: body(first, std::integral_constant<int, 2>{}); break;
      case 3: body(first, std::integral_constant<int, 3>{}); break;
      case 4: body(first, std::integral_constant<int, 4>{}); break;
      case 5: body(first, std::integral_constant < int, kRows<5 ? kRows : 5>{}); break;
      default: body(first, std::integral_constant<int, kRows>{});
    }
  }
}

/// Some blocks of one step, whose keys or values lie one behind the other as f32.
struct Part {
  int64_t block;  ///< the first
  int count;
  int at;  ///< where its scores begin among those of the step
};

template <KvType type>
void Unpack(const std::byte* from, int64_t elements, float* to) {
  for (int64_t i = 0; i < elements; i += Vec::kWidth) LoadKv<type>(from, i).Store(to + i);
}

template <KvType type>
void UnpackKeys(const std::byte* from, int64_t head_dim, float* to) {
  if constexpr (type != KvType::kK6V4) return Unpack<type>(from, head_dim * kTokens, to);
  for (int64_t d = 0; d < head_dim; ++d, to += kTokens) {
    for (int token = 0; token < kTokens; token += Vec::kWidth) {
      LoadKey<type>(from, head_dim, d, token).Store(to + token);
    }
  }
}

template <KvType type>
void UnpackValues(const std::byte* from, int64_t head_dim, float* to) {
  if constexpr (type != KvType::kK6V4) return Unpack<type>(from, head_dim * kTokens, to);
  for (int64_t token = 0; token < kTokens; ++token, to += head_dim) {
    for (int64_t d = 0; d < head_dim; d += Vec::kWidth) {
      LoadValue<type>(from, head_dim, token, d).Store(to + d);
    }
  }
}

/// Scores of `width` vectors of tokens, from vector `first` of the part on.
template <KvType type, int rows, int width>
void VectorScores(const KvManyRows& a, int row, const Part& part, int first) {
  Vec sums[rows][width];
  Unroll<rows>([&](auto r) { Unroll<width>([&](auto i) { sums[r][i] = Vec(0.0f); }); });
  const float* keys[width];
  Unroll<width>([&](auto i) {
    const int vector = first + i;
    keys[i] = a.unpacked() + vector / kTokenVectors * a.head_dim * kTokens +
              vector % kTokenVectors * Vec::kWidth;
  });
  AddSteps<rows, width>(
      a.head_dim, [&](int64_t d, int i) { return Vec::Load(keys[i] + d * kTokens); },
      [&](int r) { return a.query[row + r]; }, sums);
  const Vec scale(a.scale);
  Unroll<width>([&](auto i) {
    const int token = (first + i) * Vec::kWidth;
    Vec factor = scale;
    if constexpr (type == KvType::kInt8) {
      const std::byte* of_block = a.blocks[part.block + token / kTokens].keys;
      factor = factor * LoadFloat(ScalesOf(of_block, a.head_dim), token % kTokens);
    }
    Unroll<rows>([&](auto r) { (sums[r][i] * factor).Store(a.scores(row + r) + part.at + token); });
  });
}

template <KvType type, int rows>
void PartScores(const KvManyRows& a, int row, const Part& part) {
  const int vectors = part.count * kTokenVectors;
  int i = 0;
  for (; i + kVectors <= vectors; i += kVectors) {
    VectorScores<type, rows, kVectors>(a, row, part, i);
  }
  for (; i < vectors; ++i) VectorScores<type, rows, 1>(a, row, part, i);
}

/// Adds the values of a part, `width` vectors from element d on.
template <int rows, int width>
void AddValues(const KvManyRows& a, int row, const Part& part, int64_t d, int64_t tokens) {
  Vec sums[rows][width];
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { sums[r][i] = Vec::Load(a.sums[row + r] + d + i * Vec::kWidth); });
  });
  AddSteps<rows, width>(
      tokens,
      [&](int64_t t, int i) {
        return Vec::Load(a.unpacked() + t * a.head_dim + d + i * Vec::kWidth);
      },
      [&](int r) { return a.scores(row + r) + part.at; }, sums);
  Unroll<rows>([&](auto r) {
    Unroll<width>([&](auto i) { sums[r][i].Store(a.sums[row + r] + d + i * Vec::kWidth); });
  });
}

template <int rows>
void PartValues(const KvManyRows& a, int row, const Part& part, int64_t tokens) {
  int64_t d = 0;
  for (; d + kVectors * Vec::kWidth <= a.head_dim; d += kVectors * Vec::kWidth) {
    AddValues<rows, kVectors>(a, row, part, d, tokens);
  }
  for (; d < a.head_dim; d += Vec::kWidth) AddValues<rows, 1>(a, row, part, d, tokens);
}

/// The weights of values in 8 bits take their scales with them.
void ScaleWeights(const KvManyRows& a, const Part& part) {
  for (int i = 0; i < part.count; ++i) {
    const std::byte* scales = ScalesOf(a.blocks[part.block + i].values, a.head_dim);
    for (int token = 0; token < kTokens; token += Vec::kWidth) {
      const Vec scale = LoadFloat(scales, token);
      for (int r = 0; r < a.rows; ++r) {
        float* const weights = a.scores(r) + part.at + i * kTokens + token;
        (Vec::Load(weights) * scale).Store(weights);
      }
    }
  }
}

template <typename Body>
void ForParts(int64_t block, int count, Body body) {
  for (int i = 0; i < count; i += kPartBlocks) {
    body(Part{block + i, count - i < kPartBlocks ? count - i : kPartBlocks, i * kTokens});
  }
}

template <KvType type>
void AttendType(KvManyRows& a) {
  const int64_t last_block = (a.end + kTokens - 1) / kTokens, elements = a.head_dim * kTokens;
  FetchAhead<type, KvManyRows> ahead(a, a.begin / kTokens, last_block);
  for (int64_t block = a.begin / kTokens, next = 0; block < last_block; block = next) {
    const int count = static_cast<int>(StepCount(block, last_block));
    next = block + count;
    ForParts(block, count, [&](const Part& part) {
      for (int i = 0; i < part.count; ++i) {
        ahead.One();
        UnpackKeys<type>(a.blocks[part.block + i].keys, a.head_dim, a.unpacked() + i * elements);
      }
      ForRows(a.rows, [&](int row, auto rows) { PartScores<type, rows>(a, row, part); });
    });
    for (int r = 0; r < a.rows; ++r) {
      WeighScores(a, r, block * kTokens, count * kTokens, a.scores(r));
    }
    ForParts(block, count, [&](const Part& part) {
      for (int i = 0; i < part.count; ++i) {
        ahead.One();
        UnpackValues<type>(a.blocks[part.block + i].values, a.head_dim,
                           a.unpacked() + i * elements);
      }
      if constexpr (type == KvType::kInt8) ScaleWeights(a, part);
      // Slots behind the last token hold stale data, so they are not read.
      const int64_t left = a.end - part.block * kTokens, most = part.count * kTokens;
      const int64_t tokens = left < most ? left : most;
      ForRows(a.rows, [&](int row, auto rows) { PartValues<rows>(a, row, part, tokens); });
    });
  }
}

void Attend(KvManyRows& a) {
  BeginRows(a);
  switch (a.type) {
    case KvType::kF32: AttendType<KvType::kF32>(a); break;
    case KvType::kF16: AttendType<KvType::kF16>(a); break;
    case KvType::kInt8: AttendType<KvType::kInt8>(a); break;
    case KvType::kK6V4: AttendType<KvType::kK6V4>(a); break;
    case KvType::kFp8: break;  // refused before
  }
  EndRows(a);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(KvManyRowsKernels, {.attend = OORT_ISA::Attend})
