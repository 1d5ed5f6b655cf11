// SPDX-License-Identifier: MIT
#include "cli/profile_language.h"

#include <numeric>

#include "cli/language.h"
#include "layers/attention/paged/sequence_table.h"
#include "llm/decoder_runner.h"
#include "oort/session.h"

namespace oort::cli {
namespace {

/// One sequence, its cache, and steps of it that can be run again and again.
class ProfiledSequence {
 public:
  ProfiledSequence(const LanguageModel& model, KvType kv, int64_t tokens)
      : info_(model.info()),
        cache_(MakeKvCache(model, kv, tokens)),
        table_(MakeSequenceTable(model, cache_)),
        blocks_(static_cast<size_t>(cache_.blocks())) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  /// `count` tokens from `position` on, of which the last one's logits are wanted.
  template <typename Use>
  void Step(int64_t position, int64_t count, const Use& use) {
    const SequenceSlice slice{0, count, position, blocks_};
    if (table_) table_->Set({&slice, 1});
    const SequenceBatch batch{{&slice, 1}, &cache_, table_.get()};
    ProfiledRun run;
    run.options.state = &batch;
    run.options.unread_outputs = 1;  // the logits: greedy answers do without
    run.more["oort.PagedAttention"] = CacheWork(position, count);
    std::vector<int32_t> tokens, positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<int32_t>((1 + (position + i) % 100) % info_.vocabulary));
    }
    const std::vector<Tensor> inputs = {
        Tensor::From<int32_t>(tokens, Shape{count}), Tensor::From<int32_t>(positions, Shape{count}),
        Tensor::From<int32_t>({static_cast<int32_t>(count - 1)}, Shape{1})};
    use(inputs, run);
  }

 private:
  /// What attention in one layer reads of the cache and computes with it; a window would make it
  /// less. Its own tokens are in the cost of the operator already.
  Cost CacheWork(int64_t position, int64_t count) const {
    const auto number = [](auto value) { return static_cast<double>(value); };
    const double token = number(KvCache::BlockBytes(cache_.shape())) /
                         number(KvCache::kBlockTokens * cache_.shape().layers);
    Cost cost;
    cost.bytes = token * number(position + count);
    cost.flops =
        4 * number(info_.heads * info_.head_dim) * number(count) * (number(position) + 0.5);
    return cost;
  }

  LanguageModelInfo info_;
  KvCache cache_;
  std::unique_ptr<cuda::SequenceTable> table_;
  std::vector<int32_t> blocks_;
};

void NameStep(ProfileReport& report, const std::string& title) {
  report.model = title;
  const ModuleMap modules = FindModules(report.graph);
  for (ProfileOperator& op : report.operators) {
    if (const auto path = modules.find(op.name); path != modules.end()) op.module = path->second;
  }
}

}  // namespace

void LanguageSteps::Add(CLI::App& app) {
  const auto count = [&](const char* name, int64_t& target, const char* text) {
    app.add_option(name, target, text)
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20))
        ->each([this](const std::string&) { asked = true; });
  };
  count("--prompt-tokens", prompt_tokens, "Of a language model: length of the prompt");
  count("--new-tokens", new_tokens, "Of a language model: length of the answer");
  shape.AddRandom(app, app.get_option("MODEL"));
  shape.AddWeights(app);
  app.add_flag("--exact,!--fast", exact, "Of a language model: activations stay f32, or not")
      ->each([this](const std::string&) { asked = true; });
}

std::vector<LanguageStep> ProfileSteps(const ModelOptions& options, const LanguageSteps& steps,
                                       const MeasuredRuns& measured) {
  LanguageOptions load = steps.shape;
  load.model = options.model;
  load.exact = steps.exact;
  load.isa = options.Load().isa;
  load.device = options.device;
  const auto model = load.Load();
  const int64_t prompt = steps.prompt_tokens, middle = prompt + steps.new_tokens / 2;
  if (prompt + steps.new_tokens > model->info().context) {
    throw UsageError("prompt and answer have " + std::to_string(prompt + steps.new_tokens) +
                     " tokens, the model's context " + std::to_string(model->info().context));
  }
  ProfiledSequence sequence(*model, load.ForEngine(*model).kv.value_or(model->default_kv()),
                            middle + 1);
  Session session(model->graph(), options.ForSession());
  const MachineRoofs roofs = MeasureRoofsOf(*model->graph(), session.threads());
  std::vector<LanguageStep> done;
  const auto profile = [&](const std::string& name, int64_t position, int64_t count,
                           const std::string& what) {
    sequence.Step(position, count, [&](const auto& inputs, const ProfiledRun& run) {
      done.push_back({name, MeasureProfile(session, inputs, measured, roofs, run)});
      NameStep(done.back().report,
               (options.model.empty() ? load.random : options.model) + "  " + what);
    });
  };
  profile("prefill", 0, prompt, "prefill of " + std::to_string(prompt) + " tokens");
  if (middle > prompt) {
    sequence.Step(prompt, middle - prompt, [&](const auto& inputs, const ProfiledRun& run) {
      session.Forward(inputs, run.options);  // what the answer has said by then
    });
  }
  profile("decode", middle, 1, "decode behind " + std::to_string(middle) + " tokens");
  return done;
}

}  // namespace oort::cli
