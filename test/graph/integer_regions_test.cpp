// SPDX-License-Identifier: MIT
// Networks whose file says which tensors are bytes: what is left of them, and that integers give
// what numbers give, but for a step where rounding is a tie.
#include "cuda/device.h"
#include "graph/pass_check.h"

namespace oort {
namespace {

/// A graph as GraphFromText has it, with bytes for weights and small positive scales.
Graph QuantizedGraph(const std::string& lines) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 100;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      const bool bytes = tensor.dtype() == DType::kI8, scales = name == "scales";
      tensor = testing::RandomTensor(tensor.dtype(), tensor.shape(), seed++,
                                     bytes    ? -127
                                     : scales ? 0.002
                                              : -0.5,
                                     bytes    ? 127
                                     : scales ? 0.004
                                              : 0.5);
    }
  }
  return graph;
}

std::shared_ptr<const RuntimeGraph> Load(const std::string& lines, bool integers, Isa isa) {
  LoadOptions options;
  options.isa = isa;
  if (!integers) options.disabled_passes = {"integer-regions"};
  return RuntimeGraph::Build(QuantizedGraph(lines), options);
}

/// The types of the operators that the runtime runs, without those of constants.
std::string TypesOf(const std::string& lines) {
  std::string types;
  const std::shared_ptr<const RuntimeGraph> loaded = Load(lines, true, DefaultIsa());
  for (int index : loaded->graph().TopologicalOrder()) {
    const Operator& op = loaded->graph().operators[static_cast<size_t>(index)];
    if (!op.IsPort()) types += (types.empty() ? "" : " ") + op.type;
  }
  return types;
}

/// On a GPU, where there is one, bytes are the same; numbers behind them differ by rounding alone.
void ExpectTheSameOnGpu(const std::string& lines, const Tensor& input, double step) {
  std::string reason;
  if (cuda::Devices(&reason).empty()) return;
  const Tensor want = Session(Load(lines, true, DefaultIsa())).Forward({input})[0];
  LoadOptions options;
  options.device = Device::Cuda(0);
  const auto graph = RuntimeGraph::Build(QuantizedGraph(lines), options);
  for (const NodeReport& node : graph->Plan({input}).nodes) EXPECT_EQ(node.fallback, "");
  Session session(graph);
  for (int run = 0; run < 3; ++run) {  // the third replays what was recorded
    testing::ExpectNear(session.Forward({input})[0], want, {step / 1000, 0});
  }
}

/// Integers and numbers differ by at most `step` anywhere, and by more than a hundredth of it in
/// few places.
void ExpectAlikeOnCpu(const std::string& lines, const Tensor& input, double step) {
  for (Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    const Tensor want = Session(Load(lines, false, isa)).Forward({input})[0];
    const Tensor got = Session(Load(lines, true, isa)).Forward({input})[0];
    testing::ExpectNear(got, want, {step * 1.01, 0});
    int64_t others = 0;
    for (int64_t i = 0; i < want.elements(); ++i) {
      const float difference = got.data<float>()[i] - want.data<float>()[i];
      others += std::abs(static_cast<double>(difference)) > step / 100;
    }
    EXPECT_LE(others * 50, want.elements()) << "places that differ";
  }
}

void ExpectAlike(const std::string& lines, const Tensor& input, double step) {
  ExpectAlikeOnCpu(lines, input, step);
  ExpectTheSameOnGpu(lines, input, step);
}

constexpr const char* kInput =
    "pnnx.Input in 0 1 x #x=(1,3,12,12)f32\n"
    "oort.Quantize q0 1 1 x xq scale=0.02 zero_point=100 dtype=u8 #xq=(1,3,12,12)u8\n"
    "oort.Dequantize d0 1 1 xq xd scale=0.02 zero_point=100 #xd=(1,3,12,12)f32\n";
constexpr const char* kFirst =
    "pnnx.Attribute w1 0 1 w1 @data=(16,3,3,3)i8 #w1=(16,3,3,3)i8\n"
    "oort.Dequantize w1d 1 1 w1 w1d axis=0 @scales=(16)f32 #w1d=(16,3,3,3)f32\n"
    "pnnx.Attribute b1 0 1 b1 @data=(16)f32 #b1=(16)f32\n"
    "F.conv2d c1 3 1 xd w1d b1 c1 stride=(1,1) padding=(1,1) dilation=(1,1) groups=1 $input=xd "
    "$weight=w1d $bias=b1 #c1=(1,16,12,12)f32\n"
    "F.relu r1 1 1 c1 r1 #r1=(1,16,12,12)f32\n"
    "oort.Quantize q1 1 1 r1 r1q scale=0.03 zero_point=0 dtype=u8 #r1q=(1,16,12,12)u8\n"
    "oort.Dequantize d1 1 1 r1q r1d scale=0.03 zero_point=0 #r1d=(1,16,12,12)f32\n";

