// SPDX-License-Identifier: MIT
#include "oort/language_model.h"

#include <algorithm>
#include <set>

#include "core/guard.h"
#include "decoder/converted.h"
#include "decoder/decoder.h"
#include "decoder/quantized_checkpoint.h"
#include "decoder/random_checkpoint.h"
#include "llm/exactness.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "text/json.h"
#include "tokenizer/tokenizer_of.h"

namespace oort {
namespace {

LanguageModelInfo InfoOf(const DecoderConfig& config, size_t file_bytes, const Graph& graph) {
  LanguageModelInfo info;
  info.family = config.family;
  info.layers = config.layers;
  info.hidden = config.hidden;
  info.heads = config.heads;
  info.kv_heads = config.kv_heads;
  info.head_dim = config.head_dim;
  info.vocabulary = config.vocabulary;
  info.context = config.context;
  info.file_bytes = file_bytes;
  std::set<const Buffer*> seen;  // a head may be the embeddings
  for (const Operator& op : graph.operators) {
    const auto original = op.params.find("original_context");
    if (op.type == "oort.RotaryAngles" && original != op.params.end()) {
      info.short_context = original->second.value().AsInt();
    }
    for (const auto& [name, tensor] : op.attributes) {
      if (op.type != "oort.QuantizedEmbedding") info.step_bytes += tensor.bytes();
      if (!seen.insert(tensor.buffer().get()).second) continue;
      info.weight_bytes += tensor.bytes();
    }
  }
  return info;
}

}  // namespace

/// A template that does not parse is an error for who uses it: the model can do without.
struct LoadedTemplate {
  std::string name;
  std::optional<ChatTemplate> parsed;
  std::optional<Error> problem;

  explicit LoadedTemplate(const NamedTemplate& source) : name(source.name) {
    try {
      parsed = ChatTemplate::Parse(source.text);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kOutOfMemory) throw;
      problem = error;
    }
  }
};

struct LanguageModel::Impl {
  LanguageModelInfo info;
  std::shared_ptr<const RuntimeGraph> graph;
  std::optional<Tokenizer> tokenizer;
  std::vector<LoadedTemplate> templates;
  std::vector<int32_t> end_tokens;
  std::string special_tokens;  ///< as variables of chat templates
  bool exact = false;          ///< activations stay f32

  void Fill(const TokenizerSource& source, const std::vector<NamedTemplate>& texts,
            const std::vector<int32_t>& ends);
  const LoadedTemplate* Find(std::string_view name) const {
    const auto found =
        std::find_if(templates.begin(), templates.end(),
                     [&](const LoadedTemplate& known) { return known.name == name; });
    return found == templates.end() ? nullptr : &*found;
  }
};

namespace {

/// bos_token, eos_token as the vocabulary spells them.
std::string SpecialTokens(const Tokenizer& tokenizer) {
  json::Json variables = json::Json::object();
  if (tokenizer.bos()) variables["bos_token"] = std::string(tokenizer.Piece(*tokenizer.bos()));
  if (tokenizer.eos()) variables["eos_token"] = std::string(tokenizer.Piece(*tokenizer.eos()));
  return variables.dump(-1, ' ', false, json::Json::error_handler_t::replace);
}

}  // namespace

void LanguageModel::Impl::Fill(const TokenizerSource& source,
                               const std::vector<NamedTemplate>& texts,
                               const std::vector<int32_t>& ends) {
  if (source.kind != TokenizerSource::Kind::kNone) tokenizer = tokenizer::TokenizerOf(source);
  if (tokenizer) special_tokens = SpecialTokens(*tokenizer);
  for (const NamedTemplate& text : texts) templates.emplace_back(text);
  end_tokens = ends;
}

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;

