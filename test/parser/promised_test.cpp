// SPDX-License-Identifier: MIT
// Tensors whose elements are made later: what they say of themselves, and who makes the elements.
#include "parser/pnnx/promised.h"

#include <gtest/gtest.h>

#include "graph/graph_builder.h"
#include "kit/errors.h"
#include "kit/exact.h"
#include "kit/files.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectThrows;

/// A promise of {1, 2, 3} and {4, 5}; counts how often it is kept.
std::vector<Tensor> TwoPromised(int& made) {
  const auto promise = std::make_shared<Promise>(2, [&made] {
    ++made;
    return std::vector<Tensor>{Tensor::From<float>({1, 2, 3}, {3}),
                               Tensor::From<float>({4, 5}, {2})};
  });
  return {PromisedBuffer::Make(DType::kF32, {3}, promise, 0),
          PromisedBuffer::Make(DType::kF32, {2}, promise, 1)};
}

TEST(Promised, IsAStateOfItsOwn) {
  int made = 0;
  const Tensor promised = TwoPromised(made)[0];
  EXPECT_EQ(promised.storage(), Storage::kPromised);
  EXPECT_TRUE(promised.defined());
  EXPECT_FALSE(promised.has_data());
  EXPECT_EQ(promised.raw(), nullptr);
  EXPECT_EQ(promised.bytes(), 12u);
  EXPECT_NE(PromisedBuffer::Of(promised), nullptr);
  EXPECT_EQ(promised.Clone().storage(), Storage::kPromised);
  EXPECT_EQ(made, 0);

  const Tensor meta = Tensor::Meta(DType::kF32, {3}), zeros = Tensor::Zeros(DType::kF32, {3});
  EXPECT_EQ(meta.storage(), Storage::kNone);
  EXPECT_EQ(zeros.storage(), Storage::kElements);
  EXPECT_TRUE(zeros.has_data());
  EXPECT_EQ(PromisedBuffer::Of(meta), nullptr);
  EXPECT_EQ(PromisedBuffer::Of(zeros), nullptr);
  // Of no elements there are as many as there should be.
  EXPECT_EQ(Tensor::Zeros(DType::kF32, {0}).storage(), Storage::kElements);
}

TEST(Promised, IsNotReadBeforeItIsKept) {
  int made = 0;
  const Tensor promised = TwoPromised(made)[0];
  ExpectThrows([&] { promised.To(DType::kF16); }, ErrorCode::kInvalidArgument, "not made yet");
  Tensor target(DType::kF32, {3});
  ExpectThrows([&] { CopyElements(promised, target); }, ErrorCode::kInvalidArgument, "copy");
  EXPECT_FALSE(Value(promised).IsConcrete());
  EXPECT_EQ(made, 0);
}

TEST(Promised, IsKeptOnceWhenAModelIsBuilt) {
  int made = 0;
  const std::vector<Tensor> promised = TwoPromised(made);
  Graph graph = GraphFromText(
      "pnnx.Attribute a 0 1 0 @data=(3)f32\n"
      "pnnx.Attribute b 0 1 1 @data=(2)f32\n"
      "pnnx.Input pnnx_input_0 0 1 2 #2=(1)f32\n"
      "pnnx.Expression sum 2 1 0 2 3 expr=add(@0,@1)\n"
      "pnnx.Expression product 2 1 1 2 4 expr=mul(@0,@1)\n"
      "pnnx.Output pnnx_output_0 2 0 3 4\n");
  graph.operators[0].attributes["data"] = promised[0];
  graph.operators[1].attributes["data"] = promised[1];
  const auto outputs =
      Session(RuntimeGraph::Build(std::move(graph))).Forward({Tensor::From<float>({10}, {1})});
  EXPECT_EQ(made, 1);
  testing::ExpectSameBytes(outputs.at(0), Tensor::From<float>({11, 12, 13}, {3}));
  testing::ExpectSameBytes(outputs.at(1), Tensor::From<float>({40, 50}, {2}));
}

TEST(Promised, IsKeptWhenAModelIsWritten) {
  int made = 0;
  const std::vector<Tensor> promised = TwoPromised(made);
  Graph graph = GraphFromText(
      "pnnx.Attribute a 0 1 0 @data=(3)f32\n"
      "pnnx.Attribute b 0 1 1 @data=(2)f32\n"
      "pnnx.Output pnnx_output_0 2 0 0 1\n");
  graph.operators[0].attributes["data"] = promised[0];
  graph.operators[1].attributes["data"] = promised[1];
  const testing::TemporaryFolder folder;
  const auto param = folder.path() / "m.param", bin = folder.path() / "m.bin";
  WritePnnx(graph, param, bin);
  EXPECT_EQ(made, 1);
  const Graph read = ReadPnnx(param, bin);
  testing::ExpectSameBytes(read.operators[0].attributes.at("data"),
                           Tensor::From<float>({1, 2, 3}, {3}));
  testing::ExpectSameBytes(read.operators[1].attributes.at("data"),
                           Tensor::From<float>({4, 5}, {2}));
}

}  // namespace
}  // namespace oort
