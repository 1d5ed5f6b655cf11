// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/exact.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "oort/pnnx.h"
#include "oort/testing.h"
#include "parser/pnnx/zip_writer.h"

namespace oort {
namespace {

using testing::ExpectThrows;
using testing::TemporaryFolder;

void ExpectSameOperator(const Operator& got, const Operator& want) {
  EXPECT_EQ(got.type, want.type);
  EXPECT_EQ(got.name, want.name);
  EXPECT_EQ(got.line, want.line);
  EXPECT_EQ(got.inputs, want.inputs);
  EXPECT_EQ(got.outputs, want.outputs);
  EXPECT_EQ(got.input_names, want.input_names);
  ASSERT_EQ(got.params.size(), want.params.size());
  for (const auto& [key, parameter] : want.params) {
    EXPECT_EQ(got.params.at(key).text(), parameter.text());
  }
  ASSERT_EQ(got.attributes.size(), want.attributes.size());
  for (const auto& [key, tensor] : want.attributes) {
    testing::ExpectSameBytes(got.attributes.at(key), tensor);
  }
}

void ExpectSameGraph(const Graph& got, const Graph& want) {
  ASSERT_EQ(got.operators.size(), want.operators.size());
  for (size_t i = 0; i < want.operators.size(); ++i) {
    ExpectSameOperator(got.operators[i], want.operators[i]);
  }
  ASSERT_EQ(got.operands.size(), want.operands.size());
  for (size_t i = 0; i < want.operands.size(); ++i) {
    const Operand &a = got.operands[i], &b = want.operands[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.producer, b.producer);
    EXPECT_EQ(a.consumers, b.consumers);
    EXPECT_EQ(a.dtype, b.dtype);
    EXPECT_EQ(a.has_shape, b.has_shape);
    EXPECT_EQ(a.shape, b.shape);
  }
}

/// A graph with every dtype, odd names and every kind of word.
Graph ManyKinds() {
  Graph graph;
  Operator input{.type = "pnnx.Input", .name = "pnnx_input_0"};
  input.outputs = {graph.AddOperand("0")};
  graph.operands[0].has_shape = true;
  graph.operands[0].shape = {1, Shape::kUnknown};
  graph.operands[0].dtype = DType::kF32;
  graph.AddOperator(input);
  Operator op{.type = "F.something_with_a_name_longer_than_24", .name = "x"};
  op.inputs = {0, 0};
  op.outputs = {graph.AddOperand("1")};
  op.input_names = {"input", "other"};
  op.params = {{"a", Parameter("None")}, {"expr", Parameter("add(@0,1)")}, {"e", Parameter("")}};
  int seed = 0;
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kU8, DType::kI16,
        DType::kI32, DType::kI64, DType::kBool, DType::kC64, DType::kC128}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 0}, Shape{1, 2, 3, 1, 1, 1, 1, 1}}) {
      ++seed;
      op.attributes["a." + std::to_string(seed)] =
          testing::RandomTensor(dtype, shape, static_cast<uint64_t>(seed));
    }
  }
  op.attributes["c32"] = Tensor::Zeros(DType::kC32, {3});
  graph.AddOperator(op);
  Operator output{.type = "pnnx.Output", .name = "pnnx_output_0"};
  output.inputs = {1};
  graph.AddOperator(output);
  return graph;
}

TEST(Write, TextIsPnnxsOwn) {
  const std::string text =
      "7767517\n"
      "3 2\n"
      "pnnx.Input               pnnx_input_0             0 1 0 #0=(1,12,52,64)f32\n"
      "nn.Conv2d                conv2d_1                 1 1 0 7 bias=True dilation=(1,1)"
      " padding_mode=zeros @bias=(12)f32 @weight=(12,6,4,4)f32 $input=0 #0=(1,12,52,64)f32"
      " #7=(1,?,17,13)f32\n"
      "pnnx.Output              pnnx_output_0            1 0 7 #7=(1,?,17,13)f32\n";
  EXPECT_EQ(PnnxParamText(ReadPnnxParam(*ByteSource::Owned(text))), text);
}

TEST(Write, RoundTripOfEveryKind) {
  const TemporaryFolder folder;
  Graph graph = ManyKinds();
  WritePnnx(graph, folder / "m.param", folder / "m.bin");
  Graph back = ReadPnnx(folder / "m.param", folder / "m.bin");
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    graph.operators[i].line = static_cast<int>(i) + 3;
  }
  ExpectSameGraph(back, graph);
  // Written again from memory that is mapped from the very file.
  WritePnnx(back, folder / "m.param", folder / "m.bin");
  ExpectSameGraph(ReadPnnx(folder / "m.param", folder / "m.bin"), graph);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(Write, WeightsAreAlignedSoThatNothingIsCopied) {
  const TemporaryFolder folder;
  Graph written = ManyKinds();
  for (const char* name : {"large", "larger"}) {
    written.operators[1].attributes[name] = Tensor::Zeros(DType::kF32, {16 * 1024 + 1});
  }
  WritePnnx(written, folder / "m.param", folder / "m.bin");
  const Graph graph = ReadPnnx(folder / "m.param", folder / "m.bin");
  for (const auto& [name, tensor] : graph.operators[1].attributes) {
    const auto* at = tensor.raw();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u) << name;
    // Small ones are copied: a mapping takes a page at least.
    EXPECT_EQ(testing::IsMappedFrom("m.bin", at), name.starts_with("large")) << name;
  }
}