std::shared_ptr<const LanguageModel> LanguageModel::Load(const std::filesystem::path& path,
                                                         const LanguageModelOptions& options) {
  return Guarded([&] {
    auto impl = std::make_unique<Impl>();
    Graph graph;
    // Promised weights are made of these while the graph is built.
    std::unique_ptr<Checkpoint> checkpoint, quantized;
    ConvertOptions convert;
    if (LooksConverted(path)) {
      if (!options.weights.empty()) {
        throw Error(ErrorCode::kUnsupported,
                    "weights of a .param stay as they are: convert the model that it was made of");
      }
      ReadOptions read;
      read.stop = options.stop;
      read.progress = options.progress;
      ConvertedModel model = ReadConverted(path, read);
      graph = std::move(model.graph);
      const CheckpointContents& about = model.about;
      impl->Fill(about.tokenizer, about.templates, about.end_tokens);
      impl->info = InfoOf(about.config, static_cast<size_t>(about.file_bytes), graph);
    } else {
      checkpoint = Checkpoint::Open(path);
      convert.weights = options.weights;
      convert.group = options.group;
      convert.stop = options.stop;
      if (!options.weights.empty()) quantized = MakeQuantized(*checkpoint, convert);
      graph = BuildDecoder(quantized ? *quantized : *checkpoint);
      impl->Fill(checkpoint->tokenizer(), checkpoint->chat_templates(), checkpoint->end_tokens());
      impl->info = InfoOf(checkpoint->config(), checkpoint->file_bytes(), graph);
    }
    return Finish(std::move(impl), std::move(graph), options);
  });
}

std::shared_ptr<const LanguageModel> LanguageModel::Random(std::string_view name,
                                                           std::string_view weights, int64_t group,
                                                           const LanguageModelOptions& options) {
  return Guarded([&] {
    auto impl = std::make_unique<Impl>();
    const std::unique_ptr<Checkpoint> checkpoint = MakeRandomCheckpoint(name, weights, group);
    Graph graph = BuildDecoder(*checkpoint);
    impl->info = InfoOf(checkpoint->config(), 0, graph);
    return Finish(std::move(impl), std::move(graph), options);
  });
}

std::vector<std::string_view> LanguageModel::RandomNames() { return RandomModelNames(); }

namespace {

/// Whether logits are nothing but products with one weight.
bool IsPlainHead(const Operator& op) {
  if (op.type != "oort.QuantizedLinear" || op.inputs.size() != 1) return false;
  const auto is_weight = [](const auto& attribute) {
    return attribute.first == "weight" || attribute.first == "scale";
  };
  const auto is_known = [](const auto& param) {
    return param.first == "in_features" || param.first == "out_features" || param.first == "format";
  };
  return std::ranges::all_of(op.attributes, is_weight) && std::ranges::all_of(op.params, is_known);
}

/// What picks the likeliest token from the logits or, where it `may_skip` them, from what they are
/// made of.
Operator ArgmaxOf(const Graph& graph, int logits, bool may_skip) {
  Operator pick;
  pick.name = "likeliest";
  pick.type = "oort.Argmax";
  pick.inputs = {logits};
  const int producer = graph.operands[static_cast<size_t>(logits)].producer;
  if (!may_skip || producer < 0) return pick;
  const Operator& head = graph.operators[static_cast<size_t>(producer)];
  if (!IsPlainHead(head)) return pick;
  pick.type = "oort.QuantizedArgmax";
  pick.inputs = head.inputs;
  pick.params = head.params;
  const std::vector<int64_t> rows = head.params.at("out_features").value().AsInts();
  pick.params["out_features"] = Parameter::FromValue(Value(rows.at(0)));
  pick.attributes = head.attributes;
  return pick;
}

/// A second output: what greedy sampling picks.
void AddArgmax(Graph& graph, bool may_skip_logits) {
  const std::vector<int> outputs = graph.OutputOperators();
  if (outputs.size() != 1 || graph.operators[static_cast<size_t>(outputs[0])].inputs.size() != 1) {
    throw Error(ErrorCode::kInvalidModel, "a language model has one output, its logits");
  }
  const int logits = graph.operators[static_cast<size_t>(outputs[0])].inputs[0];
  Operator pick = ArgmaxOf(graph, logits, may_skip_logits);
  const int tokens = graph.AddOperand("likeliest");
  pick.outputs = {tokens};
  graph.AddOperator(std::move(pick));
  Operator& output = graph.operators[static_cast<size_t>(outputs[0])];
  output.inputs.push_back(tokens);
  output.input_names.resize(output.inputs.size());
  graph.operands[static_cast<size_t>(tokens)].consumers.push_back(outputs[0]);
}

}  // namespace

