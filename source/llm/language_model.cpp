// SPDX-License-Identifier: MIT
#include "oort/language_model.h"

#include <algorithm>

#include "core/cpu_limits.h"
#include "core/guard.h"
#include "core/problems.h"
#include "decoder/converted.h"
#include "decoder/cut_weights.h"
#include "decoder/decoder.h"
#include "decoder/decoder_graph.h"
#include "decoder/encoder_decoder.h"
#include "decoder/pipeline.h"
#include "decoder/quantized_checkpoint.h"
#include "decoder/random_checkpoint.h"
#include "decoder/shard.h"
#include "llm/byte_activations.h"
#include "llm/exactness.h"
#include "llm/experts_place.h"
#include "llm/load_draft_heads.h"
#include "llm/load_on_ranks.h"
#include "llm/rank_device.h"
#include "llm/rank_group.h"
#include "llm/text_reader.h"
#include "llm/vision_tower.h"
#include "parser/adapter/adapter.h"
#include "parser/checkpoint/checkpoint.h"
#include "parser/checkpoint/contents.h"
#include "parser/checkpoint/families.h"
#include "parser/checkpoint/tokenizer_source.h"
#include "parser/huggingface/encoder_decoder.h"
#include "text/json.h"
#include "tokenizer/tokenizer_of.h"

namespace oort {
namespace {

/// Bounds what the book-keeping and the logits of a step take where no layer limits its rows. On a
/// CPU, 64 rows multiply for so long that reading the weights once for more gains nothing.
constexpr int64_t kMostDecodeRows = 512, kMostDecodeRowsOnCpu = 64;

LanguageModelInfo InfoOf(const DecoderConfig& config, size_t file_bytes,
                         const DecoderGraph& decoder) {
  LanguageModelInfo info;
  info.family = config.family;
  const Family* const family = FindFamily(config.family);  // a trace may have none
  info.vision = family != nullptr && family->vision;
  info.layers = config.layers;
  info.hidden = config.hidden;
  info.heads = config.heads;
  info.kv_heads = config.kv_heads;
  info.head_dim = config.head_dim;
  info.vocabulary = config.vocabulary;
  info.context = config.context;
  info.file_bytes = file_bytes;
  info.weight_bytes = decoder.weight_bytes;
  info.step_bytes = decoder.step_bytes;
  info.state_bytes = decoder.state.bytes();
  return info;
}

/// Of a decoder that is ready to run.
DecoderFacts FactsOf(const RuntimeGraph& graph, bool exact, int64_t short_context,
                     std::span<const std::string> attention) {
  DecoderFacts facts;
  facts.short_context = short_context;
  // A GPU may lack kernels for the model's heads.
  const bool away =
      !attention.empty() && std::ranges::all_of(attention, [&](const std::string& name) {
        return graph.DeviceOf(name) == graph.device();
      });
  if (away) facts.attention_device = graph.device();
  facts.logits_device = graph.outputs().at(kLogitsOutput).device;
  const bool on_cpu = graph.device().type == DeviceType::kCpu;
  facts.decode_rows =
      std::min(graph.BatchInvariantRows(), on_cpu ? kMostDecodeRowsOnCpu : kMostDecodeRows);
  facts.fast_decode_rows = std::min(graph.FastInvariantRows(), facts.decode_rows);
  // Kernels of a GPU for more rows read each weight once, and sum in another order.
  const bool on_gpu = facts.attention_device.type != DeviceType::kCpu;
  facts.step_rows = on_gpu && !exact ? kMostDecodeRows : facts.decode_rows;
  return facts;
}

bool IsExact(const LanguageModelInfo& info, const LanguageModelOptions& options) {
  const auto weight_bytes = static_cast<double>(info.weight_bytes);
  const bool unasked =
      options.activations.empty() && IsExactByDefault(options.device.type, weight_bytes);
  return options.exact.value_or(unasked);
}

/// How all graphs of the model are loaded, on the CPU.
LoadOptions LoadingOf(const LanguageModelOptions& options, bool exact) {
  LoadOptions load;
  load.isa = options.isa;
  load.precision = exact ? Precision::kF32 : Precision::kBF16;
  load.stop = options.stop;
  return load;
}

}  // namespace

/// A template that does not parse is an error for who uses it: the model can do without.
struct LoadedTemplate {
  std::string name, text;
  std::optional<ChatTemplate> parsed;
  std::optional<Error> problem;

