// SPDX-License-Identifier: MIT
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

TEST(NhwcUpsample, IsLikeInterpolate) {
  for (const Shape& shape : {Shape{1, 5, 6, 7}, Shape{2, 33, 3, 4}, Shape{0, 3, 4, 4}}) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    for (const NamedParams& size :
         {NamedParams{{"scale_factor", "(2.0,2.0)"}}, NamedParams{{"size", "(5,13)"}},
          NamedParams{{"scale_factor", "(0.7,1.6)"}, {"recompute_scale_factor", "False"}}}) {
      for (const char* mode : {"nearest", "nearest-exact", "bilinear", "bicubic"}) {
        NamedParams params = size;
        params.emplace_back("mode", mode);
        ExpectLikeChannelsFirst("Upsample", "F.interpolate", params, {x});
        if (mode[0] == 'n') continue;
        params.emplace_back("align_corners", "True");
        ExpectLikeChannelsFirst("Upsample", "F.interpolate", params, {x});
      }
    }
  }
}

TEST(NhwcUpsample, RepeatsBytes) {
  for (DType dtype : {DType::kU8, DType::kI8}) {
    const Tensor x = RandomTensor(dtype, {2, 33, 3, 4});
    for (const char* mode : {"nearest", "nearest-exact"}) {
      ExpectLikeChannelsFirst("Upsample", "F.interpolate", {{"size", "(5,13)"}, {"mode", mode}},
                              {x});
    }
  }
  for (const int64_t channels : {32, 33}) {
    OperatorCase op = CaseOf("nhwc.Upsample", {{"size", "(5,13)"}, {"mode", "nearest"}},
                             {RandomTensor(DType::kU8, {2, 3, 4, channels})});
    const Tensor expected = op.Run()[0].Clone();
    op.AlsoOnGpu().ExpectOutputs({expected}, {0, 0});
  }
  CaseOf("nhwc.Upsample", {{"size", "(5,13)"}, {"mode", "bilinear"}},
         {RandomTensor(DType::kU8, {1, 4, 4, 3})})
      .ExpectError(ErrorCode::kUnsupported, "does not take dtype u8");
}

TEST(NhwcUpsample, RefusesWhatIsNoBatchOfImages) {
  CaseOf("nhwc.Upsample", {{"scale_factor", "2.0"}}, {RandomTensor(DType::kF32, {4, 4, 3})})
      .ExpectError(ErrorCode::kInvalidArgument, "rank 4");
  CaseOf("nhwc.Upsample", {{"size", "(0,4)"}}, {RandomTensor(DType::kF32, {1, 4, 4, 3})})
      .ExpectError(ErrorCode::kInvalidArgument, "above zero");
}

}  // namespace
}  // namespace oort::testing
