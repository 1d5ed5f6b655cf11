// SPDX-License-Identifier: MIT
#include "c_api/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "c_api/border.h"
#include "core/similar.h"

namespace oort::c_api {
namespace {

/// All of the text as a number of this type; none where it is something else, or too large.
template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return {};
  return number;
}

std::optional<bool> ParseFlag(std::string_view text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  return {};
}

std::optional<Device> ParseDevice(std::string_view text) {
  if (text == "cpu") return Device::Cpu();
  if (text == "cuda") return Device::Cuda(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return {};
  const std::optional<int> index = Parse<int>(text.substr(kPrefix.size()));
  if (!index || *index < 0) return {};
  return Device::Cuda(*index);
}

/// "17=-2.5"
std::optional<std::pair<int32_t, float>> ParseBias(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return {};
  const auto token = Parse<int32_t>(text.substr(0, equals));
  const auto number = Parse<float>(text.substr(equals + 1));
  if (!token || !number || std::isnan(*number)) return {};
  return std::pair(*token, *number);
}

std::optional<double> ParseFinite(std::string_view text) {
  const std::optional<double> number = Parse<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

bool IsOneOf(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == text) return true;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

/// What is expected of a value that does not have it; empty where it is right.
std::string Complaint(const OptionSpec& spec, std::string_view value) {
  switch (spec.kind) {
    case OptionKind::kFlag: return ParseFlag(value) ? "" : "true or false";
    case OptionKind::kInteger: {
      const auto number = Parse<int64_t>(value);
      if (number && *number >= spec.least) return "";
      return "an integer from " + std::to_string(spec.least) + " on";
    }
    case OptionKind::kUnsigned: return Parse<uint64_t>(value) ? "" : "an integer from 0 on";
    case OptionKind::kNumber: return ParseFinite(value) ? "" : "a number such as 0.5";
    case OptionKind::kChoice: {
      std::string choices = spec.choices;
      if (IsOneOf(choices, value)) return "";
      for (size_t at = 0; (at = choices.find('|', at)) != std::string::npos;) {
        choices.replace(at, 1, ", ");
      }
      return "one of " + choices;
    }
    case OptionKind::kText:
    case OptionKind::kTexts: return "";
    case OptionKind::kBiases: return ParseBias(value) ? "" : "ID=NUMBER";
    case OptionKind::kFiles: {
      const size_t equals = value.find('=');
      const bool right = equals != value.npos && equals > 0 && equals + 1 < value.size();
      return right ? "" : "NAME=PATH";
    }
    case OptionKind::kDevice: return ParseDevice(value) ? "" : "cpu, cuda or cuda:N";
    case OptionKind::kNumbers: return Parse<int32_t>(value) ? "" : "the number of a token";
  }
  return "";
}

bool IsList(OptionKind kind) {
  return kind == OptionKind::kTexts || kind == OptionKind::kBiases || kind == OptionKind::kFiles ||
         kind == OptionKind::kNumbers;
}

[[noreturn]] void ThrowUnknown(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : OptionTable()) names.emplace_back(spec.name);
  std::string message = "there is no option '" + std::string(name) + "'";
  const std::vector<std::string> near = NearestNames(name, names, 3);
  for (size_t i = 0; i < near.size(); ++i) {
    message += (i == 0 ? "; did you mean '" : i + 1 == near.size() ? "' or '" : "', '") + near[i];
  }
  throw Error(ErrorCode::kInvalidArgument, message + (near.empty() ? "" : "'?"));
}

ProgressFunction ProgressOf(const oort_options* options, std::stop_source& stop) {
  if (options == nullptr || options->on_progress == nullptr) return {};
  return [options, &stop](const Progress& progress) {
    const std::string phase(progress.phase);
    if (options->on_progress(phase.c_str(), progress.done, progress.total,
                             options->progress_user) != 0) {
      stop.request_stop();
    }
  };
}

/// Sets `target` where the option is given.
template <typename Target, typename Given>
void Assign(Target& target, const std::optional<Given>& given) {
  if (given) target = static_cast<Target>(*given);
}

void AssignSampling(SamplingOptions& sampling, const Settings& settings) {
  Assign(sampling.temperature, settings.Number("temperature"));
  Assign(sampling.top_k, settings.Integer("top_k"));
  Assign(sampling.top_p, settings.Number("top_p"));
  Assign(sampling.min_p, settings.Number("min_p"));
  Assign(sampling.repetition_penalty, settings.Number("repetition_penalty"));
  Assign(sampling.presence_penalty, settings.Number("presence_penalty"));
  Assign(sampling.frequency_penalty, settings.Number("frequency_penalty"));
  Assign(sampling.seed, settings.Unsigned("seed"));
  for (const std::string& bias : settings.Texts("logit_bias")) {
    if (const auto parsed = ParseBias(bias)) sampling.logit_bias.push_back(*parsed);
  }
}

int CountOf(const std::optional<int64_t>& given) {
  constexpr int64_t kTooMany = 1 << 20;  // the engine refuses less than that
  return given ? static_cast<int>(std::min(*given, kTooMany)) : -1;
}

}  // namespace

void SetOption(oort_options& options, std::string_view name, const char* value) {
  const auto table = OptionTable();
  const auto spec =
      std::find_if(table.begin(), table.end(), [&](const auto& s) { return s.name == name; });
  if (spec == table.end()) ThrowUnknown(name);
  if (value == nullptr) {
    options.values.erase(std::string(name));
    return;
  }
  const std::string complaint = Complaint(*spec, value);
  if (!complaint.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "option '" + std::string(name) + "' takes " + complaint + ", not '" + value + "'");
  }
  std::string text = value;
  std::vector<std::string>& values = options.values[std::string(name)];
  if (!IsList(spec->kind)) values.clear();
  values.push_back(std::move(text));
}

