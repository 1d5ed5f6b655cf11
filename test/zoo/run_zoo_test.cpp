// SPDX-License-Identifier: MIT
// Models that read well but cannot run: operators and parameters that make no sense.
#include "zoo.h"

namespace oort::testing {
namespace {

using enum ErrorCode;

constexpr size_t kMemory = size_t{64} << 20;

/// Loads and runs on zeros of the traced shape, within 64 MiB.
void LoadAndRun(const ByteSource& param, std::shared_ptr<const ByteSource> bin) {
  const auto graph = RuntimeGraph::Load(param, std::move(bin));
  std::vector<Tensor> inputs;
  for (const Port& port : graph->inputs()) {
    inputs.push_back(Tensor::Zeros(port.dtype, port.shape));
  }
  Session session(graph, {.threads = 1, .memory_limit = kMemory});
  session.Forward(inputs);
}

/// Puts another operator in the place of the ReLU.
void Middle(Model& model, const std::string& line) {
  model.Replace(
      "nn.ReLU                  relu                     1 1 1 2 #1=(1,2,4,4)f32 #2=(1,2,4,4)f32",
      line);
  model.Replace(" #2=(1,2,4,4)f32", "");
}

const Broken kRuns[] = {
    {"unknown_operator", [](Model& m) { m.Replace("nn.ReLU ", "nn.ReLUU "); }, kUnsupported,
     "operator 'relu' (nn.ReLUU, line 5): this operator type is not known; similar: "},
    {"unknown_parameter", [](Model& m) { m.Replace("groups=1", "groups=1 colour=red"); },
     kUnsupported, "colour"},
    {"missing_parameter",
     [](Model& m) { Middle(m, "nn.MaxPool2d p 1 1 1 2 stride=(1,1) padding=(0,0)"); },
     kInvalidModel, "kernel_size"},
    {"missing_input", [](Model& m) { Middle(m, "nn.ReLU r 0 1 2"); }, kInvalidModel, "input"},
    {"zero_stride", [](Model& m) { m.Replace("stride=(1,1)", "stride=(0,1)"); }, kInvalidModel,
     "stride"},
    {"negative_stride", [](Model& m) { m.Replace("stride=(1,1)", "stride=(-1,1)"); }, kInvalidModel,
     "stride"},
    {"zero_groups", [](Model& m) { m.Replace("groups=1", "groups=0"); }, kInvalidModel, "groups"},
    {"negative_groups", [](Model& m) { m.Replace("groups=1", "groups=-1"); }, kInvalidModel,
     "groups"},
    {"groups_do_not_divide", [](Model& m) { m.Replace("groups=1", "groups=3"); }, kInvalidArgument,
     "expected output channels that divide into 3 groups"},
    {"zero_dilation", [](Model& m) { m.Replace("dilation=(1,1)", "dilation=(1,0)"); },
     kInvalidModel, "dilation"},
    {"huge_dilation", [](Model& m) { m.Replace("dilation=(1,1)", "dilation=(2147483647,1)"); },
     kInvalidArgument, "of at least 4294967295"},
    {"absurd_padding", [](Model& m) { m.Replace("padding=(1,1)", "padding=(2147483647,1)"); },
     kLimit, "over the limit of 67108864"},
    {"negative_padding", [](Model& m) { m.Replace("padding=(1,1)", "padding=(-1,1)"); },
     kInvalidModel, "padding"},
    {"padding_of_64_bits",
     [](Model& m) { m.Replace("padding=(1,1)", "padding=(9223372036854775807,1)"); },
     kInvalidArgument, "padding 9223372036854775807 is not in"},
    {"stride_of_three", [](Model& m) { m.Replace("stride=(1,1)", "stride=(1,1,1)"); },
     kInvalidModel, "stride"},
    {"stride_is_a_word", [](Model& m) { m.Replace("stride=(1,1)", "stride=fast"); }, kInvalidModel,
     "stride"},
    {"stride_is_a_float", [](Model& m) { m.Replace("stride=(1,1)", "stride=(1.5,1.0)"); },
     kInvalidModel, "stride"},
    {"padding_mode", [](Model& m) { m.Replace("padding_mode=zeros", "padding_mode=ones"); },
     kInvalidModel, "padding_mode"},
    {"weight_of_other_rank", [](Model& m) { m.Replace("(2,2,3,3)f32", "(4,3,3)f32"); },
     kInvalidArgument, "expected a weight of rank 4, got (4,3,3)"},
    {"bias_too_long",
     [](Model& m) {
       m.Replace("@bias=(2)f32", "@bias=(3)f32");
       m.entries[0].bytes = Model::Numbers(3);
     },
     kInvalidArgument, "expected 'bias' of shape (2), got (3)"},
    {"weight_is_a_list", [](Model& m) { m.Replace("@weight=(2,2,3,3)f32", "weight=(1,2)"); },
     kUnsupported, "unknown parameter weight=(1,2)"},
    {"attribute_left_over",
     [](Model& m) {
       m.Replace("@weight=", "@wait=");
       m.entries[1].name = "conv.wait";
     },
     kUnsupported, "unknown attribute '@wait'"},
    {"pool_zero_stride",
     [](Model& m) {
       Middle(m,
              "nn.MaxPool2d p 1 1 1 2 ceil_mode=False dilation=(1,1) kernel_size=(2,2)"
              " padding=(0,0) return_indices=False stride=(0,0)");
     },
     kInvalidArgument, "stride 0 is not in"},
    {"pool_absurd_padding",
     [](Model& m) {
       Middle(m,
              "nn.MaxPool2d p 1 1 1 2 ceil_mode=False dilation=(1,1) kernel_size=(2,2)"
              " padding=(2147483647,0) return_indices=False stride=(1,1)");
     },
     kInvalidArgument, "padding 2147483647 is over half the kernel size 2"},
    {"pool_larger_than_input",
     [](Model& m) {
       Middle(m,
              "nn.AvgPool2d p 1 1 1 2 ceil_mode=False count_include_pad=True"
              " divisor_override=None kernel_size=(1000000,1) padding=(0,0) stride=(1,1)");
     },
     kInvalidArgument, "no window fits: kernel_size 1000000"},
    {"pad_absurd",
     [](Model& m) {
       Middle(m, "F.pad p 1 1 1 2 mode=constant pad=(2147483647,2147483647) value=0.0 $input=1");
     },
     kLimit, "over the limit of 67108864"},
    {"pad_wraps",
     [](Model& m) {
       Middle(m,
              "F.pad p 1 1 1 2 mode=constant"
              " pad=(9223372036854775807,9223372036854775807) value=0.0 $input=1");
     },
     kInvalidArgument, "overflow"},
    {"pad_negative_absurd",
     [](Model& m) {
       Middle(m, "F.pad p 1 1 1 2 mode=constant pad=(-2147483648,0) value=0.0 $input=1");
     },
     kInvalidArgument, "cannot pad axis 3 of shape (1,2,4,4) by (-2147483648,0)"},
    {"reshape_does_not_fit",
     [](Model& m) { Middle(m, "Tensor.reshape r 1 1 1 2 shape=(5,7) $input=1"); }, kInvalidArgument,
     "cannot reshape (1,2,4,4) to (5,7)"},
    {"reshape_wraps",
     [](Model& m) { Middle(m, "Tensor.reshape r 1 1 1 2 shape=(4294967296,4294967296) $input=1"); },
     kInvalidArgument, "too many elements"},
    {"expand_absurd",
     [](Model& m) { Middle(m, "Tensor.expand r 1 1 1 2 sizes=(2147483647,2,4,4) $input=1"); },
     kLimit, "over the limit of 67108864"},
    {"repeat_wraps",
     [](Model& m) {
       Middle(m, "Tensor.repeat r 1 1 1 2 sizes=(4294967296,4294967296,1,1) $input=1");
     },
     kInvalidArgument, "too many elements"},
    {"upsample_absurd",
     [](Model& m) {
       Middle(m,
              "nn.Upsample u 1 1 1 2 align_corners=None mode=nearest scale_factor=None"
              " size=(2147483647,2147483647)");
     },
     kInvalidArgument, "overflow"},
    {"softmax_axis", [](Model& m) { Middle(m, "nn.Softmax s 1 1 1 2 dim=7"); }, kInvalidArgument,
     "axis 7 is out of range for rank 4"},
    {"permute_twice",
     [](Model& m) { Middle(m, "torch.permute p 1 1 1 2 dims=(0,1,1,2) $input=1"); },
     kInvalidArgument, "axis 1 of (0,1,1,2) appears twice"},
    {"expression_damaged", [](Model& m) { Middle(m, "pnnx.Expression e 1 1 1 2 expr=add(@0"); },
     kInvalidModel, "column 7: 'add' of column 1 takes 2 arguments, got 1"},
    {"expression_input", [](Model& m) { Middle(m, "pnnx.Expression e 1 1 1 2 expr=add(@0,@7)"); },
     kInvalidModel, "@7"},
    {"expression_deep",
     [](Model& m) {
       std::string expression;
       for (int i = 0; i < 20000; ++i) expression += "neg(";
       Middle(m, "pnnx.Expression e 1 1 1 2 expr=" + expression + "@0" + std::string(20000, ')'));
     },
     kInvalidModel, ""},
};

class RunZoo : public ::testing::TestWithParam<Broken> {};

TEST_P(RunZoo, IsRefused) {
  Model model;
  GetParam().spoil(model);
  const auto param = ByteSource::Owned(model.param);
  const auto bin = ByteSource::Owned(model.Bin());
  LayerRegistry::Global();  // filled once, and kept
  const MemoryUse use = Measure(
      [&] { ExpectThrows([&] { LoadAndRun(*param, bin); }, GetParam().code, GetParam().text); });
  EXPECT_LE(use.peak, MemoryLimit(model) + kMemory);
}

INSTANTIATE_TEST_SUITE_P(Run, RunZoo, ::testing::ValuesIn(kRuns), BrokenName);

}  // namespace
}  // namespace oort::testing
