// SPDX-License-Identifier: MIT
// Windows of adaptive pooling: output i of n covers inputs floor(i*in/n) to ceil((i+1)*in/n).
#pragma once

#include "layers/pooling/window.h"

namespace oort {

struct AdaptiveAxis {
  int64_t in = 1, out = 1;
  int64_t Begin(int64_t i) const { return i * in / out; }
  int64_t End(int64_t i) const { return ((i + 1) * in + out - 1) / out; }
};

struct AdaptiveGeometry {
  std::array<AdaptiveAxis, 3> axes;
  int64_t planes = 0;
  Shape output;
  int64_t in_plane() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out_plane() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t Grain() const {
    return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, in_plane() + out_plane()));
  }
};

/// `output_size` holds one extent for each spatial axis; None and 0 keep that of the input.
AdaptiveGeometry AdaptTo(const Shape& input, const Value& output_size, int spatial_rank);

/// The mean under each window; the tensors are as `geometry` says.
void AdaptiveAverage(const Context& context, Isa isa, const AdaptiveGeometry& geometry,
                     const Tensor& input, Tensor& output);

/// The schema that both adaptive poolings share.
OperatorSchema AdaptiveSchema(const std::string& module, const std::string& function, int rank,
                              std::string doc);

}  // namespace oort