const std::vector<std::string>& Settings::Texts(std::string_view name) const {
  static const std::vector<std::string> none;
  if (options_ == nullptr) return none;
  const auto found = options_->values.find(name);
  return found == options_->values.end() ? none : found->second;
}

std::optional<std::string> Settings::Text(std::string_view name) const {
  const std::vector<std::string>& texts = Texts(name);
  return texts.empty() ? std::nullopt : std::optional(texts.back());
}

std::optional<bool> Settings::Flag(std::string_view name) const {
  const std::vector<std::string>& texts = Texts(name);
  return texts.empty() ? std::nullopt : ParseFlag(texts.back());
}

std::optional<int64_t> Settings::Integer(std::string_view name) const {
  const std::vector<std::string>& texts = Texts(name);
  return texts.empty() ? std::nullopt : Parse<int64_t>(texts.back());
}

std::optional<uint64_t> Settings::Unsigned(std::string_view name) const {
  const std::vector<std::string>& texts = Texts(name);
  return texts.empty() ? std::nullopt : Parse<uint64_t>(texts.back());
}

std::optional<double> Settings::Number(std::string_view name) const {
  const std::vector<std::string>& texts = Texts(name);
  return texts.empty() ? std::nullopt : ParseFinite(texts.back());
}

Device Settings::GetDevice() const {
  const std::vector<std::string>& texts = Texts("device");
  return texts.empty() ? Device::Cpu() : ParseDevice(texts.back()).value_or(Device::Cpu());
}

Isa Settings::GetIsa() const {
  const std::vector<std::string>& texts = Texts("isa");
  return texts.empty() ? DefaultIsa() : IsaOf(texts.back());
}

LoadOptions LoadOptionsOf(const oort_options* options, std::stop_source& stop) {
  const Settings settings(options);
  LoadOptions load{.isa = settings.GetIsa()};
  load.device = settings.GetDevice();
  if (const auto precision = settings.Text("precision")) load.precision = PrecisionOf(*precision);
  load.conv_algorithm = settings.Text("conv_algorithm").value_or("");
  Assign(load.verify_checksums, settings.Flag("verify_checksums"));
  Assign(load.check_traced_shapes, settings.Flag("check_traced_shapes"));
  load.disabled_passes = settings.Texts("without_pass");
  load.stop = stop.get_token();
  load.progress = ProgressOf(options, stop);
  return load;
}

