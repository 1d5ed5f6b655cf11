// SPDX-License-Identifier: MIT
// Dequantizes panels of weights to f32 or bf16, for the blocked product of prefill.
#include "layers/quantized_linear/cpu/quantized_lines.h"

#if defined(OORT_ISA_neon)
#include "layers/quantized_linear/cpu/quantized_fours_neon.h"
#elif defined(OORT_ISA_avx512)
#include "layers/quantized_linear/cpu/quantized_pairs_avx512.h"
#endif

namespace oort::OORT_ISA {
namespace {

template <WeightType type>
void UnpackFloat(const std::byte* panel, int64_t k0, int64_t k1, float* out, int64_t stride) {
  constexpr int64_t kBytes = kPanelRows * (type == WeightType::kF32 ? 4 : 2);
  for (int64_t k = k0; k < k1; ++k, out += stride) LoadStep<type>(panel + k * kBytes).Store(out);
}

template <WeightType type>
void UnpackQuantized(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                     float* out, int64_t stride) {
  const Vec zero(static_cast<float>(layout.zero));
  ForGroups(layout, k0, k1, [&](int64_t index, int64_t begin, int64_t end) {
    const GroupPlace group(layout, panel, index);
    const GroupLanes numbers(layout, group);
    float* to = out + (index * layout.group - k0) * stride;
    ForSteps<type>(group.lines, begin, end, [&](int64_t step, const Lanes& q) {
      Lanes value;
      Unroll<kVectors>([&](auto i) {
        value.v[i] = Fma(q.v[i] - zero, numbers.scale.v[i], numbers.minimum.v[i]);
      });
      value.Store(to + step * stride);
    });
  });
}

void Unpack(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1, float* out,
            int64_t stride) {
  switch (layout.type) {
    case WeightType::kF32: return UnpackFloat<WeightType::kF32>(panel, k0, k1, out, stride);
    case WeightType::kF16: return UnpackFloat<WeightType::kF16>(panel, k0, k1, out, stride);
    case WeightType::kBf16: return UnpackFloat<WeightType::kBf16>(panel, k0, k1, out, stride);
    case WeightType::kInt8:
      return UnpackQuantized<WeightType::kInt8>(layout, panel, k0, k1, out, stride);
    case WeightType::kInt6:
      return UnpackQuantized<WeightType::kInt6>(layout, panel, k0, k1, out, stride);
    case WeightType::kInt5:
      return UnpackQuantized<WeightType::kInt5>(layout, panel, k0, k1, out, stride);
    case WeightType::kInt4:
      return UnpackQuantized<WeightType::kInt4>(layout, panel, k0, k1, out, stride);
  }
}

/// Rounds to bf16, in the upper half of each lane.
inline IntVec RoundUpper(Vec value) { return Bits(value) + IntVec(0x8000); }

/// Packs two steps of 16 rows into lanes of 32 bits: the first step is in the lower 16 bits.
inline void StorePairs(const Lanes& first, const Lanes& second, uint16_t* to) {
  Unroll<kVectors>([&](auto i) {
    const IntVec upper = RoundUpper(second.v[i]) & IntVec(static_cast<int32_t>(0xffff0000u));
    float pairs[Vec::kWidth];
    FromBits(ShiftRight<16>(RoundUpper(first.v[i])) | upper).Store(pairs);
    std::memcpy(to + i * 2 * Vec::kWidth, pairs, sizeof(pairs));
  });
}

/// The general form: dequantizes sixteen steps at a time to f32 and rounds them.
void UnpackPairs(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                 const Bf16Target& to) {
#if defined(OORT_ISA_avx512)
  switch (layout.type) {
    case WeightType::kInt4:
      return UnpackPairsQuantized<WeightType::kInt4>(layout, panel, k0, k1, to);
    case WeightType::kInt5:
      return UnpackPairsQuantized<WeightType::kInt5>(layout, panel, k0, k1, to);
    case WeightType::kInt6:
      return UnpackPairsQuantized<WeightType::kInt6>(layout, panel, k0, k1, to);
    case WeightType::kInt8:
      return UnpackPairsQuantized<WeightType::kInt8>(layout, panel, k0, k1, to);
    default: break;
  }
#endif
  constexpr int64_t kSteps = 16;
  alignas(64) float steps[kSteps * kPanelRows];
  uint16_t* out = to.blocks[0];
  for (int64_t k = k0; k < k1; k += kSteps) {
    const int64_t count = k1 - k < kSteps ? k1 - k : kSteps;
    Unpack(layout, panel, k, k + count, steps, kPanelRows);
    for (int64_t i = 0; i < count; i += 2, out += to.step) {
      const Lanes second =
          i + 1 < count ? Lanes::Load(steps + (i + 1) * kPanelRows) : Lanes::Broadcast(0.0f);
      StorePairs(Lanes::Load(steps + i * kPanelRows), second, out);
    }
  }
}

#if defined(OORT_ISA_neon)
constexpr auto kUnpackFours = &UnpackFours;
#else
constexpr decltype(&UnpackPairs) kUnpackFours = nullptr;
#endif

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(DequantizeKernels, {.unpack = OORT_ISA::Unpack,
                                        .unpack_pairs = OORT_ISA::UnpackPairs,
                                        .unpack_fours = OORT_ISA::kUnpackFours})
