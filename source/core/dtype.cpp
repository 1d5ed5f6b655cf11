// SPDX-License-Identifier: MIT
#include "oort/dtype.h"

#include <array>

namespace oort {
namespace {

struct Traits {
  std::string_view name;
  size_t size;
};

constexpr std::array<Traits, kDTypeCount> kTraits = {{{"null", 0},
                                                      {"f32", 4},
                                                      {"f64", 8},
                                                      {"f16", 2},
                                                      {"i32", 4},
                                                      {"i64", 8},
                                                      {"i16", 2},
                                                      {"i8", 1},
                                                      {"u8", 1},
                                                      {"bool", 1},
                                                      {"c64", 8},
                                                      {"c128", 16},
                                                      {"c32", 4},
                                                      {"bf16", 2}}};

/// Integers by rank of promotion; bool below all.
int IntegerRank(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kU8: return 1;
    case DType::kI8: return 1;
    case DType::kI16: return 2;
    case DType::kI32: return 3;
    default: return 4;
  }
}

DType PromoteFloats(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;  // f32 with anything, and f16 with bf16
}

DType RealOf(DType dtype) {
  switch (dtype) {
    case DType::kC32: return DType::kF16;
    case DType::kC64: return DType::kF32;
    case DType::kC128: return DType::kF64;
    default: return dtype;
  }
}

DType ComplexOf(DType real) {
  switch (real) {
    case DType::kF16: return DType::kC32;
    case DType::kF64: return DType::kC128;
    default: return DType::kC64;
  }
}

}  // namespace

std::string_view Name(DType dtype) { return kTraits[static_cast<size_t>(dtype)].name; }
size_t ItemSize(DType dtype) { return kTraits[static_cast<size_t>(dtype)].size; }

DType ParseDType(std::string_view name) {
  if (name == "cp64") return DType::kC64;
  for (size_t i = 1; i < kTraits.size(); ++i) {
    if (kTraits[i].name == name) return static_cast<DType>(i);
  }
  return DType::kNull;
}

bool IsFloat(DType dtype) { return kFloats.Contains(dtype); }
bool IsComplex(DType dtype) { return kComplexes.Contains(dtype); }
bool IsInteger(DType dtype) { return kIntegers.Contains(dtype); }

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kNull) return b;
  if (b == DType::kNull) return a;
  if (IsComplex(a) || IsComplex(b)) {
    const DType real_a = RealOf(a), real_b = RealOf(b);
    if (!IsFloat(real_a)) return b;
    if (!IsFloat(real_b)) return a;
    return ComplexOf(PromoteFloats(real_a, real_b));
  }
  if (IsFloat(a) && IsFloat(b)) return PromoteFloats(a, b);
  if (IsFloat(a)) return a;
  if (IsFloat(b)) return b;
  if ((a == DType::kU8 && b == DType::kI8) || (a == DType::kI8 && b == DType::kU8)) {
    return DType::kI16;
  }
  return IntegerRank(a) >= IntegerRank(b) ? a : b;
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: the value is mantissa * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t FloatToHalf(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to inf
  if (magnitude < 0x38800000u) {                                               // subnormal
    // Adding 0.5 moves the last kept bit to the unit of 2^-24, and the FPU rounds to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace oort