TEST(IntegerRegions, ConvolvesPoolsAddsAndClassifiesInBytes) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "F.max_pool2d p1 1 1 r1d p1 kernel_size=(3,3) stride=(2,2) padding=(1,1) dilation=(1,1) "
      "ceil_mode=False return_indices=False #p1=(1,16,6,6)f32\n"
      "oort.Quantize q2 1 1 p1 p1q scale=0.03 zero_point=0 dtype=u8 #p1q=(1,16,6,6)u8\n"
      "oort.Dequantize d2 1 1 p1q p1d scale=0.03 zero_point=0 #p1d=(1,16,6,6)f32\n"
      "pnnx.Attribute w2 0 1 w2 @data=(16,1,3,3)i8 #w2=(16,1,3,3)i8\n"
      "oort.Dequantize w2d 1 1 w2 w2d axis=0 @scales=(16)f32 #w2d=(16,1,3,3)f32\n"
      "F.conv2d c2 2 1 p1d w2d c2 stride=(1,1) padding=(1,1) dilation=(1,1) groups=16 $input=p1d "
      "$weight=w2d #c2=(1,16,6,6)f32\n"
      "pnnx.Expression a2 2 1 c2 p1d a2 expr=add(@0,@1) #a2=(1,16,6,6)f32\n"
      "F.relu6 r2 1 1 a2 r2 #r2=(1,16,6,6)f32\n"
      "oort.Quantize q3 1 1 r2 r2q scale=0.025 zero_point=-128 dtype=i8 #r2q=(1,16,6,6)i8\n"
      "oort.Dequantize d3 1 1 r2q r2d scale=0.025 zero_point=-128 #r2d=(1,16,6,6)f32\n"
      "F.adaptive_avg_pool2d p2 1 1 r2d p2 output_size=(1,1) #p2=(1,16,1,1)f32\n"
      "torch.flatten f2 1 1 p2 f2 start_dim=1 end_dim=-1 #f2=(1,16)f32\n"
      "oort.Quantize q4 1 1 f2 f2q scale=0.02 zero_point=3 dtype=u8 #f2q=(1,16)u8\n"
      "oort.Dequantize d4 1 1 f2q f2d scale=0.02 zero_point=3 #f2d=(1,16)f32\n"
      "pnnx.Attribute w3 0 1 w3 @data=(10,16)i8 #w3=(10,16)i8\n"
      "oort.Dequantize w3d 1 1 w3 w3d scale=0.003 zero_point=0 #w3d=(10,16)f32\n"
      "pnnx.Attribute b3 0 1 b3 @data=(10)f32 #b3=(10)f32\n"
      "F.linear l3 3 1 f2d w3d b3 l3 $input=f2d $weight=w3d $bias=b3 #l3=(1,10)f32\n"
      "pnnx.Output out 1 0 l3\n";
  EXPECT_EQ(TypesOf(lines),
            "oort.Quantize nhwc.enter nhwc.IntegerConv2d nhwc.MaxPool2d nhwc.IntegerConv2d "
            "nhwc.IntegerAvgPool2d nhwc.leave torch.flatten oort.IntegerLinear");
  // A step of the last bytes, through the largest weights.
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.02 * 127 * 0.003);
}

TEST(IntegerRegions, LeavesFloatsAtTheBorders) {
  const std::string lines = std::string(kInput) + kFirst +
                            "F.softmax s 1 1 r1d s dim=1 #s=(1,16,12,12)f32\n"
                            "pnnx.Output out 1 0 s\n";
  const std::string types = TypesOf(lines);
  EXPECT_NE(types.find("nhwc.IntegerConv2d oort.Dequantize"), std::string::npos) << types;
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.03);
}

