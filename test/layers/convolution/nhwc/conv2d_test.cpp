// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "core/parallel.h"
#include "layers/convolution/conv_reference.h"
#include "layers/convolution/direct/direct_conv.h"
#include "layers/layout/nhwc_reference.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

struct ConvCase {
  Shape image, weight;
  int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
};

std::string PairText(int64_t value) {
  return "(" + std::to_string(value) + "," + std::to_string(value) + ")";
}

NamedParams ParamsOf(const ConvCase& c) {
  return {{"stride", PairText(c.stride)},
          {"padding", PairText(c.pad)},
          {"dilation", PairText(c.dilation)},
          {"groups", std::to_string(c.groups)}};
}

/// The NCHW layer, which has tests of its own against a plain loop.
Tensor FirstAnswer(const ConvCase& c, const Tensor& image, const Tensor& weight,
                   const Tensor& bias) {
  OperatorCase first("F.conv2d");
  for (const auto& [key, text] : ParamsOf(c)) first.Param(key, text);
  return first.Input(image, "input").Input(weight, "weight").Input(bias, "bias").Run()[0];
}

void ExpectLikeConv(const ConvCase& c, bool with_addend, const std::string& activation) {
  SCOPED_TRACE(c.image.ToString() + " " + c.weight.ToString() + " " + activation);
  const Tensor image = RandomTensor(DType::kF32, c.image, 1);
  const Tensor weight = RandomTensor(DType::kF32, c.weight, 2);
  const Tensor bias = RandomTensor(DType::kF32, {c.weight[0]}, 3);
  Tensor expected = FirstAnswer(c, image, weight, bias);
  OperatorCase last("nhwc.Conv2d");
  for (const auto& [key, text] : ParamsOf(c)) last.Param(key, text);
  last.Attribute("weight", weight).Attribute("bias", bias).Input(WithNhwc(image), "input");
  if (with_addend) {
    const Tensor addend = RandomTensor(DType::kF32, expected.shape(), 4);
    last.Input(WithNhwc(addend), "addend");
    expected = OperatorCase("pnnx.Expression")
                   .Param("expr", "add(@0,@1)")
                   .Input(expected)
                   .Input(addend)
                   .Run()[0];
  }
  if (activation == "relu") {
    last.Param("activation", "relu");
    expected = OperatorCase("nn.ReLU").Input(expected).Run()[0];
  } else if (activation == "clamp") {
    last.Param("activation", "clamp").Param("activation_a", "-0.5").Param("activation_b", "1.5");
    expected = OperatorCase("nn.Hardtanh")
                   .Param("min_val", "-0.5")
                   .Param("max_val", "1.5")
                   .Input(expected)
                   .Run()[0];
  } else if (activation == "hardswish") {
    last.Param("activation", "hardswish");
    expected = OperatorCase("nn.Hardswish").Input(expected).Run()[0];
  }
  const double size = static_cast<double>(c.weight.Product(1, 4));
  last.ExpectOutputs({WithNhwc(expected)}, {1e-5 * std::sqrt(size), 1e-4});
}

std::vector<ConvCase> ConvCases() {
  std::vector<ConvCase> cases;
  for (int64_t channels : {1, 3, 4, 5, 16, 17, 33, 64, 70}) {
    const int64_t out = channels * 3 % 37 + 1;
    cases.push_back({{1, channels, 7, 9}, {out, channels, 1, 1}});
    cases.push_back({{2, channels, 7, 5}, {out, channels, 3, 3}, 1, 1});
    cases.push_back({{1, channels, 9, 8}, {out, channels, 3, 3}, 2, 1});
    cases.push_back({{channels, 6, 11}, {out, channels, 5, 2}, 3, 2, 1});
    cases.push_back({{1, channels, 12, 9}, {out, channels, 3, 3}, 1, 3, 2});
  }
  cases.push_back({{2, 12, 6, 6}, {18, 4, 3, 3}, 1, 1, 1, 3});
  cases.push_back({{1, 12, 6, 6}, {24, 1, 3, 3}, 1, 1, 1, 12});
  cases.push_back({{1, 9, 6, 6}, {9, 1, 3, 3}, 2, 1, 1, 9});
  cases.push_back({{1, 3, 20, 20}, {24, 3, 7, 7}, 2, 3});
  cases.push_back({{1, 3, 31, 30}, {40, 3, 3, 3}, 2, 1});
  cases.push_back({{2, 24, 9, 11}, {88, 24, 1, 1}});
  // All that can be left over of filters and of pixels.
  for (int64_t out : {10, 16, 24, 32, 40, 48, 63, 64, 65, 81, 112, 130}) {
    cases.push_back({{1, 20, 7, out % 13 + 1}, {out, 20, 1, 1}});
    cases.push_back({{1, 12, out % 11 + 2, 13}, {out, 12, 3, 3}, 2, 1});
  }
  // Panels that are cut, between taps and within the only one.
  cases.push_back({{1, 300, 9, 13}, {24, 300, 3, 3}, 2, 1});
  cases.push_back({{1, 1400, 5, 7}, {40, 1400, 1, 1}});
  cases.push_back({{1, 1402, 4, 4}, {33, 1402, 1, 1}});
  cases.push_back({{0, 3, 5, 5}, {4, 3, 3, 3}, 1, 1});
  return cases;
}

