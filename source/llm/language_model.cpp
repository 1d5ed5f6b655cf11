// SPDX-License-Identifier: MIT
#include "oort/language_model.h"

#include <algorithm>
#include <set>

#include "core/guard.h"
#include "llm/tokenizer/tokenizer_of.h"
#include "models/decoder/converted.h"
#include "models/decoder/decoder.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/json/json.h"

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
  std::set<const std::byte*> seen;  // a head may be the embeddings
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) {
      if (op.type != "oort.CompactEmbedding") info.step_bytes += tensor.bytes();
      if (!seen.insert(tensor.raw()).second) continue;
      info.weight_bytes += tensor.bytes();
    }
  }
  return info;
}

}  // namespace

struct LanguageModel::Impl {
  LanguageModelInfo info;
  std::shared_ptr<const RuntimeGraph> graph;
  std::optional<Tokenizer> tokenizer;
  std::vector<std::pair<std::string, ChatTemplate>> templates;
  std::vector<int32_t> end_tokens;
  std::string special_tokens;  ///< as variables of chat templates

  void Fill(const TokenizerSource& source, const std::vector<NamedTemplate>& texts,
            const std::vector<int32_t>& ends);
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
  if (source.kind != TokenizerSource::Kind::kNone) tokenizer = llm::TokenizerOf(source);
  if (tokenizer) special_tokens = SpecialTokens(*tokenizer);
  for (const NamedTemplate& text : texts) {
    templates.emplace_back(text.name, ChatTemplate::Parse(text.text));
  }
  end_tokens = ends;
}

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;

std::shared_ptr<const LanguageModel> LanguageModel::Load(const std::filesystem::path& path,
                                                         const LanguageModelOptions& options) {
  return Guarded([&] {
    auto impl = std::make_unique<Impl>();
    Graph graph;
    if (LooksConverted(path)) {
      ReadOptions read;
      read.stop = options.stop;
      read.progress = options.progress;
      ConvertedModel model = ReadConverted(path, read);
      graph = std::move(model.graph);
      const CheckpointContents& about = model.about;
      impl->Fill(about.tokenizer, about.templates, about.end_tokens);
      impl->info = InfoOf(about.config, static_cast<size_t>(about.file_bytes), graph);
    } else {
      const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::Open(path);
      graph = BuildDecoder(*checkpoint);
      impl->Fill(checkpoint->tokenizer(), checkpoint->chat_templates(), checkpoint->end_tokens());
      impl->info = InfoOf(checkpoint->config(), checkpoint->file_bytes(), graph);
    }
    LoadOptions load;
    load.isa = options.isa;
    load.precision = options.exact ? Precision::kF32 : Precision::kBF16;
    load.stop = options.stop;
    load.progress = options.progress;
    impl->graph = RuntimeGraph::Build(std::move(graph), load);
    return std::shared_ptr<const LanguageModel>(new LanguageModel(std::move(impl)));
  });
}

const LanguageModelInfo& LanguageModel::info() const { return impl_->info; }
const std::shared_ptr<const RuntimeGraph>& LanguageModel::graph() const { return impl_->graph; }

KvShape LanguageModel::kv_shape(KvType type) const {
  return {impl_->info.layers, impl_->info.kv_heads, impl_->info.head_dim, type};
}

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

std::string LanguageModel::FormatChat(const ChatInputs& inputs, std::string_view name) const {
  return Guarded([&] {
    const auto has = [&](std::string_view wanted) {
      return std::any_of(impl_->templates.begin(), impl_->templates.end(),
                         [&](const auto& known) { return known.first == wanted; });
    };
    // As transformers picks it.
    const std::string_view picked =
        name == "default" && !inputs.tools.empty() && has("tool_use") ? "tool_use" : name;
    for (const auto& [known, chat] : impl_->templates) {
      if (known != picked) continue;
      ChatInputs completed = inputs;
      if (completed.special_tokens.empty()) completed.special_tokens = impl_->special_tokens;
      return chat.Render(completed);
    }
    throw Error(ErrorCode::kUnsupported,
                impl_->templates.empty()
                    ? "the model came without a chat template: give it the whole text (--raw)"
                    : "the model has no chat template '" + std::string(name) + "'");
  });
}

std::vector<int32_t> LanguageModel::EncodeChat(std::span<const ChatMessage> messages) const {
  ChatInputs inputs;
  inputs.messages = ToJson(messages);
  return tokenizer().Encode(FormatChat(inputs), {.add_special = false, .parse_special = true});
}

}  // namespace oort
