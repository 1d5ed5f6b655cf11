// SPDX-License-Identifier: MIT
// Networks that torch quantized become operators on bytes, and answer what torch answers.
// make_torch_goldens.py made the network and the answers.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph_builder.h"
#include "kit/paths.h"
#include "oort/npy.h"
#include "oort/testing.h"

namespace oort {
namespace {

const std::string kFolder = TestData().string() + "/quantize/goldens/torch/";

std::shared_ptr<const RuntimeGraph> LoadGolden(std::vector<std::string> without = {}) {
  LoadOptions options;
  options.disabled_passes = std::move(without);
  return RuntimeGraph::Load(kFolder + "model.pnnx.param", kFolder + "model.pnnx.bin", options);
}

std::string TypesIn(const RuntimeGraph& loaded) {
  std::string types;
  for (int index : loaded.graph().TopologicalOrder()) {
    const Operator& op = loaded.graph().operators[static_cast<size_t>(index)];
    if (!op.IsPort()) types += (types.empty() ? "" : " ") + op.type;
  }
  return types;
}

/// Nowhere more than two steps of the last scale from torch, and mostly none: rounding may differ
/// where it is a tie, since torch multiplies by integers.
void ExpectTorch(const std::shared_ptr<const RuntimeGraph>& loaded) {
  const Tensor want = ReadNpy(kFolder + "out0.npy");
  const Tensor got = Session(loaded).Forward({ReadNpy(kFolder + "in0.npy")})[0];
  constexpr double kStep = 1.569529180e-03;
  testing::ExpectNear(got, want, {2.01 * kStep, 0});
  int64_t others = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double difference = double(got.data<float>()[i]) - double(want.data<float>()[i]);
    others += std::abs(difference) > kStep / 10;
  }
  EXPECT_LE(others * 3, want.elements()) << "places that differ";
}

TEST(TorchQuantized, BecomesOperatorsOnBytes) {
  const auto loaded = LoadGolden();
  const std::string types = TypesIn(*loaded);
  // Nothing multiplies numbers, and what torch joins and pools stays in bytes.
  for (const char* type : {"conv2d", "F.linear", "nn.quantized", "quantized::add", "nn.Linear"}) {
    EXPECT_EQ(types.find(type), std::string::npos) << types;
  }
  size_t convolutions = 0;
  for (size_t at = 0; (at = types.find("IntegerConv2d", at)) != std::string::npos; ++at) {
    ++convolutions;
  }
  EXPECT_EQ(convolutions, 3u) << types;
  EXPECT_NE(types.find("IntegerLinear"), std::string::npos) << types;
  ExpectTorch(loaded);
}

TEST(TorchQuantized, AnswersTheSameInNumbers) {
  const auto loaded = LoadGolden({"integer-regions"});
  EXPECT_EQ(TypesIn(*loaded).find("Integer"), std::string::npos);
  ExpectTorch(loaded);
}

/// What PT2E quantized comes as fake quantization, with that of the weights folded: see
/// make_pt2e_golden.py.
TEST(TorchQuantized, FindsIntegersInFoldedWeights) {
  const std::string folder = TestData().string() + "/quantize/goldens/pt2e/";
  const auto loaded =
      RuntimeGraph::Load(folder + "model.pnnx.param", folder + "model.pnnx.bin", {});
  const std::string types = TypesIn(*loaded);
  EXPECT_EQ(types,
            "oort.Quantize nhwc.enter nhwc.IntegerConv2d nhwc.MaxPool2d nhwc.IntegerConv2d "
            "nhwc.IntegerConv2d oort.IntegerAdd nhwc.IntegerAvgPool2d nhwc.leave torch.flatten "
            "oort.IntegerLinear oort.Dequantize");
  const Tensor want = ReadNpy(folder + "out0.npy");
  const Tensor got = Session(loaded).Forward({ReadNpy(folder + "in0.npy")})[0];
  constexpr double kStep = 3.89275094e-3;  // of the last scale
  testing::ExpectNear(got, want, {2.01 * kStep, 0});
}

/// Weights that are no multiples of a scale stay numbers.
TEST(TorchQuantized, LeavesOtherWeightsAlone) {
  Graph graph = GraphFromText(
      "pnnx.Input in 0 1 x #x=(2,8)f32\n"
      "pnnx.Expression s 0 1 s expr=0.1\npnnx.Expression z 0 1 z expr=9\n"
      "pnnx.Expression l 0 1 l expr=0\npnnx.Expression h 0 1 h expr=255\n"
      "aten::fake_quantize_per_tensor_affine f 5 1 x s z l h y #y=(2,8)f32\n"
      "nn.Linear fc 1 1 y out bias=False in_features=8 out_features=3 @weight=(3,8)f32 "
      "#out=(2,3)f32\n"
      "pnnx.Output o 1 0 out\n");
  Tensor& weight =
      graph.operators[static_cast<size_t>(graph.FindOperator("fc"))].attributes["weight"];
  const auto integers = [](const Graph& built) {
    return TypesIn(*RuntimeGraph::Build(built)).find("IntegerLinear") != std::string::npos;
  };
  weight = testing::RandomTensor(DType::kF32, {3, 8}, 3, -1, 1);
  EXPECT_FALSE(integers(graph));
  weight = weight.Clone();
  for (int64_t i = 0; i < 24; ++i) {
    const float steps = std::nearbyint(weight.data<float>()[i] * 90);
    weight.data<float>()[i] = i < 8 ? 0 : steps * (i < 16 ? 0.0123f : 3.7e-3f);
  }
  EXPECT_TRUE(integers(graph));
  weight.data<float>()[20] *= 1.001f;
  EXPECT_FALSE(integers(graph));
}

constexpr const char* kHead =
    "pnnx.Input in 0 1 x #x=(2,3,4,4)f32\n"
    "torch.quantize_per_tensor q 1 1 x xq scale=0.05 zero_point=20 dtype=torch.quint8 "
    "#xq=(2,3,4,4)u8\n";

Tensor Answer(const std::string& lines, const Tensor& x, bool integers = true) {
  LoadOptions options;
  if (!integers) options.disabled_passes = {"integer-regions"};
  return Session(RuntimeGraph::Build(GraphFromText(lines), options)).Forward({x})[0];
}

/// The number that a byte would hold.
float Rounded(float x, float scale, int zero_point, int least = 0, int most = 255) {
  const float q = std::nearbyint(x / scale) + static_cast<float>(zero_point);
  const float limited = std::min(std::max(q, float(least)), float(most));
  return (limited - static_cast<float>(zero_point)) * scale;
}

TEST(TorchQuantized, FunctionsOfOneElementFollowTorchsScales) {
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 4, 4}, 5, -2, 12);
  struct Case {
    const char* line;
    float (*function)(float);
    float scale;
    int zero_point;
  };
  const Case cases[] = {
      {"F.relu f 1 1 xq y", [](float v) { return v > 0 ? v : 0; }, 0.05f, 20},
      {"F.hardtanh f 1 1 xq y min_val=-0.5 max_val=3.01",
       [](float v) { return std::min(std::max(v, -0.5f), 3.01f); }, 0.05f, 20},
      {"F.sigmoid f 1 1 xq y", [](float v) { return 1 / (1 + std::exp(-v)); }, 1 / 256.0f, 0},
      {"F.tanh f 1 1 xq y", [](float v) { return std::tanh(v); }, 2 / 256.0f, 128},
      {"quantized::hardswish f 3 1 xq s z y",
       [](float v) { return v * std::min(std::max(v + 3, 0.0f), 6.0f) / 6; }, 0.1f, 9},
      {"quantized::leaky_relu f 5 1 xq n i s z y", [](float v) { return v > 0 ? v : 0.2f * v; },
       0.1f, 9}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const std::string constants =
        "pnnx.Expression s 0 1 s expr=0.1\npnnx.Expression z 0 1 z expr=9\n"
        "pnnx.Expression n 0 1 n expr=0.2\npnnx.Expression i 0 1 i expr=False\n";
    const std::string lines = kHead + constants + c.line +
                              "\ntorch.dequantize d 1 1 y out #out=(2,3,4,4)f32\n"
                              "pnnx.Output o 1 0 out\n";
    Tensor want = x.Clone();
    for (int64_t i = 0; i < want.elements(); ++i) {
      float& value = want.data<float>()[i];
      value = Rounded(c.function(Rounded(value, 0.05f, 20)), c.scale, c.zero_point);
    }
    testing::ExpectNear(Answer(lines, x), want, {double(c.scale) * 1.01, 0});
    testing::ExpectNear(Answer(lines, x, false), want, {double(c.scale) * 1.01, 0});
  }
}

