// SPDX-License-Identifier: MIT
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

TEST(NhwcCat, JoinsAlongAnyAxis) {
  for (int rank : {1, 2, 3, 4, 5}) {
    for (int dim = -rank; dim < rank; ++dim) {
      Shape a, b;
      for (int i = 0; i < rank; ++i) {
        a.Append(i + 2);
        b.Append(i == (dim + rank) % rank ? 5 : i + 2);
      }
      const std::vector<Tensor> parts = {RandomTensor(DType::kF32, a, 1),
                                         RandomTensor(DType::kF32, b, 2)};
      const NamedParams params = {{"dim", std::to_string(dim)}};
      if (rank >= 3) {
        ExpectLikeChannelsFirst("cat", "torch.cat", params, parts);
      } else {  // no image: nothing moves
        CaseOf("nhwc.cat", params, parts).ExpectOutputs(CaseOf("torch.cat", params, parts).Run());
      }
    }
  }
}

TEST(NhwcCat, TakesManyAndEmptyParts) {
  const Tensor a = RandomTensor(DType::kF32, {2, 3, 4, 5}, 1);
  const Tensor b = RandomTensor(DType::kF32, {2, 0, 4, 5}, 2);
  const Tensor c = RandomTensor(DType::kF32, {2, 70, 4, 5}, 3);
  ExpectLikeChannelsFirst("cat", "torch.cat", {{"dim", "1"}}, {a, b, c, a});
  ExpectLikeChannelsFirst("cat", "torch.cat", {{"dim", "1"}}, {a});
}

TEST(NhwcCat, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 5, 3});
  CaseOf("nhwc.cat", {{"dim", "2"}}, {x, RandomTensor(DType::kF32, {1, 4, 6, 3})})
      .ExpectError(ErrorCode::kInvalidArgument, "do not join along axis 1");
  CaseOf("nhwc.cat", {{"dim", "4"}}, {x}).ExpectError(ErrorCode::kInvalidArgument, "rank 4");
}

TEST(NhwcSplit, CutsAnyAxis) {
  const Tensor x = RandomTensor(DType::kF32, {4, 6, 8, 10}),
               y = RandomTensor(DType::kF32, {6, 4, 2});
  for (const char* dim : {"0", "1", "2", "3", "-1", "-3"}) {
    ExpectLikeChannelsFirst("chunk", "torch.chunk", {{"chunks", "2"}, {"dim", dim}}, {x}, 2);
  }
  for (const char* dim : {"0", "1", "2", "-2"}) {
    ExpectLikeChannelsFirst("chunk", "torch.chunk", {{"chunks", "2"}, {"dim", dim}}, {y}, 2);
  }
  ExpectLikeChannelsFirst("split", "torch.split",
                          {{"split_size_or_sections", "(1,2,3)"}, {"dim", "1"}}, {x}, 3);
  ExpectLikeChannelsFirst("split", "torch.split", {{"split_size_or_sections", "3"}, {"dim", "2"}},
                          {x}, 3);
}

TEST(NhwcSoftmax, IsLikeSoftmax) {
  for (const Shape& shape : {Shape{2, 19, 3, 5}, Shape{7, 3, 4}}) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    for (const char* dim : {"0", "1", "2", "-1"}) {
      ExpectLikeChannelsFirst("softmax", "F.softmax", {{"dim", dim}}, {x});
      ExpectLikeChannelsFirst("log_softmax", "F.log_softmax", {{"dim", dim}}, {x});
    }
  }
}

TEST(NhwcReduction, KeepsImages) {
  const Tensor x = RandomTensor(DType::kF32, {2, 19, 3, 5});
  for (const char* dim : {"(2,3)", "(1)", "(-1,-2)", "(0,2)", "(3)", "None"}) {
    for (const std::string name : {"mean", "sum"}) {
      ExpectLikeChannelsFirst(name, "torch." + name, {{"dim", dim}, {"keepdim", "True"}}, {x});
    }
  }
}

TEST(NhwcReduction, DropsAxesInTorchsOrder) {
  const Tensor x = RandomTensor(DType::kF32, {2, 19, 3, 5});
  const Tensor last = WithNhwc(x);
  for (const char* dim : {"(2,3)", "(1)", "(0,2,3)", "None"}) {
    const NamedParams params = {{"dim", dim}, {"keepdim", "False"}};
    CaseOf("nhwc.mean", params, {last}).ExpectOutputs(CaseOf("torch.mean", params, {x}).Run());
  }
  CaseOf("nhwc.mean", {{"dim", "(2)"}}, {last})
      .ExpectError(ErrorCode::kUnsupported, "keepdim=True");
}

}  // namespace
}  // namespace oort::testing
