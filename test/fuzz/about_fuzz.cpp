// SPDX-License-Identifier: MIT
// A line as what a converted model says of itself, the bytes behind it as its tokenizer: an Error,
// or a model that tokenizes, writes chats out and runs, whatever its graph is really like.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "decoder/converted.h"
#include "decoder/decoder.h"
#include "harness.h"
#include "oort/chat_template.h"
#include "oort/kv_cache.h"
#include "oort/session.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "tokenizer/tokenizer_of.h"

namespace oort::fuzz {
namespace {

constexpr int64_t kMostElements = 1 << 16;

/// What it says is about this: a llama of two layers and 40 tokens.
const Graph& DescribedGraph() {
  static const Graph graph = BuildDecoder(*Checkpoint::Open(OORT_FUZZ_MODEL)).graph;
  return graph;
}

void UseText(const CheckpointContents& about) {
  if (about.tokenizer.kind != TokenizerSource::Kind::kNone) {
    const Tokenizer tokenizer = tokenizer::TokenizerOf(about.tokenizer);
    tokenizer.Decode(tokenizer.Encode("Hello  wörld 12"), {});
  }
  for (const NamedTemplate& source : about.templates) {
    ChatInputs inputs;
    inputs.messages = R"([{"role": "user", "content": "Hello"}])";
    ChatTemplate::Parse(source.text).Render(inputs, {.steps = 10'000, .output_bytes = 1 << 16});
  }
}

/// The graph without its description, which is always the same: it is built once.
std::shared_ptr<const RuntimeGraph> BuiltGraph(Graph graph) {
  if (graph.operators.size() != DescribedGraph().operators.size()) std::abort();
  static const auto built = RuntimeGraph::Build(std::move(graph));
  return built;
}

/// Two steps of one sequence with a cache as it says.
void UseGraph(const DecoderConfig& config, Graph graph) {
  for (const int64_t size : {config.layers, config.kv_heads, config.head_dim}) {
    if (size > kMostElements) return;
  }
  if (config.layers * config.kv_heads > kMostElements / config.head_dim) return;
  KvCache cache({config.layers, config.kv_heads, config.head_dim, KvType::kF16}, 1);
  Session session(BuiltGraph(std::move(graph)), {.threads = 1});
  const std::vector<int32_t> blocks = {0};
  for (const int32_t first : {0, 2}) {
    const SequenceSlice slice{0, 2, first, blocks};
    const SequenceBatch batch{{&slice, 1}, &cache};
    RunOptions options;
    options.state = &batch;
    session.Forward(
        {Tensor::From<int32_t>({1, 2}, Shape{2}),
         Tensor::From<int32_t>({first, first + 1}, Shape{2}), Tensor::From<int32_t>({1}, Shape{1})},
        options);
  }
}

}  // namespace

Target MakeTarget() { return {}; }

}  // namespace oort::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace oort;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), size);
  try {
    Graph graph = fuzz::DescribedGraph();
    TokenizerSource tokenizer;
    tokenizer.bytes = input.substr(std::min(line + 1, size));
    AddDescription(graph, input.substr(0, line), tokenizer);
    const auto about = TakeDescription(graph);
    if (!about) return 0;
    try {
      fuzz::UseText(*about);
    } catch (const Error&) {  // the graph can be run without
    }
    fuzz::UseGraph(about->config, std::move(graph));
    fuzz::CountWhole();
  } catch (const Error&) {
  }
  return 0;
}
