// SPDX-License-Identifier: MIT
#include <cstring>

#include "cpu/activation_epilogue.h"
#include "cpu/compact/compact_kernels.h"
#include "cpu/compact/compact_scales.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {
namespace {

constexpr int kVectors = kCompactRows / Vec::kWidth;

/// 16 lanes: one for each row of a panel.
struct Lanes {
  Vec v[kVectors];
  static Lanes Broadcast(float value) {
    Lanes lanes;
    Unroll<kVectors>([&](auto i) { lanes.v[i] = Vec(value); });
    return lanes;
  }
  static Lanes Load(const float* p) {
    Lanes lanes;
    Unroll<kVectors>([&](auto i) { lanes.v[i] = Vec::Load(p + i * Vec::kWidth); });
    return lanes;
  }
  void Store(float* p) const {
    Unroll<kVectors>([&](auto i) { v[i].Store(p + i * Vec::kWidth); });
  }
};

Lanes LoadScales(const std::byte* p, bool f16) {
  Lanes lanes;
  Unroll<kVectors>([&](auto i) { lanes.v[i] = LoadScale(p, i * Vec::kWidth, f16); });
  return lanes;
}

/// 64 bytes as 16 integers of four bytes.
struct Line {
  IntVec v[kVectors];
  explicit Line(const std::byte* p) {
    Unroll<kVectors>([&](auto i) {
      float bits[Vec::kWidth];
      std::memcpy(bits, p + i * Vec::kWidth * 4, sizeof(bits));
      v[i] = Bits(Vec::Load(bits));
    });
  }
};

/// Calls step(k, lanes of q) for the steps of one line.
template <typename Step>
inline void ForNibbles(const Line& line, Step step) {
  Unroll<4>([&](auto j) {
    Lanes low, high;
    Unroll<kVectors>([&](auto i) {
      low.v[i] = ToFloat(ShiftRight<8 * j>(line.v[i]) & IntVec(15));
      high.v[i] = ToFloat(ShiftRight<8 * j + 4>(line.v[i]) & IntVec(15));
    });
    step(j, low);
    step(j + 4, high);
  });
}

template <typename Step>
inline void ForBytes(const Line& line, Step step) {
  Unroll<4>([&](auto j) {
    Lanes lanes;
    Unroll<kVectors>([&](auto i) {
      lanes.v[i] = ToFloat(ShiftRightSigned<24>(ShiftLeft<24 - 8 * j>(line.v[i])));
    });
    step(j, lanes);
  });
}

/// Calls step(k, lanes of q) for all steps of one group of quantized weights.
template <CompactType type, typename Step>
inline void ForGroup(const std::byte* lines, int group, Step step) {
  constexpr int kSteps = type == CompactType::kInt4 ? 8 : 4;
  for (int k = 0; k < group; k += kSteps, lines += 64) {
    const Line line(lines);
    const auto at = [&](int j, const Lanes& q) { step(k + j, q); };
    if constexpr (type == CompactType::kInt4) {
      ForNibbles(line, at);
    } else {
      ForBytes(line, at);
    }
  }
}

template <CompactType type, int rows>
void GemvQuantized(const CompactGemv& gemv) {
  const CompactLayout& layout = gemv.layout;
  const int64_t groups = gemv.k / layout.group, bytes = layout.group_bytes();
  const int64_t scales = kCompactRows * layout.scale_bytes();
  Lanes total[rows];
  Unroll<rows>([&](auto r) { total[r] = Lanes::Broadcast(0.0f); });
  const Vec zero(static_cast<float>(layout.zero));
  for (int64_t g = 0; g < groups; ++g) {
    const std::byte* group = gemv.panel + g * bytes;
    const float* x = gemv.x + g * layout.group;
    Lanes sums[rows];
    float x_sums[rows] = {};
    Unroll<rows>([&](auto r) { sums[r] = Lanes::Broadcast(0.0f); });
    ForGroup<type>(group + layout.head_bytes(), layout.group, [&](int k, const Lanes& q) {
      Unroll<rows>([&](auto r) {
        const float factor = x[r * gemv.x_stride + k];
        x_sums[r] += factor;
        Unroll<kVectors>(
            [&](auto i) { sums[r].v[i] = Fma(q.v[i] - zero, Vec(factor), sums[r].v[i]); });
      });
    });
    const Lanes scale = LoadScales(group, layout.f16_scales);
    Unroll<rows>([&](auto r) {
      Unroll<kVectors>(
          [&](auto i) { total[r].v[i] = Fma(sums[r].v[i], scale.v[i], total[r].v[i]); });
    });
    if (!layout.has_minimum) continue;
    const Lanes minimum = LoadScales(group + scales, layout.f16_scales);
    Unroll<rows>([&](auto r) {
      Unroll<kVectors>(
          [&](auto i) { total[r].v[i] = Fma(minimum.v[i], Vec(x_sums[r]), total[r].v[i]); });
    });
  }
  Unroll<rows>([&](auto r) { total[r].Store(gemv.y + r * kCompactRows); });
}

/// Elements (k, 16) of a floating-point panel.
template <CompactType type>
inline Lanes LoadStep(const std::byte* p) {
  Lanes lanes;
  Unroll<kVectors>([&](auto i) {
    if constexpr (type == CompactType::kBf16) {
      lanes.v[i] = LoadBf16At(p, i * Vec::kWidth);
    } else {
      lanes.v[i] = LoadScale(p, i * Vec::kWidth, type == CompactType::kF16);
    }
  });
  return lanes;
}

template <CompactType type, int rows>
void GemvFloat(const CompactGemv& gemv) {
  constexpr int64_t kBytes = kCompactRows * (type == CompactType::kF32 ? 4 : 2);
  // Two sums of each, so that one step need not wait for the one before.
  Lanes even[rows], odd[rows];
  Unroll<rows>([&](auto r) { even[r] = odd[r] = Lanes::Broadcast(0.0f); });
  const auto add = [&](Lanes(&sums)[rows], int64_t k) {
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
    even[r].Store(gemv.y + r * kCompactRows);
  });
}

