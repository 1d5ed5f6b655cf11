// SPDX-License-Identifier: MIT
// Rows with scales of their own beside plain loops, and products of their bytes beside f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/graph_builder.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

/// What docs/quantization.md says that oort.DynamicQuantize gives.
std::vector<float> PlainDynamicRow(std::vector<float> row, bool symmetric) {
  float low = 0, high = 0;
  for (const float value : row) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  float scale = symmetric ? std::max(-low, high) / 127 : high / 255 - low / 255;
  if (scale < 0x1p-100f) scale = 1;
  const float zero = symmetric ? 0 : std::nearbyint(-low / scale);
  const float least = symmetric ? -127 : 0, most = symmetric ? 127 : 255;
  for (float& value : row) {
    const float steps = std::isnan(value) ? 0 : std::nearbyint(value * (1 / scale));
    value = (std::min(std::max(steps + zero, least), most) - zero) * scale;
  }
  return row;
}

TEST(DynamicLinear, EachRowHasAScaleOfItsOwn) {
  const Tensor x = RandomTensor(DType::kF32, Shape{5, 3, 37}, 3, -1, 2);
  Tensor rows = x.Clone();
  for (int64_t i = 0; i < rows.elements(); ++i) {
    const int64_t row = i / 37;
    float& value = rows.data<float>()[i];
    if (row == 1) value = 0;                       // a row of zeros
    if (row == 2) value *= 1e-35f;                 // one that is nearly so
    if (row == 3) value = std::abs(value) * 1000;  // none below 0
    if (row == 4) value = -std::abs(value);        // none above 0
    if (row == 5 && i % 37 == 4) value = NAN;      // what is no number counts as 0
    if (row == 6) value *= 1e30f;
  }
  for (const bool symmetric : {false, true}) {
    Tensor want = rows.Clone();
    for (int64_t row = 0; row < 15; ++row) {
      float* at = want.data<float>() + row * 37;
      const std::vector<float> plain = PlainDynamicRow({at, at + 37}, symmetric);
      std::copy(plain.begin(), plain.end(), at);
    }
    OperatorCase("oort.DynamicQuantize")
        .Param("symmetric", symmetric ? "True" : "False")
        .Input(rows)
        .ExpectOutputs({want});
  }
}

std::string DynamicLinearOf(int in, int out, bool symmetric, bool gelu) {
  const std::string shape = "(" + std::to_string(out) + "," + std::to_string(in) + ")";
  const std::string rows = std::to_string(out);
  return "pnnx.Input pnnx_input_0 0 1 x\n"
         "oort.DynamicQuantize q 1 1 x xq symmetric=" +
         std::string(symmetric ? "True" : "False") + "\npnnx.Attribute w 0 1 w @data=" + shape +
         "i8 #w=" + shape + "i8\noort.Dequantize d 1 1 w wd axis=0 @scales=(" + rows +
         ")f32\npnnx.Attribute b 0 1 b @data=(" + rows + ")f32 #b=(" + rows +
         ")f32\nF.linear l 3 1 xq wd b y $input=xq $weight=wd $bias=b\n" +
         (gelu ? "F.gelu g 1 1 y z\n" : "") + "pnnx.Output pnnx_output_0 1 0 " +
         (gelu ? "z" : "y") + "\n";
}

Graph FilledDynamic(const std::string& lines) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 7;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      const bool bytes = tensor.dtype() == DType::kI8, scales = name == "scales";
      tensor = RandomTensor(tensor.dtype(), tensor.shape(), ++seed,
                            bytes    ? -127
                            : scales ? 0.001
                                     : -1,
                            bytes    ? 127
                            : scales ? 0.002
                                     : 1);
    }
  }
  return graph;
}

TEST(DynamicLinear, BytesGiveWhatNumbersGive) {
  struct Case {
    int rows, in, out;
    bool symmetric, gelu;
  };
  for (const Case& c : {Case{1, 1, 1, false, false}, Case{5, 19, 7, false, true},
                        Case{33, 64, 48, true, false}, Case{130, 100, 70, false, false}}) {
    const std::string lines = DynamicLinearOf(c.in, c.out, c.symmetric, c.gelu);
    Tensor x = RandomTensor(DType::kF32, Shape{1, c.rows, c.in}, 5, -1, 3);
    for (int64_t i = 0; i < c.in && c.rows > 2; ++i) x.data<float>()[2 * c.in + i] = 0;
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + " " + std::to_string(c.in));
      LoadOptions numbers, bytes;
      numbers.isa = bytes.isa = isa;
      numbers.disabled_passes = {"dynamic-linear"};
      const auto fused = RuntimeGraph::Build(FilledDynamic(lines), bytes);
      const std::string types = Types(fused->graph());
      EXPECT_NE(types.find("oort.DynamicLinear"), std::string::npos) << types;
      EXPECT_EQ(types.find("oort.DynamicQuantize"), std::string::npos) << types;
      EXPECT_EQ(types.find("gelu"), std::string::npos) << types;
      const Tensor want =
          Session(RuntimeGraph::Build(FilledDynamic(lines), numbers)).Forward({x})[0];
      ExpectNear(Session(fused).Forward({x})[0], want, {2e-5, 2e-5});
    }
  }
}

TEST(DynamicLinear, RefusesWhatDoesNotFit) {
  OperatorCase("oort.DynamicLinear")
      .Attribute("weight", Tensor::From<int8_t>({1, 2, 3, 4}, {2, 2}))
      .Attribute("scales", Tensor::From<float>({1, 1}, {2}))
      .Input(Tensor::Zeros(DType::kF32, {1, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rows of 2 elements");
  OperatorCase("oort.DynamicLinear")
      .Attribute("weight", Tensor::From<int8_t>({1, 2, 3, 4}, {2, 2}))
      .Attribute("scales", Tensor::From<float>({1, 0}, {2}))
      .Input(Tensor::Zeros(DType::kF32, {1, 2}))
      .ExpectError(ErrorCode::kInvalidModel, "scale above 0");
  OperatorCase("oort.DynamicLinear")
      .Attribute("weight", Tensor::From<int8_t>({1, 2, 3, 4}, {2, 2}))
      .Attribute("scales", Tensor::From<float>({1}, {1}))
      .Input(Tensor::Zeros(DType::kF32, {1, 2}))
      .ExpectError(ErrorCode::kInvalidModel, "a scale for each output");
}

}  // namespace
}  // namespace oort::testing
