// SPDX-License-Identifier: MIT
// What is folded on a GPU, folded on the CPU: fewer operators, the same logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "decoder/converted.h"
#include "decoder/decoder.h"
#include "graph/passes/passes.h"
#include "kit/count_operators.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "oort/kv_cache.h"
#include "oort/language_model.h"
#include "oort/testing.h"
#include "parser/checkpoint/checkpoint.h"

namespace oort {
namespace {

const std::filesystem::path kFoldedModels = TestData() / "checkpoints";

PassContext OnGpu() {
  PassContext context;
  context.on_gpu = true;
  return context;
}

/// Logits of some tokens, the first four at once, then one by one.
std::vector<Tensor> LogitsOf(const Graph& graph, const DecoderConfig& config) {
  LoadOptions options;
  options.keep_weights = true;
  Session session(RuntimeGraph::Build(graph, options), {.threads = 1});
  KvCache cache({config.layers, config.kv_heads, config.head_dim, KvType::kF32}, 2);
  const std::vector<int32_t> blocks = {0, 1};
  std::vector<Tensor> logits;
  for (int32_t position = 0; position < 8;) {
    const int32_t count = position == 0 ? 4 : 1;
    std::vector<int32_t> tokens, positions;
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back((7 * (position + i) + 3) % static_cast<int32_t>(config.vocabulary));
      positions.push_back(position + i);
    }
    const auto row = [](std::vector<int32_t>& values) {
      return Tensor::Borrow(values.data(), Shape{static_cast<int64_t>(values.size())});
    };
    std::vector<int32_t> wanted = {count - 1};
    const std::array<SequenceSlice, 1> slices = {{{0, count, position, blocks}}};
    const SequenceBatch batch{slices, &cache};
    RunOptions run;
    run.state = &batch;
    logits.push_back(session.Forward({row(tokens), row(positions), row(wanted)}, run)[0]);
    position += count;
  }
  return logits;
}

void ExpectFolded(const Graph& plain, const DecoderConfig& config, int64_t norms_left,
                  int64_t rotaries_left) {
  Graph folded = plain;
  FuseRmsNorm(folded, OnGpu());
  FuseRotary(folded, OnGpu());
  EXPECT_EQ(testing::CountOperators(folded, "nn.RMSNorm"), norms_left);
  EXPECT_EQ(testing::CountOperators(folded, "oort.Rotary"), rotaries_left);
  const std::vector<Tensor> want = LogitsOf(plain, config);
  const std::vector<Tensor> got = LogitsOf(folded, config);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) testing::ExpectNear(got[i], want[i], {1e-5, 1e-5});
}

void ExpectFolded(const std::string& name, int64_t norms_left, int64_t rotaries_left) {
  SCOPED_TRACE(name);
  const auto checkpoint = Checkpoint::Open(kFoldedModels / name);
  ExpectFolded(BuildDecoder(*checkpoint).graph, checkpoint->config(), norms_left, rotaries_left);
}

TEST(FusedDecoder, NormsAndRotaryGoIntoTheirReaders) {
  // The last norm stands before the head, too.
  ExpectFolded("llama", 0, 0);
  ExpectFolded("mistral.gguf", 0, 0);
}

TEST(FusedDecoder, NormsOfHeadsStay) {
  const auto checkpoint = Checkpoint::Open(kFoldedModels / "qwen3");
  ExpectFolded("qwen3", 2 * checkpoint->config().layers, 0);
}

/// A converted model whose head is the embeddings has them as named inputs of both.
TEST(FusedDecoder, AHeadThatSharesItsWeightsKeepsThem) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path param = folder.path() / "tied.pnnx.param";
  for (const char* name : {"qwen2", "gemma"}) {
    SCOPED_TRACE(name);
    ConvertLanguageModel(kFoldedModels / name, param, folder.path() / "tied.pnnx.bin");
    const ConvertedModel model = ReadConverted(param, {});
    ExpectFolded(model.graph, model.about.config, 0, 0);
  }
}

TEST(FusedDecoder, LeavesTheGraphAloneOnTheCpu) {
  const auto checkpoint = Checkpoint::Open(kFoldedModels / "llama");
  Graph graph = BuildDecoder(*checkpoint).graph;
  const size_t before = graph.operators.size();
  FuseRmsNorm(graph, {});
  FuseRotary(graph, {});
  EXPECT_EQ(graph.operators.size(), before);
}

TEST(FusedDecoder, ANormThatOthersReadStays) {
  const auto checkpoint = Checkpoint::Open(kFoldedModels / "llama");
  Graph graph = BuildDecoder(*checkpoint).graph;
  const auto norm = std::find_if(graph.operators.begin(), graph.operators.end(),
                                 [](const Operator& op) { return op.type == "nn.RMSNorm"; });
  ASSERT_NE(norm, graph.operators.end());
  Operator second;
  second.type = "pnnx.Output";
  second.name = "pnnx_output_1";
  second.inputs = norm->outputs;
  second.input_names.resize(1);
  graph.AddOperator(std::move(second));
  FuseRmsNorm(graph, OnGpu());
  EXPECT_EQ(testing::CountOperators(graph, "nn.RMSNorm"), 1);
}

}  // namespace
}  // namespace oort
