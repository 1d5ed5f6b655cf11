// SPDX-License-Identifier: MIT
#include "serve/language_models.h"

#include <algorithm>
#include <utility>

#include "core/parallel.h"
#include "core/problems.h"
#include "llm/memory_needs.h"

namespace oort::serve {
namespace {

/// Of histograms of tokens: the context is not known before a model is loaded.
constexpr int64_t kMostTokens = 1 << 20;

/// The same for servers whose answers can be compared.
std::string Fingerprint(const LanguageModel& model, const EngineOptions& engine) {
  const LanguageModelInfo& info = model.info();
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const char c : info.family) add(static_cast<unsigned char>(c));
  for (const int64_t value :
       {info.layers, info.hidden, info.heads, info.kv_heads, info.vocabulary}) {
    add(static_cast<uint64_t>(value));
  }
  add(info.weight_bytes);
  add(info.file_bytes);
  add(static_cast<uint64_t>(engine.kv.value_or(model.default_kv())));
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "fp_";
  for (int shift = 44; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 15];
  return text;
}

size_t BytesOf(const LanguageModel& model, const EngineOptions& options, int64_t blocks) {
  const MemoryNeeds needs = NeedsOf(model, options);
  return needs.weights + needs.activations + static_cast<size_t>(blocks) * needs.block;
}

}  // namespace

LanguageResident::LanguageResident(LanguageSetup setup, const Services& services)
    : services_(services), loop_(setup.served.model, setup.loop) {
  services_.served = std::move(setup.served);
  services_.loop = &loop_;
  services_.most_waiting = setup.loop.most_waiting;
  openai::ServedModel& served = services_.served;
  const LanguageModel& model = *served.model;
  if (served.context == 0) served.context = model.info().context;
  // No sequence is longer than the cache.
  const int64_t blocks = loop_.stats().blocks;
  served.context = std::min(served.context, blocks * KvCache::kBlockTokens);
  if (served.fingerprint.empty()) served.fingerprint = Fingerprint(model, setup.loop.engine);
  for (const std::string& adapter : model.adapters()) {
    Services& services_of = adapters_.emplace_back(services_);
    services_of.served.name = services_of.served.adapter = adapter;
    services_of.served.aliases.clear();
    services_of.served.fingerprint += "_" + adapter;
  }
  bytes_ = BytesOf(model, setup.loop.engine, blocks);
}

LanguageResident::~LanguageResident() { services_.metrics.Retire(loop_.stats()); }

LanguageModels::Entry::Entry(LanguageSource from) : source(std::move(from)), metrics(kMostTokens) {
  facts.name = source.name;
  facts.aliases = source.aliases;
}

LanguageModels::LanguageModels(std::vector<LanguageSource> sources, bool any_name,
                               std::function<Services(Metrics&)> blank)
    : any_name_(any_name), blank_(std::move(blank)) {
  for (LanguageSource& source : sources) entries_.emplace_back(std::move(source));
}

std::vector<ModelSource> LanguageModels::Sources(bool first_stays) {
  std::vector<ModelSource> sources;
  for (Entry& entry : entries_) {
    const auto load = [this, &entry]() -> std::unique_ptr<Resident> {
      LanguageSetup setup = entry.source.load();
      setup.served.name = entry.source.name;
      setup.served.aliases = entry.source.aliases;
      // Who asks is sent to a model by its name; none has to be sent away here.
      setup.served.any_name = any_name_ || !IsOne();
      auto resident = std::make_unique<LanguageResident>(std::move(setup), blank_(entry.metrics));
      const openai::ServedModel& served = resident->services().served;
      const std::lock_guard lock(mutex_);
      entry.facts.context = served.context;
      entry.facts.file_bytes = served.model->info().file_bytes;
      entry.facts.family = served.model->info().family;
      entry.facts.fingerprint = served.fingerprint;
      entry.facts.reads_pictures = served.read_picture != nullptr;
      return resident;
    };
    sources.push_back(
        {entry.source.name, load, entry.source.guessed_bytes, first_stays && sources.empty()});
  }
  return sources;
}

std::optional<LanguageModels::Named> LanguageModels::FindName(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const LanguageSource& source = entries_[i].source;
    if (name == source.name || std::ranges::count(source.aliases, name) > 0) return Named{i};
    const auto adapter = std::ranges::find(source.adapters, name);
    if (adapter != source.adapters.end()) {
      return Named{i, static_cast<int>(adapter - source.adapters.begin())};
    }
  }
  return {};
}

LanguageModels::Named LanguageModels::Find(const openai::Json& body) const {
  openai::Fields fields(body);
  auto name = fields.Text("model");
  if (!name) return {};
  std::optional<Named> found = FindName(*name);
  if (!found && name->ends_with(":latest")) {  // Ollama's clients add it
    name->remove_suffix(7);
    found = FindName(*name);
  }
  if (found) return *found;
  if (any_name_) return {};
  throw openai::RequestError({404, "there is no model " + Quote(*name) + " here: see /v1/models",
                              "invalid_request_error", "model", "model_not_found"});
}

Services LanguageModels::Blank() {
  if (entries_.empty()) return blank_(nobodys_);
  Services services = blank_(entries_[0].metrics);
  services.served.name = entries_[0].source.name;
  services.served.aliases = entries_[0].source.aliases;
  services.served.any_name = any_name_;
  const std::lock_guard lock(mutex_);
  services.served.context = entries_[0].facts.context;
  return services;
}

std::vector<ListedModel> LanguageModels::List(const ModelPool& pool) const {
  std::vector<ListedModel> list;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < entries_.size(); ++i) {
    ListedModel model = entries_[i].facts;
    const ModelPool::Report report = pool.Look(i);
    model.state = report.state;
    model.bytes = report.bytes;
    list.push_back(model);
    model.aliases.clear();
    model.base = model.name;
    for (const std::string& adapter : entries_[i].source.adapters) {
      list.push_back(model);
      list.back().name = adapter;
    }
  }
  return list;
}

std::vector<MeasuredModel> LanguageModels::Measured(ModelPool& pool) const {
  std::vector<MeasuredModel> models;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    EngineStats stats;
    if (const ModelPool::Lease lease = pool.Peek(i)) {
      stats = static_cast<const LanguageResident&>(*lease).stats();
    }
    models.push_back({entry.source.name, &entry.metrics, entry.metrics.Total(stats)});
  }
  return models;
}

}  // namespace oort::serve
