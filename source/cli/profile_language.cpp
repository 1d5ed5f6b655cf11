// SPDX-License-Identifier: MIT
#include "cli/profile_language.h"

#include <numeric>

#include "cli/language.h"
#include "oort/session.h"

namespace oort::cli {
namespace {

/// One sequence, its cache, and steps of it that can be run again and again.
class ProfiledSequence {
 public:
  ProfiledSequence(const LanguageModel& model, KvType kv, int64_t tokens)
      : vocabulary_(model.info().vocabulary),
        cache_(model.kv_shape(kv), KvCache::BlocksFor(tokens)) {
    while (cache_.free_blocks() > 0) blocks_.push_back(cache_.Take());
  }

  /// `count` tokens from `position` on, of which the last one's logits are wanted.
  template <typename Use>
  void Step(int64_t position, int64_t count, const Use& use) {
    const SequenceSlice slice{0, count, position, blocks_};
    const SequenceBatch batch{{&slice, 1}, &cache_};
    RunOptions options;
    options.sequences = &batch;
    std::vector<int32_t> tokens, positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<int32_t>((1 + (position + i) % 100) % vocabulary_));
    }
    const std::vector<Tensor> inputs = {
        Tensor::From<int32_t>(tokens, Shape{count}), Tensor::From<int32_t>(positions, Shape{count}),
        Tensor::From<int32_t>({static_cast<int32_t>(count - 1)}, Shape{1})};
    use(inputs, options);
  }

 private:
  int64_t vocabulary_;
  KvCache cache_;
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
  app.add_flag("--exact", exact, "Of a language model: activations stay f32")
      ->each([this](const std::string&) { asked = true; });
}

std::vector<LanguageStep> ProfileSteps(const ModelOptions& options, const LanguageSteps& steps,
                                       const MeasuredRuns& measured) {
  LanguageOptions load;
  load.model = options.model;
  load.exact = steps.exact;
  load.isa = options.Load().isa;
  load.device = options.device;
  const auto model = load.Load();
  if (model->graph()->device().type != DeviceType::kCpu) {
    throw UsageError("steps of language models are profiled on the CPU alone");
  }
  const int64_t prompt = steps.prompt_tokens, middle = prompt + steps.new_tokens / 2;
  if (prompt + steps.new_tokens > model->info().context) {
    throw UsageError("prompt and answer have " + std::to_string(prompt + steps.new_tokens) +
                     " tokens, the model's context " + std::to_string(model->info().context));
  }
  ProfiledSequence sequence(*model, load.ForEngine().kv, middle + 1);
  Session session(model->graph(), options.ForSession());
  const MachineRoofs roofs = MeasureRoofs(session.threads());
  std::vector<LanguageStep> done;
  const auto profile = [&](const std::string& name, int64_t position, int64_t count,
                           const std::string& what) {
    sequence.Step(position, count, [&](const auto& inputs, const RunOptions& run) {
      done.push_back({name, MeasureProfile(session, inputs, measured, roofs, run)});
      NameStep(done.back().report, options.model + "  " + what);
    });
  };
  profile("prefill", 0, prompt, "prefill of " + std::to_string(prompt) + " tokens");
  if (middle > prompt) {
    sequence.Step(prompt, middle - prompt, [&](const auto& inputs, const RunOptions& run) {
      session.Forward(inputs, run);  // what the answer has said by then
    });
  }
  profile("decode", middle, 1, "decode behind " + std::to_string(middle) + " tokens");
  return done;
}

}  // namespace oort::cli