namespace {

RankOptions RanksOf(const Settings& settings) {
  RankOptions ranks;
  if (const auto count = settings.Integer("ranks")) {
    ranks.count = static_cast<int>(std::min<int64_t>(*count, INT32_MAX));
  }
  const std::string split = settings.Text("split").value_or("");
  ranks.pipeline = split == "pipeline";
  ranks.exact = split.empty() ? settings.Flag("exact").value_or(false) : split == "exact";
  const std::string exchange = settings.Text("exchange").value_or("auto");
  ranks.exchange = exchange == "nccl"   ? RankOptions::Exchange::kNccl
                   : exchange == "host" ? RankOptions::Exchange::kHost
                                        : RankOptions::Exchange::kAuto;
  Assign(ranks.deadline, settings.Number("rank_deadline"));
  // With a GPU named all are on that one; with cuda alone they take GPUs in turns.
  ranks.spread = settings.Text("device").value_or("").find(':') == std::string::npos;
  return ranks;
}

}  // namespace

LanguageModelOptions ModelOptionsOf(const oort_options* options, std::stop_source& stop) {
  const Settings settings(options);
  LanguageModelOptions model{.isa = settings.GetIsa()};
  model.device = settings.GetDevice();
  model.exact = settings.Flag("exact");
  model.weights = settings.Text("weights").value_or("");
  model.activations = settings.Text("activations").value_or("");
  Assign(model.group, settings.Integer("group"));
  model.draft_heads = settings.Text("draft_heads").value_or("");
  for (const std::string& adapter : settings.Texts("load_adapter")) {
    const size_t equals = adapter.find('=');
    model.adapters.push_back({adapter.substr(0, equals), adapter.substr(equals + 1)});
  }
  model.ranks = RanksOf(settings);
  model.stop = stop.get_token();
  model.progress = ProgressOf(options, stop);
  return model;
}

SessionOptions SessionOptionsOf(const oort_options* options) {
  const Settings settings(options);
  SessionOptions session;
  if (const auto threads = settings.Integer("threads")) {
    session.threads = static_cast<int>(std::min<int64_t>(*threads, INT32_MAX));
  }
  Assign(session.memory_limit, settings.Integer("memory_limit"));
  Assign(session.record_graphs, settings.Flag("record_graphs"));
  return session;
}

namespace {

DraftOptions DraftOf(const oort_options* options) {
  const Settings settings(options);
  DraftOptions draft;
  const std::string source = settings.Text("draft").value_or("none");
  const std::optional<std::string> path = settings.Text("draft_model");
  Assign(draft.tokens, settings.Integer("draft_tokens"));
  if (source == "ngram") draft.source = DraftOptions::kNgram;
  if (source == "heads") draft.source = DraftOptions::kHeads;
  if (source != "model") return draft;
  if (!path) {
    throw Error(ErrorCode::kInvalidArgument, "draft=model needs option draft_model, a path");
  }
  std::stop_source stop;
  LanguageModelOptions load = ModelOptionsOf(options, stop);
  // These are of the main model: its adapters do not fit a smaller one.
  const LanguageModelOptions defaults;
  load.adapters.clear();
  load.weights = defaults.weights;
  load.activations = defaults.activations;
  load.group = defaults.group;
  load.draft_heads.clear();
  load.ranks = defaults.ranks;
  draft.source = DraftOptions::kModel;
  draft.model = LanguageModel::Load(*path, load);
  return draft;
}

}  // namespace

EngineLoopOptions EngineOptionsOf(const oort_options* options) {
  const Settings settings(options);
  EngineLoopOptions loop;
  EngineOptions& engine = loop.engine;
  engine.threads = SessionOptionsOf(options).threads;
  if (const auto kv = settings.Text("kv")) engine.kv = KvTypeOf(*kv);
  Assign(engine.cache_tokens, settings.Integer("cache_tokens"));
  Assign(engine.prompt_chunk, settings.Integer("prompt_chunk"));
  Assign(engine.step_tokens, settings.Integer("step_tokens"));
  Assign(engine.step_seconds, settings.Number("step_seconds"));
  Assign(engine.memory_limit, settings.Integer("memory_limit"));
  Assign(engine.most_running, settings.Integer("most_running"));
  engine.reserve_cache = settings.Flag("reserve_cache");
  if (const auto bytes = settings.Integer("swap_bytes"))
    engine.swap_bytes = static_cast<size_t>(*bytes);
  engine.reuse_prefixes = settings.Flag("reuse_prefixes");
  Assign(engine.deterministic, settings.Flag("deterministic"));
  engine.draft = DraftOf(options);
  Assign(loop.most_waiting, settings.Integer("most_waiting"));
  Assign(loop.most_waiting_tokens, settings.Integer("most_waiting_tokens"));
  return loop;
}

