// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <string>

#include "oort/testing.h"

namespace oort::testing {

inline constexpr float kRoiNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kRoiInf = std::numeric_limits<float>::infinity();

/// An operator on regions of interest, as torchvision calls it.
struct RoiCase {
  double scale = 1;
  int64_t height = 2, width = 2, samples = -1;
  bool aligned = false;

  OperatorCase Custom(const std::string& name) const {
    OperatorCase test("pnnx.custom_op.torchvision." + name);
    test.Param("arg_2", std::to_string(scale)).Param("arg_3", std::to_string(height));
    test.Param("arg_4", std::to_string(width));
    if (name == "roi_align" || name == "ps_roi_align") {
      test.Param("arg_5", std::to_string(samples));
    }
    if (name == "roi_align") return test.Param("arg_6", aligned ? "True" : "False");
    return test.Outputs(2);
  }
  OperatorCase Module() const {
    return OperatorCase("torchvision.ops.RoIAlign")
        .Param("spatial_scale", std::to_string(scale))
        .Param("output_size", Shape{height, width}.ToString())
        .Param("sampling_ratio", std::to_string(samples))
        .Param("aligned", aligned ? "True" : "False");
  }
};

/// An image and boxes for which tests know torchvision's answers.
inline Tensor RoiImage4x4(int64_t channels) {
  return RangeTensor(DType::kF32, {1, channels, 4, 4}, 1);
}
inline Tensor RoiBoxes4x4() {
  return Tensor::From<float>(
      {0, 0.5f, 0.5f, 3, 2.5f, 0, -1, -1, 9, 9, 0, 2, 2, 1, 1, 0, 3.4f, 3.4f, 3.6f, 3.6f}, {4, 5});
}

}  // namespace oort::testing
