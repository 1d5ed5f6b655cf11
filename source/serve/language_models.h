// SPDX-License-Identifier: MIT
// The language models of a server: their names, and what is known of each whether it is loaded or
// not.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine_loop.h"
#include "serve/context.h"
#include "serve/model_pool.h"

namespace oort::serve {

/// A language model, and how it is run.
struct LanguageSetup {
  openai::ServedModel served;
  EngineLoopOptions loop;
};

/// One that is loaded when somebody asks for it.
struct LanguageSource {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> adapters;  ///< that it is loaded with: models of their own to who asks
  std::function<LanguageSetup()> load;
  size_t guessed_bytes = 0;
};

/// A language model with its engine.
class LanguageResident : public Resident {
 public:
  /// `services` are those of the server; the model's part is filled in.
  LanguageResident(LanguageSetup setup, const Services& services);
  ~LanguageResident() override;
  size_t bytes() const override { return bytes_; }
  /// Of the model itself, or of one of its adapters.
  Services& services(int adapter = -1) {
    return adapter < 0 ? services_ : adapters_.at(static_cast<size_t>(adapter));
  }
  EngineStats stats() const { return loop_.stats(); }

 private:
  Services services_;
  std::deque<Services> adapters_;
  EngineLoop loop_;
  size_t bytes_ = 0;
};

/// Thread contract: any number of threads.
class LanguageModels {
 public:
  /// `blank` makes the server's part of Services. The first source is the one for requests that
  /// name none; with `any_name` also for those that name what is not there.
  LanguageModels(std::vector<LanguageSource> sources, bool any_name,
                 std::function<Services(Metrics&)> blank);

  /// For the pool, in which model i has the same number. The first may be loaded at once.
  std::vector<ModelSource> Sources(bool first_stays);
  size_t size() const { return entries_.size(); }
  struct Named {
    size_t model = 0;
    int adapter = -1;
  };
  /// What a request means. Throws 404.
  Named Find(const openai::Json& body) const;
  /// Whether there is nothing to choose from.
  bool IsOne() const { return entries_.size() == 1 && entries_[0].source.adapters.empty(); }
  /// Services without a model, for who asks about the server.
  Services Blank();

  std::vector<ListedModel> List(const ModelPool& pool) const;
  std::vector<MeasuredModel> Measured(ModelPool& pool) const;
  Metrics& metrics(size_t model) { return entries_[model].metrics; }

 private:
  std::optional<Named> FindName(std::string_view name) const;
  struct Entry {
    explicit Entry(LanguageSource from);
    LanguageSource source;
    Metrics metrics;
    ListedModel facts;  ///< as of the last time that it was loaded
  };

  const bool any_name_;
  const std::function<Services(Metrics&)> blank_;
  mutable std::mutex mutex_;  // of facts
  std::deque<Entry> entries_;
  Metrics nobodys_{1};
};

}  // namespace oort::serve
