// SPDX-License-Identifier: MIT
// Decoders that pnnx traced with seven tokens give the logits of transformers for other lengths, in
// steps and side by side; see test/traces/make_traces.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "decoder/traced.h"
#include "decoder/traced_tables.h"
#include "kit/count_operators.h"
#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm/expect_logits.h"
#include "oort/engine.h"
#include "oort/pnnx.h"

namespace oort {
namespace {

using testing::ExpectLogits;
using testing::ExpectThrows;

const std::filesystem::path kTraces = TestData() / "traces";

std::filesystem::path TraceFile(const std::string& name, const char* ending = ".pnnx.param") {
  return kTraces / (name + ending);
}

Graph ReadTrace(const std::string& name) {
  return ReadPnnx(TraceFile(name), TraceFile(name, ".pnnx.bin"));
}

json::Json TraceAnswer(const std::string& name) {
  return json::Parse(testing::FileBytes(TraceFile(name, ".json")), name);
}

Operator& FirstOf(Graph& graph, std::string_view type) {
  return *std::find_if(graph.operators.begin(), graph.operators.end(),
                       [&](const Operator& op) { return op.type == type; });
}

class TracedFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(TracedFamily, GivesTheLogitsOfTransformersAtAnyLength) {
  const json::Json answer = TraceAnswer(GetParam());
  const auto model = LanguageModel::Load(TraceFile(GetParam()), {.exact = true});
  const auto tokens = answer["tokens"].get<std::vector<int32_t>>();
  for (const size_t step : {tokens.size(), size_t{4}, size_t{1}}) {
    SCOPED_TRACE(step);
    ExpectLogits(model, tokens, answer["logits"], step);
  }
  const std::vector<int32_t> few(tokens.begin(), tokens.begin() + 3);
  ExpectLogits(model, few, answer["logits"], 3);
}

TEST_P(TracedFamily, KeepsSequencesApart) {
  const json::Json answer = TraceAnswer(GetParam());
  const auto model = LanguageModel::Load(TraceFile(GetParam()), {.exact = true});
  const auto tokens = answer["tokens"].get<std::vector<int32_t>>();
  const json::Json& want = answer["logits"];
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence first, second;
  const std::span<const int32_t> all(tokens);
  const StepItem begin[] = {{&first, all.subspan(0, 5), StepItem::kNone},
                            {&second, all.subspan(0, 2), StepItem::kLast}};
  testing::ExpectRows(runner.Step(begin), want, 1, 1);
  const StepItem next[] = {{&second, all.subspan(2, 3), StepItem::kAll},
                           {&first, all.subspan(5, 1), StepItem::kNone}};
  testing::ExpectRows(runner.Step(next), want, 2, 3);
  const StepItem last{&first, all.subspan(6, 1), StepItem::kLast};
  testing::ExpectRows(runner.Step({&last, 1}), want, 6, 1);
}

INSTANTIATE_TEST_SUITE_P(Traces, TracedFamily,
                         ::testing::Values("llama_eager", "llama_sdpa", "qwen2_eager", "qwen2_sdpa",
                                           "mistral_eager", "mistral_sdpa", "qwen3", "phi3",
                                           "olmo2", "gemma2", "gpt_neox", "gptj", "gpt2_eager",
                                           "gpt2_sdpa"),
                         [](const auto& item) { return std::string(item.param); });

TEST(TracedDecoder, HasACacheWhereTheTraceHadMasksAndTables) {
  const Graph traced = ReadTrace("llama_eager");
  EXPECT_EQ(testing::CountOperators(traced, "pnnx.Input"), 1);
  EXPECT_EQ(testing::CountOperators(traced, "pnnx.Attribute"), 3);
  EXPECT_EQ(testing::CountOperators(traced, "F.scaled_dot_product_attention"), 2);
  const TracedDecoder decoder = MakeDecoder(traced);
  const Graph& graph = decoder.graph;
  EXPECT_TRUE(graph.Check().empty());
  const std::map<std::string, size_t> expected = {{"pnnx.Input", 3},
                                                  {"oort.QuantizedEmbedding", 1},
                                                  {"oort.RotaryAngles", 1},
                                                  {"nn.RMSNorm", 5},
                                                  {"oort.QuantizedLinear", 15},
                                                  {"oort.Rotary", 2},
                                                  {"oort.PagedAttention", 2},
                                                  {"F.silu", 2},
                                                  {"pnnx.Expression", 6},
                                                  {"torch.index_select", 1},
                                                  {"pnnx.Output", 1}};
  std::map<std::string, size_t> got;
  for (const Operator& op : graph.operators) ++got[op.type];
  EXPECT_EQ(got, expected);
  // Rows are chosen before the last norm.
  const int chosen = graph.operators[static_cast<size_t>(graph.FindOperator("wanted"))].outputs[0];
  const auto& readers = graph.operands[static_cast<size_t>(chosen)].consumers;
  ASSERT_EQ(readers.size(), 1u);
  EXPECT_EQ(graph.operators[static_cast<size_t>(readers[0])].type, "nn.RMSNorm");
  EXPECT_EQ(decoder.layers, 2);
  EXPECT_EQ(decoder.heads, 4);
  EXPECT_EQ(decoder.kv_heads, 2);
  EXPECT_EQ(decoder.head_dim, 8);
  EXPECT_EQ(decoder.vocabulary, 40);
  EXPECT_EQ(decoder.positions, 0);
  EXPECT_FALSE(decoder.has_window);
}

TEST(TracedDecoder, FindsFrequenciesAndMagnitude) {
  Graph graph = MakeDecoder(ReadTrace("llama_sdpa")).graph;
  const Tensor& frequencies = FirstOf(graph, "oort.RotaryAngles").attributes.at("frequencies");
  ASSERT_EQ(frequencies.elements(), 4);
  for (size_t i = 0; i < 4; ++i) {
    const double expected = std::pow(10000.0, -static_cast<double>(i) / 4);
    EXPECT_NEAR(frequencies.span<float>()[i], expected, 1e-7 * expected);
  }
  graph = MakeDecoder(ReadTrace("qwen2_sdpa")).graph;
  // 0.1 ln(factor) + 1, as yarn has it.
  EXPECT_NEAR(FirstOf(graph, "oort.RotaryAngles").params.at("magnitude").value().AsFloat(),
              0.1 * std::log(2.0) + 1, 1e-6);
}

TEST(TracedDecoder, SeesWindowsAndInterleavedPairs) {
  Graph mistral = MakeDecoder(ReadTrace("mistral_sdpa")).graph;
  EXPECT_EQ(FirstOf(mistral, "oort.PagedAttention").params.at("window").text(), "5");
  Graph gptj = MakeDecoder(ReadTrace("gptj")).graph;
  EXPECT_EQ(FirstOf(gptj, "oort.Rotary").params.at("interleaved").text(), "True");
  EXPECT_EQ(FirstOf(gptj, "oort.Rotary").params.at("head_dim").text(), "8");
  EXPECT_EQ(FirstOf(gptj, "oort.RotaryAngles").attributes.at("frequencies").elements(), 2);
}

TEST(TracedDecoder, GeneratesText) {
  const auto model = LanguageModel::Load(TraceFile("llama_sdpa"), {.exact = true});
  Engine engine(model);
  GenerateRequest request;
  request.prompt = {3, 17};
  request.max_tokens = 20;
  request.ignore_end = true;
  request.sampling.temperature = 0;
  const std::vector<int32_t> made = engine.Generate(request).tokens;
  ASSERT_EQ(made.size(), 20u);
  std::vector<int32_t> all = request.prompt;
  all.insert(all.end(), made.begin(), made.end());
  DecoderRunner runner(model, KvType::kF32, 64, 1);
  CachedSequence sequence;
  const StepItem item{&sequence, all, StepItem::kAll};
  const std::span<const float> logits = runner.Step({&item, 1});
  for (size_t i = 0; i < made.size(); ++i) {
    const auto row = logits.subspan((i + 1) * 40, 40);
    EXPECT_GE(row[static_cast<size_t>(made[i])] + 2e-3f, *std::max_element(row.begin(), row.end()));
  }
}

TEST(TracedDecoder, ReadsWhatLiesBesideIt) {
  const testing::TemporaryFolder folder;
  for (const char* ending : {".pnnx.param", ".pnnx.bin"}) {
    std::filesystem::copy_file(TraceFile("llama_sdpa", ending),
                               folder / ("m" + std::string(ending)));
  }
  const auto load = [&] { return LanguageModel::Load(folder / "m.pnnx.param"); };
  EXPECT_EQ(load()->info().family, "traced");
  EXPECT_FALSE(load()->has_tokenizer());
  testing::WriteFile(folder / "config.json",
                     R"({"model_type": "tiny", "max_position_embeddings": 64, "eos_token_id": 2})");
  EXPECT_EQ(load()->info().family, "tiny");
  EXPECT_EQ(load()->info().context, 64);
  EXPECT_TRUE(load()->IsEnd(2));
  // The trace was too short to show this window: no sequence may be longer.
  testing::WriteFile(folder / "config.json",
                     R"({"max_position_embeddings": 64, "sliding_window": 9})");
  EXPECT_EQ(load()->info().context, 9);
}

TEST(TracedDecoder, IsNoLongerThanItsTableOfPositions) {
  const auto model = LanguageModel::Load(TraceFile("gpt2_sdpa"));
  EXPECT_EQ(model->info().context, 7);
  Engine engine(model);
  GenerateRequest request;
  request.prompt = std::vector<int32_t>(8, 3);
  ExpectThrows([&] { engine.Generate(request); }, ErrorCode::kLimit, "7");
}

void ExpectRefused(const Graph& graph, std::string_view why) {
  ExpectThrows([&] { MakeDecoder(graph); }, ErrorCode::kUnsupported, why);
}

Tensor& MaskIn(Graph& graph) {
  for (Operator& op : graph.operators) {
    if (op.name.find("attention_mask") != std::string::npos) return op.attributes.at("data");
  }
  throw std::runtime_error("no mask");
}

TEST(TracedDecoder, RefusesMasksThatAreNotCausal) {
  Graph graph = ReadTrace("llama_eager");
  Tensor mask = Tensor::From(MaskIn(graph).span<float>(), MaskIn(graph).shape());
  mask.data<float>()[2 * 7 + 4] = 0;
  MaskIn(graph) = mask;
  ExpectRefused(graph, "(F.scaled_dot_product_attention, line ");
  ExpectRefused(graph, "the mask is not causal: it lets token 2 see token 4");
  mask.data<float>()[2 * 7 + 4] = -0.5f;
  ExpectRefused(graph, "neither hides it nor leaves it");
}

TEST(TracedDecoder, RefusesEncoders) {
  ExpectRefused(ReadTrace("bert"), "this is an encoder and no causal decoder");
  Graph graph = ReadTrace("llama_sdpa");
  for (Operator& op : graph.operators) {
    if (op.type != "F.scaled_dot_product_attention") continue;
    op.inputs.resize(3);
    op.input_names.resize(3);
  }
  ExpectRefused(graph, "this is an encoder and no causal decoder");
  FirstOf(graph, "F.scaled_dot_product_attention").params["is_causal"] = Parameter("True");
  ExpectRefused(graph, "this is an encoder and no causal decoder");  // the second one
  graph = ReadTrace("gpt2_eager");
  for (Operator& op : graph.operators) {
    if (!op.params.contains("expr") ||
        op.params["expr"].text().find("0.35355") == std::string::npos) {
      continue;
    }
    op.params["expr"] = Parameter("mul(@0,0.353553385)");
  }
  ExpectRefused(graph, "this is an encoder and no causal decoder");
}

TEST(TracedDecoder, ReadsScoresInAnyOrderOfScaleAndMask) {
  for (const char* text : {"add(@1,mul(0.25,@0))", "div(add(@0,@1),4.0)", "add(div(@0,4),@1)"}) {
    Graph graph = ReadTrace("gpt2_eager");
    for (Operator& op : graph.operators) {
      const auto expr = op.params.find("expr");
      if (expr == op.params.end() || expr->second.text().find("0.3535") == std::string::npos) {
        continue;
      }
      expr->second = Parameter(text);
    }
    Graph decoder = MakeDecoder(graph).graph;
    EXPECT_EQ(FirstOf(decoder, "oort.PagedAttention").params.at("scale").value().AsFloat(), 0.25)
        << text;
  }
}

TEST(TracedDecoder, TakesTheFlagForAMask) {
  Graph graph = ReadTrace("llama_sdpa");
  for (Operator& op : graph.operators) {
    if (op.type != "F.scaled_dot_product_attention") continue;
    op.inputs.resize(3);
    op.input_names.resize(3);
    op.params["is_causal"] = Parameter("True");
  }
  EXPECT_EQ(MakeDecoder(graph).layers, 2);
}

/// The graph after one operator has become `type` with these parameters and an output like this.
Graph WithOperator(std::string_view old_type, const char* type,
                   std::map<std::string, Parameter> params, const Shape& shape) {
  Graph graph = ReadTrace("llama_eager");
  Operator& op = FirstOf(graph, old_type);
  op.type = type;
  op.params = std::move(params);
  graph.operands[static_cast<size_t>(op.outputs[0])].shape = shape;
  return graph;
}

TEST(TracedDecoder, RefusesWhatDependsOnTheTracedLength) {
  ExpectRefused(WithOperator("Tensor.reshape", "Tensor.reshape", {}, Shape{1, 4, 7, 8}),
                "so it depends on the traced length");
  ExpectRefused(WithOperator("F.silu", "torch.flip", {}, Shape{1, 7, 24}), "(torch.flip, line ");
  ExpectRefused(WithOperator("F.silu", "torch.cumsum", {{"dim", Parameter("1")}}, Shape{1, 7, 24}),
                "it is not known to treat each token alone");
  ExpectRefused(
      WithOperator("F.silu", "Tensor.slice", {{"dim", Parameter("1")}, {"start", Parameter("-1")}},
                   Shape{1, 1, 24}),
      "it takes some of the tokens");
  ExpectRefused(
      WithOperator("F.silu", "torch.mean",
                   {{"dim", Parameter("(1)")}, {"keepdim", Parameter("True")}}, Shape{1, 1, 24}),
      "it reduces another axis than the last");
  ExpectRefused(WithOperator("F.silu", "F.softmax", {{"dim", Parameter("1")}}, Shape{1, 7, 24}),
                "it is no softmax over the scores of an attention");
}

TEST(TracedDecoder, RefusesTablesThatAreNoRotationsBeyondTheirLength) {
  Graph graph = ReadTrace("llama_eager");
  for (Operator& op : graph.operators) {
    if (op.name.find("_cos") == std::string::npos) continue;
    Tensor& table = op.attributes.at("data");
    table = Tensor::From(table.span<float>(), table.shape());
    table.data<float>()[3 * 8 + 1] += 0.01f;
  }
  // Still right, but only for the positions that the trace had.
  const TracedDecoder decoder = MakeDecoder(graph);
  EXPECT_EQ(decoder.positions, 7);
  EXPECT_EQ(testing::CountOperators(decoder.graph, "oort.Rotary"), 0);
}

TEST(TracedDecoder, RefusesOtherInputsAndOutputs) {
  Graph graph = ReadTrace("llama_eager");
  FirstOf(graph, "pnnx.Input").type = "pnnx.Attribute";
  ExpectRefused(graph, "one input, the tokens; this graph has 0");
  graph = ReadTrace("llama_eager");
  const int input = FirstOf(graph, "pnnx.Input").outputs[0];
  graph.operands[static_cast<size_t>(input)].shape = Shape{2, 7};
  ExpectRefused(graph, "tokens (1,T) of one sequence were expected, got (2,7)");
  graph.operands[static_cast<size_t>(input)].has_shape = false;
  ExpectRefused(graph, "is not in the file");
}

Tensor MaskOfRows(const std::vector<std::string>& rows) {
  const auto size = static_cast<int64_t>(rows.size());
  Tensor mask(DType::kF32, Shape{1, 1, size, size});
  float* out = mask.data<float>();
  for (const std::string& row : rows) {
    for (const char letter : row) *out++ = letter == 'x' ? 0.0f : -INFINITY;
  }
  return mask;
}

TEST(CausalWindow, CountsTheTokensThatAreSeen) {
  EXPECT_EQ(CausalWindow(MaskOfRows({"x..", "xx.", "xxx"}), 3), 0);
  EXPECT_EQ(CausalWindow(MaskOfRows({"x...", "xx..", ".xx.", "..xx"}), 4), 2);
  EXPECT_EQ(CausalWindow(MaskOfRows({"x...", ".x..", "..x.", "...x"}), 4), 1);
  const std::vector<std::vector<std::string>> others = {
      {"x..", "xx.", "x.x"}, {"xx.", "xx.", "xxx"}, {"...", "xx.", "xxx"},
      {"x..", "x..", "xxx"}, {"x..", ".x.", ".xx"}, {"x..", "xx.", "..x"}};
  for (const auto& rows : others) {
    ExpectThrows([&] { CausalWindow(MaskOfRows(rows), 3); }, ErrorCode::kUnsupported, "the mask");
  }
  ExpectThrows(
      [] {
        CausalWindow(MaskOfRows({"x.", "xx"}), 3);
      },
      ErrorCode::kUnsupported, "expected a mask of 3 by 3 tokens");
}

}  // namespace
}  // namespace oort
