// SPDX-License-Identifier: MIT
// What the sum under a window of average pooling is divided by.
#pragma once

#include "layers/pooling/window.h"

namespace oort {

/// The parameters count_include_pad and divisor_override.
struct PoolDivisorParams {
  explicit PoolDivisorParams(const LayerInit& init) : include_pad(init.Bool("count_include_pad")) {
    const Value& divisor = init.Constant("divisor_override");
    if (divisor.IsNone()) return;
    override_with = divisor.AsInt();
    if (override_with == 0) {
      throw Error(ErrorCode::kInvalidArgument, "divisor_override must not be zero");
    }
  }
  bool include_pad;
  int64_t override_with = 0;  ///< 0: nothing
};

/// The divisor is a product over the axes, unless overridden.
class PoolDivisor {
 public:
  PoolDivisor(const PlaneWindow& window, const PoolDivisorParams& params)
      : window_(window), params_(params) {}
  int64_t Along(int axis, int64_t i) const {
    if (params_.override_with != 0) return axis == 2 ? params_.override_with : 1;
    const WindowAxis& window = window_[static_cast<size_t>(axis)];
    return params_.include_pad ? window.PaddedCount(i) : window.At(i).count;
  }

 private:
  const PlaneWindow& window_;
  PoolDivisorParams params_;
};

}  // namespace oort