TEST(IntegerRegions, AddsTwoTensorsOfBytes) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "oort.Quantize qa 1 1 r1d qa scale=0.05 zero_point=-10 dtype=i8 #qa=(1,16,12,12)i8\n"
      "oort.Dequantize da 1 1 qa da scale=0.05 zero_point=-10 #da=(1,16,12,12)f32\n"
      "torch.add a 2 1 r1d da a #a=(1,16,12,12)f32\n"
      "F.relu r 1 1 a r #r=(1,16,12,12)f32\n"
      "oort.Quantize qr 1 1 r qr scale=0.06 zero_point=7 dtype=u8 #qr=(1,16,12,12)u8\n"
      "oort.Dequantize dr 1 1 qr dr scale=0.06 zero_point=7 #dr=(1,16,12,12)f32\n"
      "pnnx.Output out 1 0 dr\n";
  const std::string types = TypesOf(lines);
  EXPECT_NE(types.find("oort.ByteTable oort.IntegerAdd"), std::string::npos) << types;
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.06);
}

/// Squeeze-and-excite in floats, of an image that stays bytes.
TEST(IntegerRegions, ScalesChannelsOfBytes) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "nn.AdaptiveAvgPool2d s 1 1 r1d s output_size=(1,1) #s=(1,16,1,1)f32\n"
      "F.sigmoid g 1 1 s g #g=(1,16,1,1)f32\n"
      "oort.Quantize qg 1 1 g gq scale=0.004 zero_point=0 dtype=u8 #gq=(1,16,1,1)u8\n"
      "oort.Dequantize dg 1 1 gq gd scale=0.004 zero_point=0 #gd=(1,16,1,1)f32\n"
      "pnnx.Expression m 2 1 gd r1d m expr=mul(@0,@1) #m=(1,16,12,12)f32\n"
      "oort.Quantize qm 1 1 m mq scale=0.02 zero_point=-128 dtype=i8 #mq=(1,16,12,12)i8\n"
      "oort.Dequantize dm 1 1 mq md scale=0.02 zero_point=-128 #md=(1,16,12,12)f32\n"
      "pnnx.Output out 1 0 md\n";
  EXPECT_EQ(TypesOf(lines),
            "oort.Quantize nhwc.enter nhwc.IntegerConv2d nhwc.IntegerAvgPool2d F.sigmoid "
            "oort.Quantize oort.IntegerMul oort.Dequantize nhwc.leave");
  // A GPU multiplies floats there.
  ExpectAlikeOnCpu(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.02);
}

/// Other shapes than those of images and their factors stay floats.
TEST(IntegerRegions, LeavesOtherProductsAsNumbers) {
  const std::string lines =
      std::string(kInput) +
      "Tensor.slice s 1 1 xd s dim=2 start=0 end=1 step=1 #s=(1,3,1,12)f32\n"
      "oort.Quantize qs 1 1 s sq scale=0.02 zero_point=100 dtype=u8 #sq=(1,3,1,12)u8\n"
      "oort.Dequantize ds 1 1 sq sd scale=0.02 zero_point=100 #sd=(1,3,1,12)f32\n"
      "torch.mul m 2 1 xd sd m #m=(1,3,12,12)f32\n"
      "oort.Quantize qm 1 1 m mq scale=0.02 zero_point=100 dtype=u8 #mq=(1,3,12,12)u8\n"
      "oort.Dequantize dm 1 1 mq md scale=0.02 zero_point=100 #md=(1,3,12,12)f32\n"
      "pnnx.Output out 1 0 md\n";
  EXPECT_EQ(TypesOf(lines).find("IntegerMul"), std::string::npos) << TypesOf(lines);
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.02);
}

TEST(IntegerRegions, MakesTablesOfFunctions) {
  const std::string lines =
      std::string(kInput) +
      "F.hardswish h 1 1 xd h #h=(1,3,12,12)f32\n"
      "F.sigmoid s 1 1 h s #s=(1,3,12,12)f32\n"
      "oort.Quantize qs 1 1 s qs scale=0.00390625 zero_point=0 dtype=u8 #qs=(1,3,12,12)u8\n"
      "oort.Dequantize ds 1 1 qs ds scale=0.00390625 zero_point=0 #ds=(1,3,12,12)f32\n"
      "pnnx.Output out 1 0 ds\n";
  EXPECT_EQ(TypesOf(lines), "oort.Quantize oort.ByteTable oort.Dequantize");
  ExpectSameAnswers(lines, {testing::RandomTensor(DType::kF32, {1, 3, 12, 12})}, kBitForBit);
}

