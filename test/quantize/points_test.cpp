// SPDX-License-Identifier: MIT
// Which operands become bytes, which share a scale, and what stays float.
#include "quantize/points.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quantize/networks.h"

namespace oort::quantize {
namespace {

std::optional<Decision> Nothing(const Operator&) { return {}; }

class PointsTest : public ::testing::Test {
 protected:
  void Find(const std::string& lines, const Decide& decide = Nothing) {
    graph_ = NetworkOf(lines);
    points_ = FindPoints(graph_, decide);
  }
  /// The classes as sorted names: "a b".
  std::vector<std::string> Classes() const {
    std::vector<std::string> classes;
    for (const std::vector<int>& operands : points_.classes) {
      std::vector<std::string> names;
      for (const int operand : operands) names.push_back(graph_.operands[size_t(operand)].name);
      std::sort(names.begin(), names.end());
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
      classes.push_back(text);
    }
    std::sort(classes.begin(), classes.end());
    return classes;
  }
  /// Who reads bytes, as "operator:place".
  std::vector<std::string> Uses() const {
    std::vector<std::string> uses;
    for (const Use& use : points_.uses) {
      uses.push_back(graph_.operators[size_t(use.op)].name + ":" + std::to_string(use.at));
    }
    std::sort(uses.begin(), uses.end());
    return uses;
  }
  std::string WhyFloat(const std::string& name) const {
    for (const Layer& layer : points_.layers) {
      if (graph_.operators[size_t(layer.op)].name == name) return layer.why_float;
    }
    return "no such layer";
  }

