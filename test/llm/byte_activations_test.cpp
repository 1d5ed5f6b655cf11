// SPDX-License-Identifier: MIT
#include "llm/byte_activations.h"

#include <gtest/gtest.h>

#include "cuda/device.h"
#include "decoder/decoder.h"
#include "decoder/random_checkpoint.h"
#include "kit/errors.h"
#include "kit/paths.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {
namespace {

using testing::ExpectThrows;

LanguageModelOptions Asking(const std::string& activations) {
  LanguageModelOptions options;
  options.activations = activations;
  return options;
}

TEST(ByteActivations, AreForGpus) {
  for (const char* kind : {"int8", "fp8"}) {
    ExpectThrows([&] { LanguageModel::Random("smollm2-135m", "bf16", 32, Asking(kind)); },
                 ErrorCode::kUnsupported, "on a CPU the fast mode rounds them to bytes by groups");
    ExpectThrows([&] { LanguageModel::Load(TestData() / "checkpoints" / "llama", Asking(kind)); },
                 ErrorCode::kUnsupported, "on a CPU the fast mode rounds them to bytes by groups");
  }
}

TEST(ByteActivations, UnknownOnesAndTheExactModeAreRefused) {
  LanguageModelOptions options = Asking("int7");
  ExpectThrows([&] { CheckActivations(options); }, ErrorCode::kInvalidArgument,
               "int8 and fp8 are what there is");
  options = Asking("fp8");
  options.exact = true;
  options.device = Device::Cuda(0);
  ExpectThrows([&] { CheckActivations(options); }, ErrorCode::kInvalidArgument, "exact mode");
}

TEST(ByteActivations, NoneAreNothingToCheck) { CheckActivations({}); }

DecoderGraph DecoderOf(const char* weights) {
  return BuildDecoder(*MakeRandomCheckpoint("smollm2-135m", weights, 32));
}
int64_t CountOf(const Graph& graph) {
  int64_t count = 0;
  for (const Operator& op : graph.operators) {
    const auto found = op.params.find("activations");
    if (found == op.params.end()) continue;
    EXPECT_EQ(op.type, "oort.QuantizedLinear");
    EXPECT_EQ(found->second.value().AsString(), "fp8");
    ++count;
  }
  return count;
}

/// q, k and v together, what attention gives, gate and up, down; not the head.
TEST(ByteActivations, ProductsOfTheLayersHaveThem) {
  DecoderGraph decoder = DecoderOf("bf16");
  const int64_t saved = SetActivations(decoder.graph, "fp8", 49152);
  EXPECT_EQ(CountOf(decoder.graph), 30 * 4);
  // 16 bits of each weight become 8, and a scale for each row.
  const int64_t rows = 576 + 2 * 192 + 576 + 2 * 1536 + 576;
  const int64_t weights = 576 * (rows - 576) + 1536 * 576;
  EXPECT_EQ(saved, 30 * (weights - 4 * rows));
}

TEST(ByteActivations, AModelOfFourBitsHasNone) {
  DecoderGraph decoder = DecoderOf("int4");
  ExpectThrows([&] { SetActivations(decoder.graph, "fp8", 49152); }, ErrorCode::kUnsupported,
               "weights of 4 bits stay as they are");
  EXPECT_EQ(CountOf(decoder.graph), 0);
}

}  // namespace
}  // namespace oort