TEST(NhwcConv2d, AnswersAsChannelsFirst) {
  for (const ConvCase& c : ConvCases()) ExpectLikeConv(c, false, "none");
}

TEST(NhwcConv2d, AddsAndActivates) {
  const std::vector<ConvCase> cases = ConvCases();
  const std::array<std::string, 4> activations = {"none", "relu", "clamp", "hardswish"};
  for (size_t i = 0; i < cases.size(); ++i) {
    ExpectLikeConv(cases[i], i % 2 == 0, activations[i % activations.size()]);
  }
}

OperatorCase SmallConv() {
  return OperatorCase("nhwc.Conv2d").Attribute("weight", RandomTensor(DType::kF32, {4, 3, 3, 3}));
}

TEST(NhwcConv2d, RefusesWhatDoesNotFit) {
  const Tensor image = RandomTensor(DType::kF32, {1, 5, 5, 3});
  SmallConv()
      .Input(RandomTensor(DType::kF32, {1, 5, 5, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected 3 input channels");
  SmallConv()
      .Input(RandomTensor(DType::kF32, {5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank");
  SmallConv()
      .Input(image, "input")
      .Input(RandomTensor(DType::kF32, {1, 5, 5, 4}), "addend")
      .ExpectError(ErrorCode::kInvalidArgument, "expected an addend of shape");
  SmallConv()
      .Input(image)
      .Param("activation", "wavy")
      .ExpectError(ErrorCode::kInvalidModel, "wavy");
  SmallConv().Input(image.To(DType::kF64)).ExpectError(ErrorCode::kInvalidArgument, "f64");
}

/// Floats that end where memory ends: what reads behind them is stopped by the system.
class GuardedFloats {
 public:
  explicit GuardedFloats(const Tensor& values) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t room = (values.bytes() + page - 1) / page * page;
    size_ = room + page;
    pages_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED) throw Error::OutOfMemory();
    std::byte* begin = static_cast<std::byte*>(pages_);
    ::mprotect(begin + room, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(begin + room - values.bytes());
    std::memcpy(data_, values.data<float>(), values.bytes());
  }
  ~GuardedFloats() { ::munmap(pages_, size_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  const float* data() const { return data_; }

 private:
  void* pages_;
  size_t size_;
  float* data_;
};

Tensor RunDirectConv(Isa isa, const ConvCase& c, const Tensor& weight, const float* image) {
  const ConvParams params({c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation}, c.groups);
  const ConvGeometry g = params.Geometry(c.image, c.weight);
  const DirectConv conv(isa, weight, Tensor(), c.groups);
  Tensor output(DType::kF32, {g.batch * g.out_plane(), g.out_channels});
  const size_t bytes = conv.Workspace(g, 1);
  const auto workspace = AllocateHost(bytes);
  DirectConv::Operands operands;
  operands.in = image;
  operands.in_pixel = g.in_channels;
  operands.out = output.data<float>();
  operands.out_pixel = g.out_channels;
  conv.Run(Context(1, {workspace->data(), bytes}), g, operands);
  return output;
}

/// Kernels read rows by fours, which the last pixels of an image may not have.
TEST(NhwcConv, ReadsNothingBehindTheImage) {
  for (int64_t channels : {1, 2, 3, 5, 6, 7, 9, 11, 58}) {
    for (const ConvCase& c :
         {ConvCase{{1, channels, 5, 6}, {20, channels, 1, 1}},
          ConvCase{{2, channels, 6, 5}, {20, channels, 3, 3}, 1, 1},
          ConvCase{{1, channels, 7, 7}, {20, channels, 3, 3}, 2, 0},
          ConvCase{{1, channels, 4, 1}, {20, channels, 2, 1}, 1, 0},
          ConvCase{{1, 2 * channels, 5, 5}, {40, channels, 3, 3}, 1, 1, 1, 2}}) {
      SCOPED_TRACE(c.image.ToString() + " " + c.weight.ToString());
      const Tensor image = WithNhwc(RandomTensor(DType::kF32, c.image, 1));
      const Tensor weight = RandomTensor(DType::kF32, c.weight, 2);
      const GuardedFloats guarded(image);
      for (Isa isa : SupportedIsas()) {
        ExpectNear(RunDirectConv(isa, c, weight, guarded.data()),
                   RunDirectConv(isa, c, weight, image.data<float>()), {0, 0});
      }
    }
  }
}

}  // namespace
}  // namespace oort::testing