  Graph graph_;
  Points points_;
};

using Names = std::vector<std::string>;

TEST_F(PointsTest, SumsAndActivationsRunWithTheirLayer) {
  Find(Residual());
  // c, d: made inside of second; a: inside of first. Pooling and flattening keep the scale of e.
  EXPECT_EQ(Classes(), (Names{"b", "e f g", "x"}));
  EXPECT_EQ(Uses(), (Names{"first:0", "flat:0", "head:0", "pool:0", "second:0", "sum:1"}));
  EXPECT_EQ(points_.QuantizedLayers(), 3u);
  EXPECT_TRUE(points_.source[size_t(graph_.FindOperand("e"))]);
  EXPECT_FALSE(points_.source[size_t(graph_.FindOperand("f"))]);
}

TEST_F(PointsTest, OfTwoLayersThatASumJoinsTheLaterComputesIt) {
  Find(Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + Conv("two", 4, 4, "x", "b") +
       "pnnx.Expression sum 2 1 a b c expr=add(@0,@1)\n" + Conv("three", 4, 4, "c", "d") +
       Output("d"));
  EXPECT_EQ(Classes(), (Names{"a", "c", "x"}));
  EXPECT_EQ(Uses(), (Names{"one:0", "sum:0", "three:0", "two:0"}));
}

TEST_F(PointsTest, WhatIsJoinedSharesOneScale) {
  Find(Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + "nn.ReLU act 1 1 a b\n" +
       Conv("two", 4, 4, "b", "c") + "torch.cat join 2 1 b c d dim=1\n" +
       Conv("three", 8, 4, "d", "e") + Output("e"));
  EXPECT_EQ(Classes(), (Names{"b c d", "x"}));
  EXPECT_EQ(Uses(), (Names{"join:0", "join:1", "one:0", "three:0", "two:0"}));
}

TEST_F(PointsTest, SqueezeExciteStaysFloat) {
  Find(Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + "nn.ReLU act 1 1 a b\n" +
       "nn.AdaptiveAvgPool2d squeeze 1 1 b c output_size=(1,1)\n" + Conv("down", 4, 4, "c", "d") +
       "nn.ReLU act2 1 1 d e\n" + Conv("up", 4, 4, "e", "f") + "nn.Sigmoid gate 1 1 f g\n" +
       "pnnx.Expression scale 2 1 b g h expr=mul(@0,@1)\n" + Conv("last", 4, 4, "h", "i") +
       Conv("end", 4, 4, "i", "j") + Output("j"));
  EXPECT_EQ(WhyFloat("down"), "it makes factors of channels (squeeze-and-excite)");
  EXPECT_EQ(WhyFloat("up"), "it makes factors of channels (squeeze-and-excite)");
  EXPECT_EQ(WhyFloat("last"), "");
  EXPECT_EQ(WhyFloat("one"), "it is isolated: its neighbours are float");
  EXPECT_EQ(Classes(), (Names{"h", "i"}));
}

/// The image stays bytes: its means are summed of them, and factors of its channels are rounded.
TEST_F(PointsTest, ImagesWhoseChannelsAreScaledStayBytes) {
  const std::string lines =
      Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + "nn.ReLU act 1 1 a b #b=(1,4,8,8)f32\n" +
      "nn.AdaptiveAvgPool2d squeeze 1 1 b c output_size=(1,1)\n" + Conv("down", 4, 4, "c", "d") +
      "nn.ReLU act2 1 1 d e\n" + Conv("up", 4, 4, "e", "f") +
      "nn.Sigmoid gate 1 1 f g #g=(1,4,1,1)f32\n" +
      "pnnx.Expression scale 2 1 g b h expr=mul(@0,@1)\n" + Conv("last", 4, 4, "h", "i") +
      Output("i");
  Find(lines);
  EXPECT_EQ(WhyFloat("up"), "it makes factors of channels (squeeze-and-excite)");
  EXPECT_EQ(WhyFloat("one"), "");
  EXPECT_EQ(WhyFloat("last"), "");
  EXPECT_EQ(Classes(), (Names{"b", "g", "h", "x"}));
  EXPECT_EQ(Uses(), (Names{"last:0", "one:0", "scale:0", "scale:1", "squeeze:0"}));
  // Where the image is float, nothing is rounded for it.
  Find(lines, [](const Operator& op) -> std::optional<Decision> {
    return Decision{op.name != "last", "somebody said so"};
  });
  EXPECT_EQ(Classes(), (Names{"h"}));
}

TEST_F(PointsTest, ProductsOfBytesAreBytes) {
  Find(Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + Conv("two", 4, 4, "x", "b") +
       "nn.Sigmoid gate 1 1 b c\n" + "torch.mul scale 2 1 a c d #a=(1,4,8,8)f32 #c=(1,4,8,8)f32\n" +
       Conv("three", 4, 4, "d", "e") + Output("e"));
  EXPECT_EQ(Classes(), (Names{"a", "c", "d", "x"}));
  EXPECT_EQ(Uses(), (Names{"one:0", "scale:0", "scale:1", "three:0", "two:0"}));
}

TEST_F(PointsTest, IsolatedLayersStayFloatUnlessAskedFor) {
  const std::string lines = Input("(3,8)") +
                            "nn.LayerNorm norm1 1 1 x a elementwise_affine=False "
                            "eps=1.0e-05 normalized_shape=(8)\n" +
                            Linear("alone", 8, 8, "a", "b") +
                            "nn.LayerNorm norm2 1 1 b c elementwise_affine=False eps=1.0e-05 "
                            "normalized_shape=(8)\n" +
                            Linear("fc1", 8, 8, "c", "d") + "nn.GELU act 1 1 d e\n" +
                            Linear("fc2", 8, 8, "e", "f") + Output("f");
  Find(lines);
  EXPECT_EQ(WhyFloat("alone"), "it is isolated: its neighbours are float");
  EXPECT_EQ(Classes(), (Names{"c", "e"}));
  Find(lines, [](const Operator& op) -> std::optional<Decision> {
    if (op.name == "alone") return Decision{false, ""};
    return {};
  });
  EXPECT_EQ(Classes(), (Names{"a", "c", "e"}));
}

TEST_F(PointsTest, DecisionsKeepLayersFloat) {
  Find(Residual(), [](const Operator& op) -> std::optional<Decision> {
    return Decision{op.name == "second", "somebody said so"};
  });
  EXPECT_EQ(WhyFloat("second"), "somebody said so");
  // The sum runs with a float layer, and reads floats.
  EXPECT_EQ(Uses(), (Names{"first:0", "flat:0", "head:0", "pool:0"}));
}

TEST_F(PointsTest, LayersWithoutAFormInBytesAreNamed) {
  Find(Input("(1,4,8,8)") + Conv("one", 4, 4, "x", "a") + Conv("two", 4, 4, "a", "b") +
       "nn.ConvTranspose2d up 1 1 b c bias=False in_channels=4 out_channels=4 kernel_size=(2,2) "
       "stride=(2,2) padding=(0,0) output_padding=(0,0) dilation=(1,1) groups=1 "
       "@weight=(4,4,2,2)f32\n" +
       "pnnx.Attribute w 0 1 w @data=(4,4,1,1)f32 #w=(4,4,1,1)f32\n" +
       "F.conv2d tied 2 1 c w d $input=c $weight=w\n" + Output("d"));
  EXPECT_EQ(WhyFloat("up"), "bytes have no form of nn.ConvTranspose2d");
  EXPECT_EQ(WhyFloat("tied"), "its weights are not its own: export it as a module");
  EXPECT_EQ(Classes(), (Names{"a", "x"}));
}

TEST_F(PointsTest, WhatCannotBeSaidInBytesStaysFloat) {
  std::string mirrored = Conv("one", 4, 4, "x", "a");
  mirrored.replace(mirrored.find("padding_mode=zeros"), 18, "padding_mode=reflect");
  Find(Input("(1,4,8,8)") + mirrored + Conv("two", 4, 4, "a", "b") + Conv("three", 4, 4, "b", "c") +
       Output("c"));
  EXPECT_EQ(WhyFloat("one"), "it pads by reflect");
  EXPECT_EQ(Classes(), (Names{"a", "b"}));
}

}  // namespace
}  // namespace oort::quantize
