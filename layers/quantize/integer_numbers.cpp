// SPDX-License-Identifier: MIT
#include "layers/quantize/integer_numbers.h"

#include <cmath>

namespace oort {
namespace {

/// Limits of what is rounded: those of the result's integers and of the activation.
void FindIntegerLimits(const IntegerScales& numbers, IntegerNumbers& found) {
  found.low = static_cast<float>(LeastByte(numbers.result) - numbers.output.zero_point);
  found.high = static_cast<float>(MostByte(numbers.result) - numbers.output.zero_point);
  if (!found.direct || numbers.activation.kind == Activation::kNone) return;
  const bool relu = numbers.activation.kind == Activation::kRelu;
  const float least = relu ? 0 : numbers.activation.a / numbers.output.scale;
  const float most = relu ? found.high : numbers.activation.b / numbers.output.scale;
  const float lowest = found.low, highest = found.high;
  // A clamp whose limits cross gives the upper one.
  found.high = std::fmin(std::fmax(most, lowest), highest);
  found.low = std::fmin(std::fmax(least, lowest), found.high);
}

}  // namespace

IntegerNumbers IntegerNumbersOf(const IntegerScales& numbers, std::span<const float> scales,
                                std::span<const float> bias) {
  const Activation kind = numbers.activation.kind;
  const bool bytes = numbers.result != DType::kF32;
  IntegerNumbers found;
  found.direct = kind == Activation::kNone ||
                 (bytes && (kind == Activation::kRelu || kind == Activation::kClamp));
  const double unit = found.direct && bytes ? static_cast<double>(numbers.output.scale) : 1;
  const double addend = static_cast<double>(numbers.addend.scale);
  for (size_t c = 0; c < scales.size(); ++c) {
    found.scale.push_back(static_cast<float>(static_cast<double>(numbers.input.scale) *
                                             static_cast<double>(scales[c]) / unit));
    double rest = bias.empty() ? 0 : static_cast<double>(bias[c]);
    rest -= static_cast<double>(numbers.addend.zero_point) * addend;
    found.bias.push_back(static_cast<float>(rest / unit));
  }
  found.addend_scale = static_cast<float>(addend / unit);
  if (bytes) FindIntegerLimits(numbers, found);
  return found;
}

}  // namespace oort