  explicit LoadedTemplate(const NamedTemplate& source) : name(source.name), text(source.text) {
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
  DecoderFacts facts;
  std::shared_ptr<const RuntimeGraph> graph, draft_heads;
  std::optional<Tokenizer> tokenizer;
  std::vector<LoadedTemplate> templates;
  std::vector<int32_t> end_tokens;
  std::string special_tokens;  ///< as variables of chat templates
  bool exact = false;          ///< activations stay f32
  std::vector<std::string> adapters;
  std::unique_ptr<VisionTower> vision;  ///< null where no pictures are read
  std::unique_ptr<TextReader> reader;   ///< of an encoder-decoder
  /// What the reader is made of once the heads of this rank are known.
  struct Encoder {
    EncoderDecoderFiles files;
    Graph graph;
  };
  std::unique_ptr<Encoder> encoder;
  std::shared_ptr<RankGroup> group;     ///< null for one rank
  int64_t kv_heads = 0, kv_layers = 0;  ///< of this rank
  AxisRange text_heads;                 ///< likewise, where ranks share attention to texts
  StateShape state;

  uint64_t TakePart(DecoderGraph& decoder, const RankOptions& ranks, bool on_gpu);
  void MakeReader(const LanguageModelOptions& options);
  void Fill(const TokenizerSource& source, const std::vector<NamedTemplate>& texts,
            const std::vector<int32_t>& ends);
  RenderedChat Render(const ChatInputs& inputs, std::string_view name,
                      const ChatLimits& limits) const;
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
  if (group != nullptr && group->rank() > 0) return;  // rank 0 speaks for all
  if (source.kind != TokenizerSource::Kind::kNone) tokenizer = tokenizer::TokenizerOf(source);
  if (tokenizer) special_tokens = SpecialTokens(*tokenizer);
  for (const NamedTemplate& text : texts) templates.emplace_back(text);
  end_tokens = ends;
}

/// Leaves what this rank computes. Returns a number that ranks have in common if they share alike.
uint64_t LanguageModel::Impl::TakePart(DecoderGraph& decoder, const RankOptions& ranks,
                                       bool on_gpu) {
  uint64_t plan = 0;
  AttachWeights(decoder.graph);
  if (ranks.pipeline) {
    kv_layers = CutLayers(decoder.graph, {.rank = group->part(),
                                          .ranks = group->ranks(),
                                          .hidden = info.hidden,
                                          .vocabulary = info.vocabulary});
  } else {
    const ShardReport report = Shard(decoder.graph, {.rank = group->part(),
                                                     .ranks = group->ranks(),
                                                     .exact = ranks.exact,
                                                     .even_groups = on_gpu});
    if (report.kv_heads > 0) kv_heads = report.kv_heads;
    text_heads = report.text_heads;
    plan = report.plan;
  }
  state = StateOf(decoder.graph);
  std::erase_if(decoder.attention,
                [&](const std::string& name) { return decoder.graph.FindOperator(name) < 0; });
  // Whoever measures one rank alone asks what that one reads.
  if (!group->lone()) return plan;
  info.step_bytes = DecoderGraph(decoder.graph).step_bytes;
  info.state_bytes = state.bytes();
  return plan;
}

/// Each rank has the whole encoder, and reads every text by itself: all but the keys and values of
/// heads that are those of other ranks.
void LanguageModel::Impl::MakeReader(const LanguageModelOptions& options) {
  if (text_heads.size() > 0) TakeTextHeads(encoder->graph, text_heads);
  const RankOptions& ranks = options.ranks;
  const bool shares_processors = ranks.count > 1 && ranks.lone < 0;
  const int threads = shares_processors ? std::max(1, AvailableThreads() / ranks.count) : 0;
  reader = std::make_unique<TextReader>(encoder->files, std::move(encoder->graph),
                                        LoadingOf(options, exact), threads);
  facts.start_token = reader->config().start_token;
  facts.first_token = reader->config().forced_first;
  encoder.reset();
}

namespace {

void CheckAdapters(const std::filesystem::path& path) {
  if (LooksConverted(path)) {
    throw Error(ErrorCode::kUnsupported,
                "LoRA adapters are for a folder of Hugging Face or a GGUF, not for a .param");
  }
}

/// Of several ranks the first tells how far it is. Each has its own GPU where there are so many.
LanguageModelOptions OptionsOfRank(LanguageModelOptions options, RankGroup* group) {
  if (group == nullptr) return options;
  if (group->rank() > 0) options.progress = nullptr;
  options.device = DeviceOfRank(options, *group);
  return options;
}

/// What encoder-decoders cannot do.
void CheckEncoderDecoderOptions(const LanguageModelOptions& options) {
  const std::pair<bool, const char*> given[] = {
      {options.device.type != DeviceType::kCpu, "a GPU"},
      {!options.adapters.empty(), "a LoRA adapter"},
      {!options.weights.empty(), "rounding weights while they are loaded"},
      {!options.draft_heads.empty(), "drafting by heads"},
      {options.ranks.pipeline, "sharing layers among ranks (the pipeline split)"}};
  for (const auto& [is_given, what] : given) {
    if (is_given) throw NotOfEncoderDecoders(what);
  }
}

LanguageModelInfo InfoOf(const EncoderDecoderFiles& files, const DecoderGraph& decoder) {
  const EncoderDecoderConfig& config = files.config;
  LanguageModelInfo info;
  info.family = config.family;
  info.encodes_prompts = true;
  info.layers = config.decoder_layers;
  info.hidden = config.hidden;
  info.heads = info.kv_heads = config.heads;
  info.head_dim = config.head_dim;
  info.vocabulary = config.vocabulary;
  info.context = config.most_tokens();
  info.file_bytes = files.bytes;
  info.weight_bytes = decoder.weight_bytes;
  info.step_bytes = decoder.step_bytes;
  return info;
}

std::vector<LoraAdapter> ReadAdapters(const std::vector<AdapterFile>& files,
                                      std::vector<std::string>& names) {
  std::vector<LoraAdapter> adapters;
  for (const AdapterFile& file : files) {
    if (file.name.empty() || std::ranges::count(names, file.name) > 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "adapters need names of their own: " + Quote(file.name) + " is none");
    }
    names.push_back(file.name);
    try {
      adapters.push_back(ReadAdapter(file.path));
    } catch (const Error& error) {
      throw error.WithContext("adapter " + Quote(file.name) + ": ");
    }
  }
  return adapters;
}

}  // namespace

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;

std::shared_ptr<const LanguageModel> LanguageModel::Load(const std::filesystem::path& path,
                                                         const LanguageModelOptions& options) {
  Guarded([&] { CheckActivations(options); });
  return LoadOnRanks(options, [path, options](const std::shared_ptr<RankGroup>& group) {
    const LanguageModelOptions own = OptionsOfRank(options, group.get());
    return IsEncoderDecoder(path) ? LoadEncoderDecoder(path, own, group)
                                  : LoadRank(path, own, group);
  });
}

std::shared_ptr<const LanguageModel> LanguageModel::LoadRank(
    const std::filesystem::path& path, const LanguageModelOptions& options,
    const std::shared_ptr<RankGroup>& group) {
  return Guarded([&] {
    auto impl = std::make_unique<Impl>();
    impl->group = group;
    DecoderGraph decoder;
    // Promised weights are made of these while the graph is built.
    std::unique_ptr<Checkpoint> checkpoint, quantized;
    ConvertOptions convert;
    if (!options.adapters.empty()) CheckAdapters(path);
    if (LooksConverted(path)) {
      if (!options.weights.empty()) {
        throw Error(ErrorCode::kUnsupported,
                    "weights of a .param stay as they are: convert the model that it was made of");
      }
      ReadOptions read;
      read.stop = options.stop;
      read.progress = options.progress;
      ConvertedModel model = ReadConverted(path, read);
      decoder = DecoderGraph(std::move(model.graph));
      const CheckpointContents& about = model.about;
      impl->Fill(about.tokenizer, about.templates, about.end_tokens);
      impl->info = InfoOf(about.config, static_cast<size_t>(about.file_bytes), decoder);
    } else {
      checkpoint = Checkpoint::Open(path);
      convert.weights = options.weights;
      convert.group = options.group;
      convert.stop = options.stop;
      if (!options.weights.empty()) quantized = MakeQuantized(*checkpoint, convert);
      const std::vector<LoraAdapter> adapters = ReadAdapters(options.adapters, impl->adapters);
      for (const LoraAdapter& adapter : adapters) {
        if (adapter.is_gguf == std::filesystem::is_directory(path)) {
          throw Error(
              ErrorCode::kUnsupported,
              "the weights of a GGUF lie in another order than those of a folder of Hugging "
              "Face: an adapter must be of the same kind as its model");
        }
      }
      // Pictures are read on the CPU, and their rows put in where one rank has the whole model.
      const VisionFiles* const vision = checkpoint->vision();
      const bool reads_pictures =
          vision != nullptr && group == nullptr && options.device.type == DeviceType::kCpu;
      decoder = BuildDecoder(quantized ? *quantized : *checkpoint, adapters, reads_pictures);
      impl->Fill(checkpoint->tokenizer(), checkpoint->chat_templates(), checkpoint->end_tokens());
      impl->info = InfoOf(checkpoint->config(), checkpoint->file_bytes(), decoder);
      if (reads_pictures) {
        impl->vision = std::make_unique<VisionTower>(
            *vision, LoadingOf(options, IsExact(impl->info, options)));
        impl->info.weight_bytes += impl->vision->weight_bytes();
      }
    }
    return Finish(std::move(impl), std::move(decoder), options);
  });
}

std::shared_ptr<const LanguageModel> LanguageModel::LoadEncoderDecoder(
    const std::filesystem::path& path, LanguageModelOptions options,
    const std::shared_ptr<RankGroup>& group) {
  return Guarded([&] {
    CheckEncoderDecoderOptions(options);
    // T5 was trained in bf16, and its sums outgrow f16.
    options.exact = options.exact.value_or(true);
    auto impl = std::make_unique<Impl>();
    impl->group = group;
    impl->encoder = std::make_unique<Impl::Encoder>();
    impl->encoder->files = ReadEncoderDecoder(path);
    const EncoderDecoderFiles& files = impl->encoder->files;
    EncoderDecoderGraphs graphs = BuildEncoderDecoder(files);
    impl->encoder->graph = std::move(graphs.encoder);
    DecoderGraph decoder(std::move(graphs.decoder));
    CheckpointContents texts;
    ReadCompanions(path, texts);
    impl->Fill(texts.tokenizer, texts.templates, files.config.end_tokens);
    impl->info = InfoOf(files, decoder);
    impl->info.weight_bytes += WeightBytes(impl->encoder->graph);
    return Finish(std::move(impl), std::move(decoder), options);
  });
}

std::shared_ptr<const LanguageModel> LanguageModel::Random(std::string_view name,
                                                           std::string_view weights, int64_t group,
                                                           const LanguageModelOptions& options) {
  const auto load = [=](const std::shared_ptr<RankGroup>& ranks) {
    auto impl = std::make_unique<Impl>();
    impl->group = ranks;
    const std::unique_ptr<Checkpoint> checkpoint = MakeRandomCheckpoint(name, weights, group);
    DecoderGraph decoder = BuildDecoder(*checkpoint);
    impl->info = InfoOf(checkpoint->config(), 0, decoder);
    return Finish(std::move(impl), std::move(decoder), OptionsOfRank(options, ranks.get()));
  };
  return Guarded([&] {
    CheckActivations(options);
    return LoadOnRanks(options, load);
  });
}

std::vector<std::string_view> LanguageModel::RandomNames() { return RandomModelNames(); }

std::shared_ptr<const LanguageModel> LanguageModel::Finish(std::unique_ptr<Impl> impl,
                                                           DecoderGraph decoder,
                                                           const LanguageModelOptions& options) {
  // On a GPU logits cost nothing that picking the token would spare, and the exact mode has no
  // coarse weights.
  impl->exact = IsExact(impl->info, options);
  const bool alone = impl->group == nullptr;
  AddArgmax(decoder.graph, !impl->exact && options.device.type == DeviceType::kCpu);
  impl->info.step_bytes -= static_cast<size_t>(
      SetActivations(decoder.graph, options.activations, impl->info.vocabulary));
  impl->kv_heads = impl->info.kv_heads;
  uint64_t digest = alone ? 0 : DigestOf(decoder.graph, options);
  if (!alone && impl->encoder) digest ^= DigestOf(impl->encoder->graph, options);
  impl->state = decoder.state;
  impl->kv_layers = std::min(decoder.cache_layers, impl->info.layers);
  const bool caches_tokens = impl->kv_layers > 0;  // the model, if perhaps not this rank
  if (!alone) {
    digest ^= impl->TakePart(decoder, options.ranks, options.device.type != DeviceType::kCpu);
  }
  PlaceExperts(decoder.graph, options.device);
  LoadOptions load = LoadingOf(options, impl->exact);
  load.device = options.device;
  load.disabled_passes = {"narrow-floats"};  // what lies between its layers is f32
  load.progress = options.progress;
  if (!options.draft_heads.empty()) {
    if (!alone) {
      throw Error(ErrorCode::kUnsupported,
                  "heads guess for a model of one rank: leave them or the other ranks out");
    }
    impl->draft_heads = LoadDraftHeads(options.draft_heads, decoder.graph, impl->info, load);
  }
  try {
    impl->graph = RuntimeGraph::Build(std::move(decoder.graph), load);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || load.device.type == DeviceType::kCpu) throw;
    throw Error(ErrorCode::kOutOfMemory,
                "the weights, " + std::to_string(impl->info.weight_bytes / 1'000'000) +
                    " MB in the file, do not fit on " + load.device.ToString() + " (" +
                    error.what() + "): convert them to fewer bits (int8, int4)");
  }
  impl->facts = FactsOf(*impl->graph, impl->exact, decoder.short_context, decoder.attention);
  impl->facts.caches_tokens = caches_tokens;
  if (impl->encoder) impl->MakeReader(options);
  if (!alone) {
    impl->group->Agree(digest, SummaryOf(impl->info, options));
    ConnectGpus(impl->group->collective(), options);
  }
  return std::shared_ptr<const LanguageModel>(new LanguageModel(std::move(impl)));
}

