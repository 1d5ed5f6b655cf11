// SPDX-License-Identifier: MIT
// Rows with scales of their own beside plain loops, and products of their bytes beside f32.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph_builder.h"
#include "oort/testing.h"
#include "test/layers/quantize/plain_dynamic.h"

namespace oort::testing {
namespace {

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
      const PlainRow plain = PlainDynamicRow(at, 37, symmetric);
      for (size_t i = 0; i < 37; ++i) {
        at[i] = static_cast<float>(plain.bytes[i] - plain.zero_point) * plain.scale;
      }
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

/// On every instruction set, with one thread and with several.
void ExpectPlainBits(const Tensor& x, const ByteMatrix& matrix, const Tensor& bias,
                     bool symmetric) {
  const int64_t in = x.dim(-1), rows = x.elements() / in, out = matrix.weight.dim(0);
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(in) + " to " + std::to_string(out) +
               (symmetric ? " symmetric" : ""));
  Tensor want(DType::kF32, {rows, out});
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<float> row = PlainDynamicProduct(x.data<float>() + i * in, matrix.weight,
                                                       matrix.scales, bias, symmetric);
    std::copy(row.begin(), row.end(), want.data<float>() + i * out);
  }
  OperatorCase test("oort.DynamicLinear");
  test.Attribute("weight", matrix.weight).Attribute("scales", matrix.scales);
  if (bias.defined()) test.Attribute("bias", bias);
  test.Param("symmetric", symmetric ? "True" : "False")
      .Input(x.Reshaped({rows, in}))
      .ExpectOutputs({want}, {0, 0});
}

TEST(DynamicLinear, HasTheBitsOfPlainLoops) {
  for (const bool symmetric : {false, true}) {
    for (const int64_t in : {1, 3, 16, 65, 300}) {
      for (const int64_t out : {1, 7, 64, 130}) {
        for (const int64_t rows : {1, 2, 13}) {
          const auto seed = static_cast<uint64_t>(in * 1000 + out * 10 + rows);
          ExpectPlainBits(RandomTensor(DType::kF32, {rows, in}, seed, -1, 3),
                          ByteMatrix::Random(out, in, seed + 1),
                          rows == 2 ? Tensor() : RandomTensor(DType::kF32, {out}, seed + 3),
                          symmetric);
        }
      }
    }
  }
}

/// Bytes and weights at their ends, with sums above 2^24, which f32 rounds.
TEST(DynamicLinear, HasTheBitsOfPlainLoopsAtTheEnds) {
  for (const int64_t in : {5, 640, 2051}) {
    for (const int weight : {-128, -127, 127}) {
      ByteMatrix matrix = ByteMatrix::Random(33, in, 9);
      for (int64_t i = 0; i < matrix.weight.elements(); ++i) {
        matrix.weight.data<int8_t>()[i] = static_cast<int8_t>(i % in == 0 ? 1 : weight);
      }
      Tensor x = Tensor::Zeros(DType::kF32, {4, in});
      for (int64_t i = 0; i < in; ++i) {
        x.data<float>()[i] = 3;
        x.data<float>()[in + i] = -3;
        x.data<float>()[2 * in + i] = i % 2 == 0 ? 5e30f : -5e30f;
        x.data<float>()[3 * in + i] = i == 1 ? NAN : 1e-6f;
      }
      for (const bool symmetric : {false, true}) ExpectPlainBits(x, matrix, {}, symmetric);
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
