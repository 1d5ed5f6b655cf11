// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

OperatorCase Arange(const char* start, const char* end, const char* step, const char* dtype) {
  return OperatorCase("torch.arange")
      .Param("start", start)
      .Param("end", end)
      .Param("step", step)
      .Param("dtype", dtype);
}

TEST(Arange, CountsLikeTorch) {
  OperatorCase("torch.arange")
      .Param("end", "4")
      .Param("dtype", "None")
      .ExpectOutputs({Tensor::From<int64_t>({0, 1, 2, 3}, {4})});
  Arange("2", "9", "3", "None").ExpectOutputs({Tensor::From<int64_t>({2, 5, 8}, {3})});
  Arange("5", "0", "-2", "None").ExpectOutputs({Tensor::From<int64_t>({5, 3, 1}, {3})});
  Arange("3", "3", "1", "None").ExpectOutputs({Tensor(DType::kI64, {0})});
  Arange("0", "1.0", "0.25", "None")
      .ExpectOutputs({Tensor::From<float>({0, 0.25f, 0.5f, 0.75f}, {4})});
  Arange("0.5", "3", "1", "None").ExpectOutputs({Tensor::From<float>({0.5f, 1.5f, 2.5f}, {3})});
}

TEST(Arange, HonoursTheDType) {
  Arange("0", "3", "1", "torch.float").ExpectOutputs({Tensor::From<float>({0, 1, 2}, {3})});
  Arange("0", "3", "1", "torch.uint8").ExpectOutputs({Tensor::From<uint8_t>({0, 1, 2}, {3})});
  // torch.arange(0.9, 3.5, dtype=torch.int64) truncates its bounds first.
  Arange("0.9", "3.5", "1", "torch.long").ExpectOutputs({Tensor::From<int64_t>({0, 1, 2}, {3})});
  // torch.arange(0, 2.5, dtype=torch.int32) does not.
  Arange("0", "2.5", "1", "torch.int").ExpectOutputs({Tensor::From<int32_t>({0, 1, 2}, {3})});
  Arange("0", "2", "0.5", "torch.half")
      .ExpectOutputs({Tensor::From<float>({0, 0.5f, 1, 1.5f}, {4}).To(DType::kF16)});
}

TEST(Arange, TakesComputedBounds) {
  OperatorCase("torch.arange")
      .Input(Tensor::Scalar<int32_t>(2), "start")
      .Input(Tensor::Scalar<int32_t>(5), "end")
      .ExpectOutputs({Tensor::From<int64_t>({2, 3, 4}, {3})});
  OperatorCase("torch.arange")
      .Input(int64_t{3}, "end")
      .Input(Tensor::Scalar(0.5f), "step")
      .ExpectOutputs({Tensor::From<float>({0, 0.5f, 1, 1.5f, 2, 2.5f}, {6})});
}

TEST(Arange, RefusesWhatNeverEnds) {
  Arange("0", "4", "0", "None").ExpectError(ErrorCode::kInvalidArgument, "in steps of 0");
  Arange("0", "4", "-1", "None").ExpectError(ErrorCode::kInvalidArgument, "no numbers from 0 to 4");
  Arange("0", "inf", "1", "None").ExpectError(ErrorCode::kInvalidArgument, "no numbers");
  Arange("0", "nan", "1", "None").ExpectError(ErrorCode::kInvalidArgument, "no numbers");
  Arange("0", "1e30", "1e-30", "torch.long").ExpectError(ErrorCode::kInvalidArgument, "");
  OperatorCase("torch.arange").ExpectError(ErrorCode::kInvalidModel, "'end' is missing");
}

}  // namespace
}  // namespace oort::testing
