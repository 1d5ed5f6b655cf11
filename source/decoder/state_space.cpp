// SPDX-License-Identifier: MIT
#include "decoder/state_space.h"

#include <cmath>

namespace oort {
namespace {

/// Of each head, below 0: GGUF has them so, other files the logarithms of what they are below it.
Tensor RatesOf(const Checkpoint& checkpoint, const std::string& name) {
  if (!checkpoint.Has(name + ".rate_log.weight")) return checkpoint.Vector(name + ".rate.weight");
  Tensor rates = checkpoint.Vector(name + ".rate_log.weight").Clone();
  float* const values = rates.data<float>();
  for (int64_t i = 0; i < rates.elements(); ++i) values[i] = -std::exp(values[i]);
  return rates;
}

/// Of the channels of x, b and c: what scales them goes through the convolution.
Tensor TapsOf(const Checkpoint& checkpoint, const std::string& name) {
  const StateSpaceConfig& space = checkpoint.config().state_space;
  const Tensor weight = checkpoint.Vector(name + ".conv.weight");
  if (space.x_scale == 1 && space.b_scale == 1 && space.c_scale == 1) return weight;
  Tensor taps = weight.Clone();
  const int64_t of_group = space.groups * space.size;
  for (int64_t channel = 0; channel < space.channels(); ++channel) {
    const float scale = channel < space.inner()              ? space.x_scale
                        : channel < space.inner() + of_group ? space.b_scale
                                                             : space.c_scale;
    float* const values = taps.data<float>() + channel * space.taps;
    for (int64_t tap = 0; tap < space.taps; ++tap) values[tap] *= scale;
  }
  return taps;
}

}  // namespace

Written ShortConvolution(const Checkpoint& checkpoint, const std::string& name, int64_t index) {
  const StateSpaceConfig& space = checkpoint.config().state_space;
  const Tensor weight = TapsOf(checkpoint, name);
  Written convolution{"oort.ShortConvolution", name + ".conv"};
  convolution.Set("layer", Value(index))
      .Attach("weight", {weight.dtype(), Shape{space.channels(), space.taps}, weight.buffer(),
                         weight.offset()});
  if (checkpoint.Has(name + ".conv.bias")) {
    convolution.Attach("bias", checkpoint.Vector(name + ".conv.bias"));
  }
  return convolution;
}

Written StateScan(const Checkpoint& checkpoint, const std::string& name, int64_t index) {
  const StateSpaceConfig& space = checkpoint.config().state_space;
  Written scan{space.delta ? "oort.DeltaScan" : "oort.StateScan", name + ".scan"};
  scan.Set("layer", Value(index))
      .Set("heads", Value(space.heads))
      .Set("head_dim", Value(space.head_dim))
      .Set("groups", Value(space.groups))
      .Set("size", Value(space.size))
      .Attach("rate", RatesOf(checkpoint, name))
      .Attach("step_bias", checkpoint.Vector(name + ".step.bias"));
  if (space.delta) return scan;
  scan.Set("least_step", Value(static_cast<double>(space.least_step)))
      .Set("most_step", Value(static_cast<double>(space.most_step)))
      .Attach("skip", checkpoint.Vector(name + ".skip.weight"));
  return scan;
}

}  // namespace oort
