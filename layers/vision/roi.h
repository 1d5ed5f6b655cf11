// SPDX-License-Identifier: MIT
// Regions of interest: boxes (K,5), each an image's index and the corners x1, y1, x2, y2, that are
// cut into a grid of bins. Boxes are data: nothing in them is trusted.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "oort/layer.h"

namespace oort {

inline constexpr DTypeSet kRoiDTypes = DType::kF32 | DType::kF64;

/// What the operators on regions have in common.
struct RoiSpec {
  double scale = 1;
  int64_t height = 1, width = 1;    ///< bins
  bool position_sensitive = false;  ///< each bin has channels of its own

  /// From four arguments, named as in torch or by position.
  RoiSpec(const LayerInit& init, const char* scale_name, int64_t bins_high, int64_t bins_wide,
          bool sensitive)
      : scale(init.Float(scale_name)),
        height(bins_high),
        width(bins_wide),
        position_sensitive(sensitive) {}

  /// The output's shape; throws unless input (N,C,H,W) and boxes (K,5) fit.
  Shape Output(const Args& args) const {
    const Shape &input = args.shape(0), &boxes = args.shape(1);
    const auto fail = [](const std::string& message) {
      throw Error(ErrorCode::kInvalidArgument, message);
    };
    if (input.rank() != 4) fail("expected an input of rank 4, got " + input.ToString());
    if (boxes.rank() != 2 || boxes[1] != 5) {
      fail("expected boxes of shape (K,5), got " + boxes.ToString());
    }
    if (args.tensor(1).dtype() != args.tensor(0).dtype()) {
      fail("expected input and boxes of one dtype, got " +
           std::string(Name(args.tensor(0).dtype())) + " and " +
           std::string(Name(args.tensor(1).dtype())));
    }
    Shape output{boxes[0], input[1], height, width};
    if (position_sensitive) {
      // Both are below 2^32.
      const uint64_t bins = static_cast<uint64_t>(height) * static_cast<uint64_t>(width);
      if (static_cast<uint64_t>(input[1]) % bins != 0) {
        fail("expected channels that divide into " + std::to_string(bins) + " bins, got input " +
             input.ToString());
      }
      output[1] = static_cast<int64_t>(static_cast<uint64_t>(input[1]) / bins);
    }
    output.elements();
    return output;
  }
};

/// The image that a box lies in; throws where there is none.
template <typename Real>
int64_t RoiImage(const Real* box, int64_t images) {
  const Real index = std::trunc(box[0]);
  if (index >= 0 && index < static_cast<Real>(images)) {
    return std::min(static_cast<int64_t>(index), images - 1);
  }
  throw Error(ErrorCode::kInvalidArgument, "expected boxes in images 0 to " +
                                               std::to_string(images - 1) + ", got a box in " +
                                               Value(static_cast<double>(box[0])).ToString());
}

/// Declares arg_0 and arg_1 (input and boxes) and the spatial scale and bins that follow.
inline OperatorSchema RoiCustomSchema(const std::string& name, std::string doc) {
  OperatorSchema schema({"pnnx.custom_op.torchvision." + name}, std::move(doc));
  schema.Tensor("arg_0", kRoiDTypes).Tensor("arg_1", kRoiDTypes).Float("arg_2");
  schema.Int("arg_3").AtLeast(1).Int("arg_4").AtLeast(1);
  return schema;
}
inline RoiSpec RoiCustomSpec(const LayerInit& init, bool position_sensitive) {
  return RoiSpec(init, "arg_2", init.Int("arg_3"), init.Int("arg_4"), position_sensitive);
}

}  // namespace oort