const LanguageModelInfo& LanguageModel::info() const { return impl_->info; }
const DecoderFacts& LanguageModel::facts() const { return impl_->facts; }
const std::shared_ptr<const RuntimeGraph>& LanguageModel::graph() const { return impl_->graph; }

const std::shared_ptr<const RuntimeGraph>& LanguageModel::draft_heads() const {
  return impl_->draft_heads;
}

KvShape LanguageModel::kv_shape(KvType type) const {
  return {impl_->kv_layers, impl_->kv_heads, impl_->info.head_dim, type};
}

const StateShape& LanguageModel::state_shape() const { return impl_->state; }

int LanguageModel::rank() const { return impl_->group ? impl_->group->rank() : 0; }
int LanguageModel::ranks() const { return impl_->group ? impl_->group->ranks() : 1; }
const std::shared_ptr<RankGroup>& LanguageModel::rank_group() const { return impl_->group; }

std::string_view LanguageModel::exchange() const {
  if (impl_->group == nullptr || impl_->group->lone()) return "none";
  return impl_->group->collective().on_device() != nullptr ? "nccl" : "host";
}

void LanguageModel::Follow() const {
  if (rank() == 0) {
    throw Error(ErrorCode::kInvalidArgument, "rank 0 follows nobody: it runs an Engine");
  }
  impl_->group->Follow(shared_from_this());
}

