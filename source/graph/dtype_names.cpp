// SPDX-License-Identifier: MIT
#include "graph/dtype_names.h"

#include <array>
#include <string_view>

namespace oort {
namespace {

struct TorchName {
  std::string_view name;
  DType dtype;
};

constexpr TorchName kNames[] = {
    {"float", DType::kF32},     {"float32", DType::kF32},   {"double", DType::kF64},
    {"float64", DType::kF64},   {"half", DType::kF16},      {"float16", DType::kF16},
    {"bfloat16", DType::kBF16}, {"int", DType::kI32},       {"int32", DType::kI32},
    {"long", DType::kI64},      {"int64", DType::kI64},     {"short", DType::kI16},
    {"int16", DType::kI16},     {"int8", DType::kI8},       {"uint8", DType::kU8},
    {"bool", DType::kBool},     {"complex32", DType::kC32}, {"chalf", DType::kC32},
    {"complex64", DType::kC64}, {"cfloat", DType::kC64},    {"complex128", DType::kC128},
    {"cdouble", DType::kC128},
};

// c10::ScalarType, by number.
constexpr std::array<DType, 16> kNumbers = {DType::kU8,  DType::kI8,  DType::kI16,  DType::kI32,
                                            DType::kI64, DType::kF16, DType::kF32,  DType::kF64,
                                            DType::kC32, DType::kC64, DType::kC128, DType::kBool,
                                            DType::kI8,  DType::kU8,  DType::kI32,  DType::kBF16};

}  // namespace

DType ParseTorchDType(const Value& value) {
  if (value.IsInt()) {
    const int64_t number = value.AsInt();
    if (number < 0 || number >= static_cast<int64_t>(kNumbers.size())) return DType::kNull;
    return kNumbers[static_cast<size_t>(number)];
  }
  if (!value.IsString()) return DType::kNull;
  std::string_view name = value.AsString();
  if (name.substr(0, 6) == "torch.") name.remove_prefix(6);
  for (const TorchName& known : kNames) {
    if (known.name == name) return known.dtype;
  }
  return ParseDType(name);
}

DType RequireTorchDType(const Value& value) {
  const DType dtype = ParseTorchDType(value);
  if (dtype == DType::kNull) {
    throw Error(ErrorCode::kInvalidArgument, "expected a dtype, got " + value.ToString());
  }
  return dtype;
}

}  // namespace oort
