// SPDX-License-Identifier: MIT
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

TEST(NhwcPad, IsLikePad) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kU8, DType::kI8}) {
    for (const Shape& shape : {Shape{1, 5, 6, 7}, Shape{2, 33, 3, 4}, Shape{3, 4, 5}}) {
      const Tensor x = RandomTensor(dtype, shape);
      for (const char* mode : {"constant", "reflect", "replicate", "circular"}) {
        for (const char* pad : {"(0,1,0,1)", "(2,1,1,2)", "(1,2)", "(-1,0,2,-1)"}) {
          ExpectLikeChannelsFirst("pad", "F.pad", {{"pad", pad}, {"mode", mode}}, {x});
        }
      }
      ExpectLikeChannelsFirst("pad", "F.pad", {{"pad", "(1,0,0,1,2,1)"}, {"value", "3"}}, {x});
    }
  }
}

TEST(NhwcPad, ModulesPadLikeTheirOwn) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4, 5});
  for (const char* name : {"ZeroPad2d", "ReflectionPad2d", "ReplicationPad2d", "CircularPad2d"}) {
    ExpectLikeChannelsFirst(name, std::string("nn.") + name, {{"padding", "(1,2,0,3)"}}, {x});
  }
  ExpectLikeChannelsFirst("ConstantPad2d", "nn.ConstantPad2d",
                          {{"padding", "(1,2,0,3)"}, {"value", "-1.5"}}, {x});
}

TEST(NhwcPad, RefusesWhatIsNoImage) {
  CaseOf("nhwc.pad", {{"pad", "(1,1)"}}, {RandomTensor(DType::kF32, {4, 3})})
      .ExpectError(ErrorCode::kInvalidArgument, "expected an image");
}

}  // namespace
}  // namespace oort::testing