GenerateRequest RequestOf(const oort_options* options) {
  const Settings settings(options);
  GenerateRequest request;
  Assign(request.max_tokens, settings.Integer("max_tokens"));
  Assign(request.min_tokens, settings.Integer("min_tokens"));
  AssignSampling(request.sampling, settings);
  request.sampling.top_logprobs = CountOf(settings.Integer("top_logprobs"));
  request.prompt_logprobs = CountOf(settings.Integer("prompt_logprobs"));
  request.stops = settings.Texts("stop");
  for (const std::string& token : settings.Texts("stop_token")) {
    if (const auto number = Parse<int32_t>(token)) request.stop_tokens.push_back(*number);
  }
  Assign(request.ignore_end, settings.Flag("ignore_end"));
  Assign(request.n, settings.Integer("n"));
  Assign(request.best_of, settings.Integer("best_of"));
  Assign(request.beams.width, settings.Integer("beams"));
  Assign(request.beams.length_penalty, settings.Number("length_penalty"));
  const std::string early = settings.Text("early_stopping").value_or("no");
  request.beams.stop = early == "yes"     ? BeamOptions::kEarly
                       : early == "never" ? BeamOptions::kImpossible
                                          : BeamOptions::kUnlikely;
  Assign(request.draft_tokens, settings.Integer("most_draft_tokens"));
  request.adapter = settings.Text("adapter").value_or("");
  if (const auto priority = settings.Integer("priority")) {
    request.priority = static_cast<int>(std::min<int64_t>(*priority, INT32_MAX));
  }
  Assign(request.caller, settings.Unsigned("caller"));
  request.cache_salt = settings.Text("cache_salt").value_or("");
  if (const auto seconds = settings.Number("deadline_seconds")) {
    constexpr double kMost = 1e9;  // decades: the clock's type holds no more than 292 years
    const std::chrono::duration<double> rest(std::clamp(*seconds, 0.0, kMost));
    request.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(rest);
  }
  return request;
}

std::optional<GrammarSpec> GrammarOf(const oort_options* options) {
  const Settings settings(options);
  std::vector<GrammarSpec> specs;
  if (settings.Flag("json_object").value_or(false)) specs.push_back(GrammarSpec::JsonObject());
  if (const auto text = settings.Text("json_schema"))
    specs.push_back(GrammarSpec::JsonSchema(*text));
  if (const auto text = settings.Text("grammar")) specs.push_back(GrammarSpec::Gbnf(*text));
  if (const auto text = settings.Text("regex")) specs.push_back(GrammarSpec::Regex(*text));
  if (!settings.Texts("choice").empty())
    specs.push_back(GrammarSpec::Choice(settings.Texts("choice")));
  if (specs.size() > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "an answer is held to one of json_object, json_schema, grammar, regex and choice, "
                "not to several");
  }
  return specs.empty() ? std::nullopt : std::optional(std::move(specs.front()));
}

}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::Need;

oort_options* oort_options_new(void) {
  return oort::c_api::Quietly(static_cast<oort_options*>(nullptr), [] { return new oort_options; });
}

oort_code oort_options_set(oort_options* options, const char* name, const char* value,
                           oort_error** error) {
  return AtBorder(error, [&] {
    Need(options, "options");
    Need(name, "name");
    oort::c_api::SetOption(*options, name, value);
  });
}

oort_code oort_options_on_progress(oort_options* options, oort_on_progress on_progress, void* user,
                                   oort_error** error) {
  return AtBorder(error, [&] {
    Need(options, "options");
    options->on_progress = on_progress;
    options->progress_user = user;
  });
}

void oort_options_free(oort_options* options) { delete options; }
