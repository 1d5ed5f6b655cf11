// SPDX-License-Identifier: MIT
#include "parser/gguf/types.h"

#include <algorithm>
#include <iterator>

namespace oort::gguf {
namespace {

constexpr TensorType kTensorTypes[] = {
    {0, "f32", 1, 4, WeightFormat::kF32},
    {1, "f16", 1, 2, WeightFormat::kF16},
    {2, "q4_0", 32, 18, WeightFormat::kQ4_0},
    {3, "q4_1", 32, 20, WeightFormat::kQ4_1},
    {6, "q5_0", 32, 22, WeightFormat::kQ5_0},
    {7, "q5_1", 32, 24, WeightFormat::kQ5_1},
    {8, "q8_0", 32, 34, WeightFormat::kQ8_0},
    {10, "q2_k", 256, 84, WeightFormat::kQ2K},
    {11, "q3_k", 256, 110, WeightFormat::kQ3K},
    {12, "q4_k", 256, 144, WeightFormat::kQ4K},
    {13, "q5_k", 256, 176, WeightFormat::kQ5K},
    {14, "q6_k", 256, 210, WeightFormat::kQ6K},
    {16, "iq2_xxs", 256, 66, WeightFormat::kIq2Xxs},
    {17, "iq2_xs", 256, 74, WeightFormat::kIq2Xs},
    {18, "iq3_xxs", 256, 98, WeightFormat::kIq3Xxs},
    {19, "iq1_s", 256, 50, WeightFormat::kIq1S},
    {20, "iq4_nl", 32, 18, WeightFormat::kIq4Nl},
    {21, "iq3_s", 256, 110, WeightFormat::kIq3S},
    {22, "iq2_s", 256, 82, WeightFormat::kIq2S},
    {23, "iq4_xs", 256, 136, WeightFormat::kIq4Xs},
    {24, "i8", 1, 1, {}},
    {25, "i16", 1, 2, {}},
    {26, "i32", 1, 4, {}},
    {27, "i64", 1, 8, {}},
    {28, "f64", 1, 8, {}},
    {29, "iq1_m", 256, 56, WeightFormat::kIq1M},
    {30, "bf16", 1, 2, WeightFormat::kBf16},
    {34, "tq1_0", 256, 54, WeightFormat::kTq1_0},
    {35, "tq2_0", 256, 66, WeightFormat::kTq2_0},
    {39, "mxfp4", 32, 17, WeightFormat::kMxfp4},
    {40, "nvfp4", 64, 36, {}},
    {41, "q1_0", 128, 18, {}},
    {42, "q2_0", 64, 18, {}},
};

}  // namespace

const TensorType* FindTensorType(int32_t id) {
  const auto at = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                               [id](const TensorType& type) { return type.id == id; });
  return at == std::end(kTensorTypes) ? nullptr : at;
}

const TensorType* TensorTypeOf(WeightFormat format) {
  const auto at = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                               [format](const TensorType& type) { return type.format == format; });
  return at == std::end(kTensorTypes) ? nullptr : at;
}

}  // namespace oort::gguf
