// SPDX-License-Identifier: MIT
#include "cpu/activation_epilogue.h"
#include "layers/quantized_linear/cpu/quantized_lines.h"

namespace oort::OORT_ISA {
namespace {

template <WeightType type, int rows>
void GemvQuantized(const QuantizedGemv& gemv) {
  const PanelLayout& layout = gemv.layout;
  const int64_t groups = gemv.k / layout.group;
  Lanes total[rows];
  Unroll<rows>([&](auto r) { total[r] = Lanes::Broadcast(0.0f); });
  const Vec zero(static_cast<float>(layout.zero));
  for (int64_t g = 0; g < groups; ++g) {
    const GroupPlace group(layout, gemv.panel, g);
    const float* x = gemv.x + g * layout.group;
    Lanes sums[rows];
    float x_sums[rows] = {};
    Unroll<rows>([&](auto r) { sums[r] = Lanes::Broadcast(0.0f); });
    ForSteps<type>(group.lines, 0, layout.group, [&](int64_t k, const Lanes& q) {
      Unroll<rows>([&](auto r) {
        const float factor = x[r * gemv.x_stride + k];
        x_sums[r] += factor;
        Unroll<kVectors>(
            [&](auto i) { sums[r].v[i] = Fma(q.v[i] - zero, Vec(factor), sums[r].v[i]); });
      });
    });
    const GroupLanes numbers(layout, group);
    Unroll<rows>([&](auto r) {
      Unroll<kVectors>(
          [&](auto i) { total[r].v[i] = Fma(sums[r].v[i], numbers.scale.v[i], total[r].v[i]); });
    });
    if (!layout.has_minimum) continue;
    Unroll<rows>([&](auto r) {
      Unroll<kVectors>([&](auto i) {
        total[r].v[i] = Fma(numbers.minimum.v[i], Vec(x_sums[r]), total[r].v[i]);
      });
    });
  }
  Unroll<rows>([&](auto r) { total[r].Store(gemv.y + r * gemv.y_stride); });
}

template <WeightType type, int rows>
void GemvFloat(const QuantizedGemv& gemv) {
  constexpr int64_t kBytes = kPanelRows * (type == WeightType::kF32 ? 4 : 2);
  // Each row has two sums, so that a step does not wait for the one before.
  Lanes even[rows], odd[rows];
  Unroll<rows>([&](auto r) { even[r] = odd[r] = Lanes::Broadcast(0.0f); });
  const auto add = [&](Lanes(&sums)[rows], int64_t k) __attribute__((always_inline)) {
    const Lanes w = LoadStep<type>(gemv.panel + k * kBytes);
    Unroll<rows>([&](auto r) {
      const Vec factor(gemv.x[r * gemv.x_stride + k]);
      Unroll<kVectors>([&](auto i) { sums[r].v[i] = Fma(w.v[i], factor, sums[r].v[i]); });
    });
  };
  int64_t k = 0;
  for (; k + 2 <= gemv.k; k += 2) {
    add(even, k);
    add(odd, k + 1);
  }
  if (k < gemv.k) add(even, k);
  Unroll<rows>([&](auto r) {
    Unroll<kVectors>([&](auto i) { even[r].v[i] = even[r].v[i] + odd[r].v[i]; });
    even[r].Store(gemv.y + r * gemv.y_stride);
  });
}

#if defined(OORT_ISA_avx512)
constexpr int kFloatRows = 8, kQuantizedRows = 8;
#else
constexpr int kFloatRows = 2, kQuantizedRows = 4;
#endif

/// The most rows at a time whose sums stay in registers.
template <WeightType type>
constexpr int kRowsOf = type >= WeightType::kInt8 ? kQuantizedRows : kFloatRows;

/// Rows of one call, most of them `rows` at a time.
template <WeightType type, int rows>
void GemvRows(QuantizedGemv& gemv) {
  for (; gemv.rows >= rows; gemv.rows -= rows) {
    if constexpr (type >= WeightType::kInt8) {
      GemvQuantized<type, rows>(gemv);
    } else {
      GemvFloat<type, rows>(gemv);
    }
    gemv.x += rows * gemv.x_stride;
    gemv.y += rows * gemv.y_stride;
  }
  if constexpr (rows > 1) GemvRows<type, rows / 2>(gemv);
}

template <WeightType type>
void GemvType(QuantizedGemv gemv) {
  GemvRows<type, kRowsOf<type>>(gemv);
}

void Gemv(const QuantizedGemv& gemv) {
  switch (gemv.layout.type) {
    case WeightType::kF32: return GemvType<WeightType::kF32>(gemv);
    case WeightType::kF16: return GemvType<WeightType::kF16>(gemv);
    case WeightType::kBf16: return GemvType<WeightType::kBf16>(gemv);
    case WeightType::kInt8: return GemvType<WeightType::kInt8>(gemv);
    case WeightType::kInt6: return GemvType<WeightType::kInt6>(gemv);
    case WeightType::kInt5: return GemvType<WeightType::kInt5>(gemv);
    case WeightType::kInt4: return GemvType<WeightType::kInt4>(gemv);
  }
}

/// Rounded elements to bytes; gives their sums, one or several lanes.
inline IntVec StoreBytes(const IntVec* rounded, int vectors, int8_t* q) {
  IntVec sums(0);
#if defined(OORT_ISA_neon)
  for (int i = 0; i < vectors; i += 4, q += 16) {
    const int16x8_t low = vcombine_s16(vmovn_s32(rounded[i].v), vmovn_s32(rounded[i + 1].v));
    const int16x8_t high = vcombine_s16(vmovn_s32(rounded[i + 2].v), vmovn_s32(rounded[i + 3].v));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    sums = sums + IntVec(vpaddlq_s16(vaddq_s16(low, high)));
  }
#elif defined(OORT_ISA_avx512)
  for (int i = 0; i < vectors; ++i, q += 16) {
    sums = sums + rounded[i];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(rounded[i].v));
  }
#elif defined(OORT_ISA_avx2)
  for (int i = 0; i < vectors; i += 2, q += 16) {
    sums = sums + rounded[i] + rounded[i + 1];
    // AVX2 packs within the 128-bit halves of a register.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packs_epi32(rounded[i].v, rounded[i + 1].v), 0b11011000);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(q),
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
#else
  for (int i = 0; i < vectors; ++i, q += Vec::kWidth) {
    sums = sums + rounded[i];
    float bits[Vec::kWidth];
    FromBits(rounded[i]).Store(bits);
    int32_t lanes[Vec::kWidth];
    std::memcpy(lanes, bits, sizeof(lanes));
    for (int j = 0; j < Vec::kWidth; ++j) q[j] = static_cast<int8_t>(lanes[j]);
  }
#endif
  return sums;
}

inline int32_t SumOf(IntVec sums) {
#if defined(OORT_ISA_neon)
  return vaddvq_s32(sums.v);
#elif defined(OORT_ISA_avx512)
  return _mm512_reduce_add_epi32(sums.v);
#else
  float bits[Vec::kWidth];
  FromBits(sums).Store(bits);
  // Numbers that are not finite make the sum overflow, as they do in the vector units.
  uint32_t lanes[Vec::kWidth], total = 0;
  std::memcpy(lanes, bits, sizeof(lanes));
  for (int j = 0; j < Vec::kWidth; ++j) total += lanes[j];
  return static_cast<int32_t>(total);
#endif
}

inline void PutNumbers(const ByteNumbers& to, int64_t at, float scale, int32_t sum) {
  to.scale[at] = scale;
  to.sum[at] = sum;
  to.offset[at] = scale * static_cast<float>(sum);
}

/// A piece gets a second byte if the square of its largest element is above this times the mean of
/// these squares over the row.
constexpr float kFineFrom = 6.0f;

/// Finds the largest magnitude of each piece; these go where the pieces' scales will be. Returns
/// the square from which on a piece gets a second byte.
template <int piece>
float FindLargest(const float* x, int64_t count, const ByteRows& to) {
  float squares = 0;
  int64_t pieces = 0;
  for (int64_t at = 0; at < count; at += piece, ++pieces) {
    Vec most(0.0f);
    Unroll<piece / Vec::kWidth>(
        [&](auto i) { most = FastMax(Abs(Vec::Load(x + at + i * Vec::kWidth)), most); });
    const float largest = ReduceMax(most);
    to.of_4_bits.scale[pieces * to.block] = largest;
    squares += largest * largest;
  }
  return kFineFrom * squares / static_cast<float>(pieces);
}

/// The scale takes the largest element to 127; bytes of a piece of zeros or NaN are 0.
template <int piece>
void QuantizePieces(const float* x, int64_t count, const ByteRows& to) {
  constexpr int kPieceVectors = piece / Vec::kWidth;
  constexpr float kFine = static_cast<float>(kFineSteps);
  const bool all_fine = to.of_8_bits.scale != nullptr;
  const float fine_from = FindLargest<piece>(x, count, to);
  int8_t* q = to.q;
  int8_t* fine = to.fine;
  const int64_t end = count / piece * to.block;
  for (int64_t at = 0; at < end; at += to.block, x += piece) {
    const float most = to.of_4_bits.scale[at];
    // A smaller number might have no finite inverse.
    const float inverse = most > 1e-35f && most <= 3.4e38f ? 127.0f / most : 0.0f;
    Vec values[kPieceVectors];
    IntVec rounded[kPieceVectors];
    Unroll<kPieceVectors>([&](auto i) {
      values[i] = Vec::Load(x + i * Vec::kWidth) * Vec(inverse);
      rounded[i] = ToInt(values[i]);
    });
    const int32_t sum = SumOf(StoreBytes(rounded, kPieceVectors, q + at * piece));
    const float scale = inverse > 0 ? most / 127.0f : 0.0f;
    const bool is_fine = most * most > fine_from;
    to.is_fine[at] = is_fine ? 1 : 0;
    PutNumbers(to.of_4_bits, at, scale, sum);
    if (!is_fine && !all_fine) {
      std::memset(fine + at * piece, 0, piece);
      continue;
    }
    Unroll<kPieceVectors>(
        [&](auto i) { rounded[i] = ToInt((values[i] - ToFloat(rounded[i])) * Vec(kFine)); });
    const int32_t fine_sum = SumOf(StoreBytes(rounded, kPieceVectors, fine + at * piece));
    const int32_t both = static_cast<int32_t>(uint32_t{kFineSteps} * static_cast<uint32_t>(sum) +
                                              static_cast<uint32_t>(fine_sum));
    if (is_fine) PutNumbers(to.of_4_bits, at, scale / kFine, both);
    if (all_fine) PutNumbers(to.of_8_bits, at, scale / kFine, both);
  }
}

void Quantize(const float* x, int64_t count, const ByteRows& to) {
  if (to.piece == 16) return QuantizePieces<16>(x, count, to);
  QuantizePieces<32>(x, count, to);
}

/// `count` lanes of one row from column c on, or whole vectors.
template <Activation kind, bool whole>
[[gnu::always_inline]] inline void FinishVector(const QuantizedFinish& f, int r, int c, int count) {
  const auto load = [&](const float* p) __attribute__((always_inline)) {
    if constexpr (whole) {
      return Vec::Load(p + c);
    } else {
      return Vec::LoadPartial(p + c, count);
    }
  };
  Vec value = load(f.z + r * f.z_stride);
  if (f.bias != nullptr) value = value + load(f.bias);
  if (f.addend != nullptr) value = value + load(f.addend + r * f.addend_stride);
  value = Activate<kind>(value, Vec(f.activation.a), Vec(f.activation.b));
  if (f.up != nullptr) {
    Vec up = load(f.up + r * f.z_stride);
    if (f.up_bias != nullptr) up = up + load(f.up_bias);
    value = value * up;
  }
  float* y = f.y + r * f.y_stride + c;
  if constexpr (whole) {
    value.Store(y);
  } else {
    value.StorePartial(y, count);
  }
}

template <Activation kind>
void FinishAs(const QuantizedFinish& finish) {
  const QuantizedFinish f = finish;  // a copy, which no store can alias
  for (int r = 0; r < f.rows; ++r) {
    int c = 0;
    for (; c + Vec::kWidth <= f.columns; c += Vec::kWidth) FinishVector<kind, true>(f, r, c, 0);
    if (c < f.columns) FinishVector<kind, false>(f, r, c, f.columns - c);
  }
}

void Finish(const QuantizedFinish& finish) {
  WithActivation(finish.activation.kind, [&](auto tag) { FinishAs<decltype(tag)::kKind>(finish); });
}

void Spread(const QuantizedSpread& job) {
  const int64_t groups = job.k / job.layout.group;
  Lanes sums = Lanes::Broadcast(0.0f);
  for (int64_t g = 0; g < groups; ++g) {
    const GroupLanes numbers(job.layout, GroupPlace(job.layout, job.panel, g));
    Unroll<kVectors>([&](auto i) {
      const Vec scale = numbers.scale.v[i];
      sums.v[i] = Fma(scale * scale, Vec(job.energy[g]), sums.v[i]);
    });
  }
  sums.Store(job.spread);
}

int64_t FindNear(const NearPanels& job) {
  int64_t found = 0;
  for (int64_t p = 0; p < job.panels; p += Vec::kWidth) {
    Vec spread(0.0f);
    for (int64_t g = 0; g < job.groups; ++g) {
      spread = Fma(Vec::Load(job.squares + g * job.stride + p), Vec(job.energy[g]), spread);
    }
    float room[Vec::kWidth];
    (Vec(job.room) * (Vec(job.best_spread) + spread)).Store(room);
    const int count = job.panels - p < Vec::kWidth ? static_cast<int>(job.panels - p) : Vec::kWidth;
    for (int i = 0; i < count; ++i) {
      const Lanes y = Lanes::Load(job.y + (p + i) * kPanelRows);
      Vec most = y.v[0];
      Unroll<kVectors - 1>([&](auto j) { most = FastMax(most, y.v[j + 1]); });
      const float away = job.best - ReduceMax(most);
      if (away * away <= room[i]) job.near[found++] = static_cast<int32_t>(p + i);
    }
  }
  return found;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(QuantizedKernels, {.gemv = OORT_ISA::Gemv,
                                       .quantize = OORT_ISA::Quantize,
                                       .finish = OORT_ISA::Finish,
                                       .spread = OORT_ISA::Spread,
                                       .find_near = OORT_ISA::FindNear})
