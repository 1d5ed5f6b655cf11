// SPDX-License-Identifier: MIT
// Element types: those that pnnx writes, under pnnx's numbers.
#pragma once

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace oort {

enum class DType : uint8_t {
  kNull = 0,
  kF32 = 1,
  kF64 = 2,
  kF16 = 3,
  kI32 = 4,
  kI64 = 5,
  kI16 = 6,
  kI8 = 7,
  kU8 = 8,
  kBool = 9,
  kC64 = 10,   ///< two f32
  kC128 = 11,  ///< two f64
  kC32 = 12,   ///< two f16
  kBF16 = 13,
};

inline constexpr int kDTypeCount = 14;

/// "f32", "i64", …; "null" for kNull.
std::string_view Name(DType dtype);
/// Accepts pnnx's names (and the old "cp64"); returns kNull for anything else.
DType ParseDType(std::string_view name);
/// Bytes of one element; 0 for kNull.
size_t ItemSize(DType dtype);

bool IsFloat(DType dtype);    ///< f16, bf16, f32, f64
bool IsComplex(DType dtype);  ///< c32, c64, c128
bool IsInteger(DType dtype);  ///< i8 … i64, u8; not bool
/// torch.promote_types(a, b) for two tensors of the same kind of rank.
DType PromoteTypes(DType a, DType b);

float HalfToFloat(uint16_t bits);
uint16_t FloatToHalf(float value);  ///< rounds to nearest even

struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(FloatToHalf(value)) {}
  explicit operator float() const { return HalfToFloat(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((u >> 16) | 0x40u)
               : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

/// A set of dtypes, for declaring what an operator takes.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType dtype) : bits_(1u << static_cast<int>(dtype)) {}  // NOLINT: implicit
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    DTypeSet both;
    both.bits_ = a.bits_ | b.bits_;
    return both;
  }
  constexpr bool Contains(DType dtype) const { return bits_ >> static_cast<int>(dtype) & 1u; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};
constexpr DTypeSet operator|(DType a, DType b) { return DTypeSet(a) | DTypeSet(b); }

inline constexpr DTypeSet kF32Only = DType::kF32;
inline constexpr DTypeSet kFloats = DType::kF32 | DType::kF64 | DType::kF16 | DType::kBF16;
inline constexpr DTypeSet kIntegers =
    DType::kI8 | DType::kU8 | DType::kI16 | DType::kI32 | DType::kI64;
inline constexpr DTypeSet kComplexes = DType::kC32 | DType::kC64 | DType::kC128;
inline constexpr DTypeSet kReals = kFloats | kIntegers | DType::kBool;
inline constexpr DTypeSet kAllDTypes = kReals | kComplexes;

/// DTypeOf<float> == DType::kF32, and so on.
template <typename T>
inline constexpr DType kDTypeOf = DType::kNull;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::kF16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kI8;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kI16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;
template <>
inline constexpr DType kDTypeOf<std::complex<float>> = DType::kC64;
template <>
inline constexpr DType kDTypeOf<std::complex<double>> = DType::kC128;

}  // namespace oort