template <int rows>
void GemvRows(const CompactGemv& gemv) {
  switch (gemv.layout.type) {
    case CompactType::kF32: return GemvFloat<CompactType::kF32, rows>(gemv);
    case CompactType::kF16: return GemvFloat<CompactType::kF16, rows>(gemv);
    case CompactType::kBf16: return GemvFloat<CompactType::kBf16, rows>(gemv);
    case CompactType::kInt8: return GemvQuantized<CompactType::kInt8, rows>(gemv);
    case CompactType::kInt4: return GemvQuantized<CompactType::kInt4, rows>(gemv);
  }
}

void Gemv(const CompactGemv& gemv) {
  switch (gemv.rows) {
    case 1: return GemvRows<1>(gemv);
    case 2: return GemvRows<2>(gemv);
    case 3: return GemvRows<3>(gemv);
    default: return GemvRows<4>(gemv);
  }
}

template <CompactType type>
void UnpackFloat(const std::byte* panel, int64_t k0, int64_t k1, float* out, int64_t stride) {
  constexpr int64_t kBytes = kCompactRows * (type == CompactType::kF32 ? 4 : 2);
  for (int64_t k = k0; k < k1; ++k, out += stride) LoadStep<type>(panel + k * kBytes).Store(out);
}

template <CompactType type>
void UnpackQuantized(const CompactLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                     float* out, int64_t stride) {
  const int64_t scales = kCompactRows * layout.scale_bytes(), bytes = layout.group_bytes();
  const Vec zero(static_cast<float>(layout.zero));
  constexpr int kSteps = type == CompactType::kInt4 ? 8 : 4;
  for (int64_t k = k0, steps = 0; k < k1; k += steps, out += steps * stride) {
    const std::byte* group = panel + k / layout.group * bytes;
    const int64_t into = k % layout.group;
    steps = layout.group - into < k1 - k ? layout.group - into : k1 - k;
    const Lanes scale = LoadScales(group, layout.f16_scales);
    const Lanes minimum =
        layout.has_minimum ? LoadScales(group + scales, layout.f16_scales) : Lanes::Broadcast(0.0f);
    const std::byte* lines = group + layout.head_bytes() + into / kSteps * 64;
    ForGroup<type>(lines, static_cast<int>(steps), [&](int step, const Lanes& q) {
      Lanes value;
      Unroll<kVectors>([&](auto i) { value.v[i] = Fma(q.v[i] - zero, scale.v[i], minimum.v[i]); });
      value.Store(out + step * stride);
    });
  }
}