KvType LanguageModel::default_kv() const { return impl_->exact ? KvType::kF32 : KvType::kF16; }

const std::vector<std::string>& LanguageModel::adapters() const { return impl_->adapters; }

int32_t LanguageModel::FindAdapter(std::string_view name) const {
  const auto found = std::ranges::find(impl_->adapters, name);
  return found == impl_->adapters.end() ? -1
                                        : static_cast<int32_t>(found - impl_->adapters.begin());
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

std::vector<std::string> LanguageModel::chat_template_names() const {
  std::vector<std::string> names;
  for (const LoadedTemplate& known : impl_->templates) names.push_back(known.name);
  return names;
}

std::string_view LanguageModel::ChatTemplateSource(std::string_view name) const {
  const LoadedTemplate* found = impl_->Find(name);
  return found == nullptr ? std::string_view() : found->text;
}

std::string LanguageModel::ChatTemplateProblem(std::string_view name) const {
  const LoadedTemplate* found = impl_->Find(name);
  return found != nullptr && found->problem ? found->problem->what() : "";
}

RenderedChat LanguageModel::Impl::Render(const ChatInputs& inputs, std::string_view name,
                                         const ChatLimits& limits) const {
  // As transformers picks it.
  const bool use_tools = name == "default" && !inputs.tools.empty() && Find("tool_use");
  const LoadedTemplate* found = Find(use_tools ? "tool_use" : name);
  if (found == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                templates.empty()
                    ? "the model came without a chat template: give it the whole text (--raw)"
                    : "the model has no chat template '" + std::string(name) + "'");
  }
  if (found->problem) throw Error(*found->problem);
  ChatInputs completed = inputs;
  const bool takes_parts = info.vision && (found->text.find("['type']") != std::string::npos ||
                                           found->text.find("[\"type\"]") != std::string::npos ||
                                           found->text.find(".type") != std::string::npos);
  if (takes_parts) completed.messages = ContentInParts(completed.messages);
  if (completed.special_tokens.empty()) completed.special_tokens = special_tokens;
  return found->parsed->RenderMarked(completed, limits);
}

