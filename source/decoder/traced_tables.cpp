// SPDX-License-Identifier: MIT
#include "decoder/traced_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>

namespace oort {
namespace {

/// Added to a score, this leaves nothing of it: masks have -inf or the least number of their dtype.
constexpr float kMaskedBelow = -1e4F;

/// Two columns of the tables that turn one pair.
struct AngleColumns {
  std::span<const float> cosines, sines;
  int64_t width, column;

  double Cosine(int64_t position) const {
    return static_cast<double>(cosines[static_cast<size_t>(position * width + column)]);
  }
  double Sine(int64_t position) const {
    return static_cast<double>(sines[static_cast<size_t>(position * width + column)]);
  }
};

/// The angle of position 1, made more precise with those of positions 2, 4, 8, …, where an error of
/// the table counts less.
double FrequencyOf(const AngleColumns& columns, int64_t positions) {
  double frequency = std::atan2(columns.Sine(1), columns.Cosine(1));
  for (int64_t position = 2; position < positions; position *= 2) {
    constexpr double kTurn = 2 * std::numbers::pi;
    const double expected = frequency * static_cast<double>(position);
    const double seen = std::atan2(columns.Sine(position), columns.Cosine(position));
    const double turns = std::round((expected - seen) / kTurn);
    frequency = (seen + turns * kTurn) / static_cast<double>(position);
  }
  return frequency;
}

bool HasAngles(const AngleColumns& columns, int64_t positions, double frequency, double magnitude) {
  for (int64_t position = 0; position < positions; ++position) {
    const double at = static_cast<double>(position);
    // torch rounds the angle to f32 before it takes its sine.
    const double tolerance = magnitude * (2e-5 + 4e-7 * at);
    const double cosine = magnitude * std::cos(frequency * at);
    const double sine = magnitude * std::sin(frequency * at);
    if (!(std::abs(columns.Cosine(position) - cosine) <= tolerance) ||
        !(std::abs(columns.Sine(position) - sine) <= tolerance)) {
      return false;
    }
  }
  return true;
}

bool IsSeen(const Tensor& mask, int64_t index) {
  if (mask.dtype() == DType::kBool) {
    return std::to_integer<int>(mask.raw()[index]) != 0;
  }
  const float added = mask.span<float>()[static_cast<size_t>(index)];
  if (added == 0) return true;
  if (added <= kMaskedBelow) return false;
  throw Error(ErrorCode::kUnsupported, "the mask adds " + std::to_string(added) +
                                           " to a score, which neither hides it nor leaves it");
}

void RequireMask(const Tensor& mask, int64_t tokens) {
  const int rank = mask.rank();
  const bool fits = rank >= 2 && mask.dim(rank - 1) == tokens && mask.dim(rank - 2) == tokens &&
                    mask.elements() == tokens * tokens;
  if (!fits || (mask.dtype() != DType::kBool && mask.dtype() != DType::kF32)) {
    throw Error(ErrorCode::kUnsupported, "expected a mask of " + std::to_string(tokens) + " by " +
                                             std::to_string(tokens) +
                                             " tokens for all heads, got " + mask.ToString());
  }
}

}  // namespace

std::optional<TracedRotary> RecoverRotary(const Tensor& cosines, const Tensor& sines,
                                          int64_t positions, bool interleaved) {
  if (positions < 2 || cosines.dtype() != DType::kF32 || sines.dtype() != DType::kF32) return {};
  const int64_t width = cosines.elements() / positions;
  if (width < 2 || width % 2 != 0 || cosines.elements() != width * positions ||
      sines.elements() != cosines.elements()) {
    return {};
  }
  TracedRotary rotary;
  rotary.interleaved = interleaved;
  rotary.magnitude = static_cast<double>(cosines.span<float>()[0]);
  if (!(rotary.magnitude > 0)) return {};
  const int64_t pairs = width / 2;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    AngleColumns first{cosines.span<float>(), sines.span<float>(), width,
                       interleaved ? 2 * pair : pair};
    AngleColumns second = first;
    second.column += interleaved ? 1 : pairs;
    const double frequency = FrequencyOf(first, positions);
    if (!std::isfinite(frequency) || !HasAngles(first, positions, frequency, rotary.magnitude) ||
        !HasAngles(second, positions, frequency, rotary.magnitude)) {
      return {};
    }
    rotary.frequencies.push_back(static_cast<float>(frequency));
  }
  return rotary;
}

int64_t CausalWindow(const Tensor& mask, int64_t tokens) {
  RequireMask(mask, tokens);
  int64_t window = 0;
  for (int64_t row = 0; row < tokens; ++row) {
    int64_t seen = 0;
    for (int64_t column = 0; column < tokens; ++column) {
      const bool sees = IsSeen(mask, row * tokens + column);
      if (sees && column > row) {
        throw Error(ErrorCode::kUnsupported, "the mask is not causal: it lets token " +
                                                 std::to_string(row) + " see token " +
                                                 std::to_string(column));
      }
      // What is seen must reach up to the token itself without a gap.
      if (seen > 0 && !sees && column <= row) seen = tokens + 1;
      if (sees) ++seen;
    }
    if (row == 0) window = seen;
    const bool all = seen == row + 1 && window == row;
    if (all || row == 0) window = seen;
    if (seen != std::min(window, row + 1) || seen == 0) {
      throw Error(ErrorCode::kUnsupported,
                  "the mask lets token " + std::to_string(row) +
                      " see other tokens than all before it, or than so many of the last");
    }
  }
  return window == tokens ? 0 : window;
}

}  // namespace oort