void Unpack(const CompactLayout& layout, const std::byte* panel, int64_t k0, int64_t k1, float* out,
            int64_t stride) {
  switch (layout.type) {
    case CompactType::kF32: return UnpackFloat<CompactType::kF32>(panel, k0, k1, out, stride);
    case CompactType::kF16: return UnpackFloat<CompactType::kF16>(panel, k0, k1, out, stride);
    case CompactType::kBf16: return UnpackFloat<CompactType::kBf16>(panel, k0, k1, out, stride);
    case CompactType::kInt8:
      return UnpackQuantized<CompactType::kInt8>(layout, panel, k0, k1, out, stride);
    case CompactType::kInt4:
      return UnpackQuantized<CompactType::kInt4>(layout, panel, k0, k1, out, stride);
  }
}

/// The scale that takes the largest element to 127; bytes of a piece of zeros or NaN are 0.
void Quantize(const float* x, int64_t count, int piece, int8_t* q, float* scale, int32_t* sum) {
  for (int64_t p = 0; p < count; p += piece, ++scale, ++sum) {
    Vec largest(0.0f);
    for (int i = 0; i < piece; i += Vec::kWidth)
      largest = FastMax(Abs(Vec::Load(x + p + i)), largest);
    const float most = ReduceMax(largest);
    const float inverse = most > 0 && most <= 3.4e38f ? 127.0f / most : 0.0f;
    IntVec sums(0);
    for (int i = 0; i < piece; i += Vec::kWidth) {
      const IntVec rounded = ToInt(Vec::Load(x + p + i) * Vec(inverse));
      sums = sums + rounded;
      float bits[Vec::kWidth];
      FromBits(rounded).Store(bits);
      int32_t lanes[Vec::kWidth];
      std::memcpy(lanes, bits, sizeof(lanes));
      for (int j = 0; j < Vec::kWidth; ++j) q[p + i + j] = static_cast<int8_t>(lanes[j]);
    }
    float bits[Vec::kWidth];
    FromBits(sums).Store(bits);
    int32_t lanes[Vec::kWidth];
    std::memcpy(lanes, bits, sizeof(lanes));
    int32_t total = 0;
    for (int j = 0; j < Vec::kWidth; ++j) total += lanes[j];
    *sum = total;
    *scale = inverse > 0 ? most / 127.0f : 0.0f;
  }
}

/// `count` lanes from p, zeros where p is null.
inline Vec LoadOr0(const float* p, int count) {
  return p == nullptr ? Vec(0.0f) : Vec::LoadPartial(p, count);
}

template <Activation kind>
void FinishAs(const CompactFinish& f) {
  const Vec a(f.activation.a), b(f.activation.b);
  for (int c = 0; c < f.columns; c += Vec::kWidth) {
    const int count = f.columns - c < Vec::kWidth ? f.columns - c : Vec::kWidth;
    const Vec bias = LoadOr0(f.bias == nullptr ? nullptr : f.bias + c, count);
    const Vec up_bias = LoadOr0(f.up_bias == nullptr ? nullptr : f.up_bias + c, count);
    for (int r = 0; r < f.rows; ++r) {
      const int64_t at = r * f.z_stride + c;
      Vec value = Vec::LoadPartial(f.z + at, count) + bias;
      if (f.addend != nullptr) {
        value = value + Vec::LoadPartial(f.addend + r * f.addend_stride + c, count);
      }
      value = Activate<kind>(value, a, b);
      if (f.up != nullptr) value = value * (Vec::LoadPartial(f.up + at, count) + up_bias);
      value.StorePartial(f.y + r * f.y_stride + c, count);
    }
  }
}

void Finish(const CompactFinish& finish) {
  WithActivation(finish.activation.kind, [&](auto tag) { FinishAs<decltype(tag)::kKind>(finish); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(CompactKernels, {.gemv = OORT_ISA::Gemv,
                                     .unpack = OORT_ISA::Unpack,
                                     .quantize = OORT_ISA::Quantize,
                                     .finish = OORT_ISA::Finish})