TEST(IntegerRegions, JoinsBytesOfOneScale) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "torch.cat c 2 1 r1d r1d c dim=1 #c=(1,32,12,12)f32\n"
      "oort.Quantize qc 1 1 c qc scale=0.03 zero_point=0 dtype=u8 #qc=(1,32,12,12)u8\n"
      "oort.Dequantize dc 1 1 qc dc scale=0.03 zero_point=0 #dc=(1,32,12,12)f32\n"
      "pnnx.Output out 1 0 dc\n";
  EXPECT_EQ(TypesOf(lines),
            "oort.Quantize nhwc.enter nhwc.IntegerConv2d nhwc.cat oort.Dequantize nhwc.leave");
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.03);
}

/// Zeros around bytes are their zero point, which is none of 0 here.
TEST(IntegerRegions, PadsAndRepeatsBytes) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "oort.Quantize q2 1 1 r1d q2 scale=0.05 zero_point=-10 dtype=i8 #q2=(1,16,12,12)i8\n"
      "oort.Dequantize d2 1 1 q2 d2 scale=0.05 zero_point=-10 #d2=(1,16,12,12)f32\n"
      "nn.ZeroPad2d z 1 1 d2 z padding=(0,1,0,1) #z=(1,16,13,13)f32\n"
      "F.interpolate u 1 1 z u mode=nearest scale_factor=(2.0,2.0) size=None #u=(1,16,26,26)f32\n"
      "F.pad p 1 1 u p pad=(1,0,1,0) mode=constant value=None #p=(1,16,27,27)f32\n"
      "oort.Quantize q3 1 1 p q3 scale=0.05 zero_point=-10 dtype=i8 #q3=(1,16,27,27)i8\n"
      "oort.Dequantize d3 1 1 q3 d3 scale=0.05 zero_point=-10 #d3=(1,16,27,27)f32\n"
      "pnnx.Output out 1 0 d3\n";
  EXPECT_EQ(TypesOf(lines),
            "oort.Quantize nhwc.enter nhwc.IntegerConv2d oort.ByteTable nhwc.ConstantPad2d "
            "nhwc.Upsample nhwc.pad oort.Dequantize nhwc.leave");
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.05);
}

/// A pad by another number than 0 has no place among bytes: it may lie outside of their range.
TEST(IntegerRegions, LeavesPaddingByNumbers) {
  const std::string lines =
      std::string(kInput) + kFirst +
      "F.pad p 1 1 r1d p pad=(1,0,1,0) mode=constant value=7 #p=(1,16,13,13)f32\n"
      "oort.Quantize q3 1 1 p q3 scale=0.03 zero_point=0 dtype=u8 #q3=(1,16,13,13)u8\n"
      "oort.Dequantize d3 1 1 q3 d3 scale=0.03 zero_point=0 #d3=(1,16,13,13)f32\n"
      "pnnx.Output out 1 0 d3\n";
  EXPECT_NE(TypesOf(lines).find("oort.Dequantize nhwc.pad oort.Quantize"), std::string::npos);
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.03);
}

TEST(IntegerRegions, LeavesWeightsWithZeroPointsAsNumbers) {
  std::string lines = std::string(kInput) + kFirst + "pnnx.Output out 1 0 r1d\n";
  const size_t at = lines.find("@scales=(16)f32");
  lines.insert(at, "@zero_points=(16)i32 ");
  Graph graph = QuantizedGraph(lines);
  for (Operator& op : graph.operators) {
    const auto zeros = op.attributes.find("zero_points");
    if (zeros != op.attributes.end()) zeros->second.data<int32_t>()[3] = 1;
  }
  const auto loaded = RuntimeGraph::Build(std::move(graph));
  for (const Operator& op : loaded->graph().operators) {
    EXPECT_EQ(op.type.find("Integer"), std::string::npos) << op.type;
  }
}

TEST(IntegerRegions, DoNotTakeAnIntegerConvolutionFromAFloatReader) {
  const std::string lines = std::string(kInput) + kFirst +
                            "F.softmax s 1 1 r1 s dim=1 #s=(1,16,12,12)f32\n"
                            "pnnx.Expression e 2 1 s r1d e expr=add(@0,@1) #e=(1,16,12,12)f32\n"
                            "pnnx.Output out 1 0 e\n";
  const std::string types = TypesOf(lines);
  EXPECT_NE(types.find("nhwc.IntegerConv2d"), std::string::npos) << types;
  EXPECT_NE(types.find("oort.Quantize", 14), std::string::npos) << types;
  ExpectAlike(lines, testing::RandomTensor(DType::kF32, {1, 3, 12, 12}), 0.03);
}

}  // namespace
}  // namespace oort
