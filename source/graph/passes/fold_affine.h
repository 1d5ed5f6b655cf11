// SPDX-License-Identifier: MIT
// Channels that are multiplied and moved behind a convolution or a linear operator, as weights.
#pragma once

#include <vector>

#include "oort/graph.h"

namespace oort {

/// y = scale * x + shift for each channel.
struct OutputAffine {
  std::vector<double> scale, shift;
};

/// The output channels of an nn.ConvNd, nn.ConvTransposeNd or nn.Linear whose weights are floats
/// that are there; 0 for all else.
int64_t FoldableChannels(const Operator& op);

/// Changes weight and bias of such an operator so that it gives what `affine` makes of its result.
void FoldAffine(Operator& op, const OutputAffine& affine);

}  // namespace oort