TEST(TorchQuantized, JoinsTakeTheScaleOfTheFirst) {
  const std::string lines = std::string(kHead) +
                            "torch.quantize_per_tensor q2 1 1 x xr scale=0.1 zero_point=-5 "
                            "dtype=torch.qint8 #xr=(2,3,4,4)i8\n"
                            "torch.cat c 2 1 xq xr y dim=1 #y=(2,6,4,4)u8\n"
                            "torch.flatten f 1 1 y z start_dim=0 end_dim=-1 #z=(192)u8\n"
                            "torch.dequantize d 1 1 z out #out=(192)f32\n"
                            "pnnx.Output o 1 0 out\n";
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 4, 4}, 5, -2, 12);
  const Tensor got = Answer(lines, x);
  ASSERT_EQ(got.shape(), (Shape{192}));
  const float* values = got.data<float>();
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t i = 0; i < 48; ++i) {
      const float v = x.data<float>()[n * 48 + i];
      EXPECT_NEAR(values[n * 96 + i], Rounded(v, 0.05f, 20), 1e-5);
      EXPECT_NEAR(values[n * 96 + 48 + i], Rounded(Rounded(v, 0.1f, -5, -128, 127), 0.05f, 20),
                  0.0501);
    }
  }
}

TEST(TorchQuantized, FakeQuantizationIsQuantizingAndBack) {
  // Seven bits of a byte, as torch uses them where sums might overflow.
  const std::string lines =
      "pnnx.Input in 0 1 x #x=(2,3,4,4)f32\n"
      "pnnx.Expression s 0 1 s expr=0.05\npnnx.Expression z 0 1 z expr=20\n"
      "pnnx.Expression a 0 1 a expr=0\npnnx.Expression b 0 1 b expr=127\n"
      "aten::fake_quantize_per_tensor_affine f 5 1 x s z a b y #y=(2,3,4,4)f32\n"
      "F.relu r 1 1 y r #r=(2,3,4,4)f32\n"
      "aten::fake_quantize_per_tensor_affine g 5 1 r s z a b out #out=(2,3,4,4)f32\n"
      "pnnx.Output o 1 0 out\n";
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 4, 4}, 5, -2, 12);
  Tensor want = x.Clone();
  for (int64_t i = 0; i < want.elements(); ++i) {
    float& value = want.data<float>()[i];
    value = std::max(0.0f, Rounded(value, 0.05f, 20, 0, 127));
  }
  testing::ExpectNear(Answer(lines, x), want, {0.0501, 0});
  const auto loaded = RuntimeGraph::Build(GraphFromText(lines));
  EXPECT_NE(TypesIn(*loaded).find("oort.Quantize"), std::string::npos) << TypesIn(*loaded);
}

TEST(TorchQuantized, WhoIsNotKnownReadsTorchsForm) {
  // Nothing here knows what torch.sort does to scales: it refuses, as it did.
  const std::string lines = std::string(kHead) +
                            "aten::int_repr i 1 1 xq ints #ints=(2,3,4,4)u8\n"
                            "torch.sort s 1 2 xq y k dim=1 descending=False\n"
                            "torch.dequantize d 1 1 y out\n"
                            "pnnx.Output o 1 0 out\npnnx.Output o1 1 0 ints\n";
  EXPECT_THROW(Answer(lines, testing::RandomTensor(DType::kF32, {2, 3, 4, 4})), Error);
  // The integers themselves can be had.
  const std::string integers =
      std::string(kHead) +
      "aten::int_repr i 1 1 xq ints #ints=(2,3,4,4)u8\npnnx.Output o 1 0 ints\n";
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 4, 4}, 5, 0, 1);
  const Tensor got = Answer(integers, x);
  EXPECT_EQ(got.dtype(), DType::kU8);
  EXPECT_EQ(got.data<uint8_t>()[0], int(std::nearbyint(x.data<float>()[0] / 0.05f)) + 20);
}

}  // namespace
}  // namespace oort