std::shared_ptr<const LanguageModel> LanguageModel::Finish(std::unique_ptr<Impl> impl, Graph graph,
                                                           const LanguageModelOptions& options) {
  // On a GPU logits cost nothing that picking the token would spare, and the exact mode has no
  // coarse weights.
  const auto weight_bytes = static_cast<double>(impl->info.weight_bytes);
  impl->exact = options.exact.value_or(IsExactByDefault(options.device.type, weight_bytes));
  AddArgmax(graph, !impl->exact && options.device.type == DeviceType::kCpu);
  LoadOptions load;
  load.isa = options.isa;
  load.device = options.device;
  load.precision = impl->exact ? Precision::kF32 : Precision::kBF16;
  load.disabled_passes = {"narrow-floats"};  // what lies between its layers is f32
  load.stop = options.stop;
  load.progress = options.progress;
  try {
    impl->graph = RuntimeGraph::Build(std::move(graph), load);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || load.device.type == DeviceType::kCpu) throw;
    throw Error(ErrorCode::kOutOfMemory,
                "the weights, " + std::to_string(impl->info.weight_bytes / 1'000'000) +
                    " MB in the file, do not fit on " + load.device.ToString() + " (" +
                    error.what() + "): convert them to fewer bits (int8, int4)");
  }
  return std::shared_ptr<const LanguageModel>(new LanguageModel(std::move(impl)));
}

const LanguageModelInfo& LanguageModel::info() const { return impl_->info; }
const std::shared_ptr<const RuntimeGraph>& LanguageModel::graph() const { return impl_->graph; }

KvShape LanguageModel::kv_shape(KvType type) const {
  return {impl_->info.layers, impl_->info.kv_heads, impl_->info.head_dim, type};
}

KvType LanguageModel::default_kv() const { return impl_->exact ? KvType::kF32 : KvType::kF16; }

bool LanguageModel::has_tokenizer() const { return impl_->tokenizer.has_value(); }

const Tokenizer& LanguageModel::tokenizer() const {
  if (impl_->tokenizer) return *impl_->tokenizer;
  throw Error(ErrorCode::kUnsupported,
              "the model came without a tokenizer: put its tokenizer.json "
              "(or tokenizer.model, tokenizer.bin) beside its weights");
}

std::span<const int32_t> LanguageModel::end_tokens() const { return impl_->end_tokens; }

bool LanguageModel::IsEnd(int32_t token) const {
  const auto& ends = impl_->end_tokens;
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

bool LanguageModel::has_chat_template() const { return !impl_->templates.empty(); }

std::vector<std::string> LanguageModel::chat_template_names() const {
  std::vector<std::string> names;
  for (const LoadedTemplate& known : impl_->templates) names.push_back(known.name);
  return names;
}

std::string LanguageModel::ChatTemplateProblem(std::string_view name) const {
  const LoadedTemplate* found = impl_->Find(name);
  return found != nullptr && found->problem ? found->problem->what() : "";
}

std::string LanguageModel::FormatChat(const ChatInputs& inputs, std::string_view name) const {
  return Guarded([&] {
    // As transformers picks it.
    const bool use_tools = name == "default" && !inputs.tools.empty() && impl_->Find("tool_use");
    const LoadedTemplate* found = impl_->Find(use_tools ? "tool_use" : name);
    if (found == nullptr) {
      throw Error(ErrorCode::kUnsupported,
                  impl_->templates.empty()
                      ? "the model came without a chat template: give it the whole text (--raw)"
                      : "the model has no chat template '" + std::string(name) + "'");
    }
    if (found->problem) throw *found->problem;
    ChatInputs completed = inputs;
    if (completed.special_tokens.empty()) completed.special_tokens = impl_->special_tokens;
    return found->parsed->Render(completed);
  });
}

std::vector<int32_t> LanguageModel::EncodeChat(std::span<const ChatMessage> messages) const {
  ChatInputs inputs;
  inputs.messages = ToJson(messages);
  return tokenizer().Encode(FormatChat(inputs), {.add_special = false, .parse_special = true});
}

}  // namespace oort