TEST(Write, Zip64RoundTrip) {
  const Graph graph = ManyKinds();
  std::vector<pnnx::ZipItem> items;
  for (const auto& [name, tensor] : graph.operators[1].attributes) {
    items.push_back({"x." + name, {tensor.raw(), tensor.bytes()}});
  }
  EXPECT_FALSE(pnnx::NeedsZip64(items));
  std::string bin;
  pnnx::WriteZip(items, true, [&](std::span<const std::byte> bytes) {
    bin.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  const Graph back =
      ReadPnnx(*ByteSource::Owned(PnnxParamText(graph)), ByteSource::Owned(std::move(bin)));
  for (const auto& [name, tensor] : graph.operators[1].attributes) {
    testing::ExpectSameBytes(back.operators[1].attributes.at(name), tensor);
  }
}

TEST(Write, ChoosesZip64WhereNeeded) {
  std::byte byte{};
  // Only sizes are looked at, so the span may claim what it likes.
  const std::vector<pnnx::ZipItem> large = {{"a", {&byte, (size_t{1} << 32) - 1000}}};
  const std::vector<pnnx::ZipItem> larger = {{"a", {&byte, size_t{1} << 32}}};
  EXPECT_FALSE(pnnx::NeedsZip64(large));
  EXPECT_TRUE(pnnx::NeedsZip64(larger));
  EXPECT_FALSE(pnnx::NeedsZip64(std::vector<pnnx::ZipItem>(65534)));
  EXPECT_TRUE(pnnx::NeedsZip64(std::vector<pnnx::ZipItem>(65535)));
}

TEST(Write, CountsOnlyOperandsThatTheFileNames) {
  Graph graph = ManyKinds();
  graph.AddOperand("orphan");
  EXPECT_EQ(PnnxParamText(graph).substr(0, 12), "7767517\n3 2\n");
}

TEST(Write, RefusesWhatTheFormatCannotHold) {
  const auto refuse = [](const std::function<void(Graph&)>& change, std::string_view text) {
    Graph graph = ManyKinds();
    change(graph);
    ExpectThrows([&] { PnnxParamText(graph); }, ErrorCode::kInvalidArgument, text);
  };
  refuse([](Graph& g) { g.operators[1].name = "a b"; }, "the name 'a b'");
  refuse([](Graph& g) { g.operators[1].type = "a\nb"; }, "the type");
  refuse([](Graph& g) { g.operators[1].params["x"] = Parameter("a b"); }, "the value 'a b'");
  refuse([](Graph& g) { g.operators[1].params["x=y"] = Parameter("a"); }, "parameter 'x=y'");
  refuse([](Graph& g) { g.operators[1].params["@x"] = Parameter("a"); }, "parameter '@x'");
  refuse([](Graph& g) { g.operators[1].params[""] = Parameter("a"); }, "parameter ''");
  refuse([](Graph& g) { g.operators[1].attributes["x y"] = Tensor::Scalar(1.0f); }, "'x y'");
  refuse([](Graph& g) { g.operators[1].attributes["x"] = Tensor(); }, "attribute 'x'");
  refuse([](Graph& g) { g.operators[1].input_names = {"", "b"}; }, "the input name 'b'");
  refuse([](Graph& g) { g.operands[0].name = "a=b"; }, "the operand 'a=b'");
  refuse([](Graph& g) { g.operands[0].name = ""; }, "the operand ''");
  Graph broken = ManyKinds();
  broken.operators[1].inputs = {77};
  ExpectThrows([&] { PnnxParamText(broken); }, ErrorCode::kInvalidModel, "no operand of the graph");
}

TEST(Write, LeavesNothingBehindWhenItFails) {
  const TemporaryFolder folder;
  Graph graph = ManyKinds();
  EXPECT_THROW(WritePnnx(graph, folder / "m.param", folder / "no" / "m.bin"), Error);
  std::filesystem::create_directory(folder / "folder.bin");
  EXPECT_THROW(WritePnnx(graph, folder / "m.param", folder / "folder.bin"), Error);
  std::filesystem::remove(folder / "folder.bin");
  EXPECT_THROW(WritePnnx(graph, folder / "m", folder / "m"), Error);
  graph.operators[1].attributes["meta"] = Tensor::Meta(DType::kF32, {2});
  ExpectThrows([&] { WritePnnx(graph, folder / "m.param", folder / "m.bin"); },
               ErrorCode::kInvalidArgument, "attribute 'meta' has no elements");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// Without the second line: pnnx counts operands there that it has folded.
std::string BelowTheCounts(const std::string& param) {
  return param.substr(param.find('\n', param.find('\n') + 1) + 1);
}

/// Reads, writes and reads again every model in a folder of cases; returns how many there were.
int RoundTripAll(const std::filesystem::path& cases) {
  const TemporaryFolder folder;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases)) {
    const auto param = entry.path() / "model.pnnx.param";
    if (!std::filesystem::exists(param)) continue;
    SCOPED_TRACE(entry.path());
    const Graph graph = ReadPnnx(param, entry.path() / "model.pnnx.bin");
    EXPECT_EQ(BelowTheCounts(PnnxParamText(graph)), BelowTheCounts(testing::FileBytes(param)));
    WritePnnx(graph, folder / "m.param", folder / "m.bin");
    ExpectSameGraph(ReadPnnx(folder / "m.param", folder / "m.bin"), graph);
    if (::testing::Test::HasFailure()) break;
    ++count;
  }
  return count;
}

TEST(Write, RoundTripOfOurCorpus) { EXPECT_GT(RoundTripAll(TestData() / "corpus"), 0); }

TEST(Write, RoundTripOfTheSharedCorpus) {
  const auto cases = SourceTree() / ".." / "shared" / "corpus" / "cases";
  if (!std::filesystem::is_directory(cases)) {
    GTEST_SKIP() << "there is no corpus at " << cases;
  }
  EXPECT_GT(RoundTripAll(cases), 0);
}

}  // namespace
}  // namespace oort