std::string LanguageModel::FormatChat(const ChatInputs& inputs, std::string_view name,
                                      const ChatLimits& limits) const {
  return Guarded([&] { return impl_->Render(inputs, name, limits).text; });
}

std::vector<int32_t> LanguageModel::EncodeChat(
    const ChatInputs& inputs, std::string_view name, const ChatLimits& limits,
    std::span<const std::shared_ptr<const Picture>> pictures) const {
  return Guarded([&] {
    if (!pictures.empty() && !impl_->vision) throw NoPictures(*this);
    RenderedChat chat = impl_->Render(inputs, name, limits);
    if (const PictureFormat* const format = picture_format()) {
      chat = WithPictures(chat, tokenizer().Piece(format->token), *format, pictures);
    }
    return tokenizer().Encode(chat.text, {.add_special = false, .parse_special = true}, chat.user);
  });
}

std::shared_ptr<const EncodedText> LanguageModel::EncodePrompt(
    std::span<const int32_t> tokens) const {
  return Guarded([&] {
    CheckPrompt(tokens);
    const auto read = [&] { return impl_->reader->Read(tokens); };
    const bool leads = impl_->group != nullptr && rank() == 0;
    return leads ? impl_->group->Read(tokens, read) : read();
  });
}

void LanguageModel::CheckPrompt(std::span<const int32_t> tokens) const {
  if (impl_->reader) return impl_->reader->Check(tokens);
  throw Error(ErrorCode::kUnsupported, "a decoder reads its prompt itself: it has no encoder");
}

ReaderMemory LanguageModel::reader_memory() const {
  if (impl_->reader) return impl_->reader->memory();
  return impl_->vision ? impl_->vision->memory() : ReaderMemory{};
}

const PictureFormat* LanguageModel::picture_format() const {
  return impl_->vision ? &impl_->vision->format() : nullptr;
}

std::shared_ptr<const Picture> LanguageModel::EncodePicture(const PictureTiles& tiles) const {
  return Guarded([&] {
    if (!impl_->vision) throw NoPictures(*this);
    return impl_->vision->Encode(tiles);
  });
}

std::vector<int32_t> LanguageModel::EncodeChat(std::span<const ChatMessage> messages) const {
  ChatInputs inputs;
  inputs.messages = ToJson(messages);
  return EncodeChat(inputs);
}

}  // namespace oort
