// SPDX-License-Identifier: MIT
#include "cli/profile_language.h"

#include <cstring>
#include <deque>
#include <numeric>

#include "cli/language.h"
#include "layers/attention/paged/sequence_table.h"
#include "llm/decoder_runner.h"
#include "oort/session.h"

namespace oort::cli {
namespace {

/// Sequences of one length, their cache, and steps of them that can be run again and again.
class ProfiledSequences {
 public:
  ProfiledSequences(const LanguageModel& model, KvType kv, int64_t sequences, int64_t tokens)
      : info_(model.info()),
        blocks_each_(KvCache::BlocksFor(tokens)),
        cache_(MakeKvCache(model, kv, sequences * blocks_each_ * KvCache::kBlockTokens)),
        table_(MakeSequenceTable(model, cache_)),
        blocks_(static_cast<size_t>(cache_.blocks())) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    if (model.state_shape().layers == 0) return;
    for (int64_t i = 0; i < sequences; ++i) {
      SequenceState& state = states_.emplace_back(model.state_shape());
      std::memset(state.Inputs(0), 0, model.state_shape().bytes());  // of no tokens in particular
    }
  }

  /// `count` tokens of each of the first `sequences`, from `position` on, of which the last one's
  /// logits are wanted.
  template <typename Use>
  void Step(int64_t sequences, int64_t position, int64_t count, const Use& use) {
    std::vector<SequenceSlice> slices;
    std::vector<int32_t> tokens, positions, wanted;
    for (int64_t i = 0; i < sequences; ++i) {
      slices.push_back({i * count, count, position, BlocksOf(i)});
      if (!states_.empty()) slices.back().state = &states_[static_cast<size_t>(i)];
      for (int64_t at = position; at < position + count; ++at) {
        tokens.push_back(static_cast<int32_t>((1 + (at + i) % 100) % info_.vocabulary));
        positions.push_back(static_cast<int32_t>(at));
      }
      wanted.push_back(static_cast<int32_t>(tokens.size() - 1));
    }
    if (table_) table_->Set(slices);
    const SequenceBatch batch{slices, &cache_, table_.get()};
    ProfiledRun run;
    run.options.state = &batch;
    run.options.unread_outputs = 1;  // the logits: greedy answers do without
    if (cache_.shape().layers > 0) {
      Cost& cost = run.more["oort.PagedAttention"];
      cost = CacheWork(position, count);
      cost.bytes *= static_cast<double>(sequences);
      cost.flops *= static_cast<double>(sequences);
    }
    const auto tensor = [](const std::vector<int32_t>& values) {
      return Tensor::From<int32_t>(values, Shape{static_cast<int64_t>(values.size())});
    };
    const std::vector<Tensor> inputs = {tensor(tokens), tensor(positions), tensor(wanted)};
    use(inputs, run);
  }

 private:
  std::span<const int32_t> BlocksOf(int64_t sequence) const {
    return std::span(blocks_).subspan(static_cast<size_t>(sequence * blocks_each_),
                                      static_cast<size_t>(blocks_each_));
  }
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
  int64_t blocks_each_;
  KvCache cache_;
  std::unique_ptr<cuda::SequenceTable> table_;
  std::vector<int32_t> blocks_;
  std::deque<SequenceState> states_;
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
  count("--batch", batch, "Of a language model: answers in the decode step");
  shape.AddRandom(app, app.get_option("MODEL"));
  shape.AddWeights(app);
  shape.AddActivations(app);
  AddExact(app, exact, "Of a language model: activations stay f32, or not")
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
  ProfiledSequences sequences(*model, load.ForEngine(*model).kv.value_or(model->default_kv()),
                              steps.batch, middle + 1);
  Session session(model->graph(), options.ForSession());
  const MachineRoofs roofs = MeasureRoofsOf(*model->graph(), session.threads());
  std::vector<LanguageStep> done;
  const auto profile = [&](const std::string& name, int64_t answers, int64_t position,
                           int64_t count, const std::string& what) {
    sequences.Step(answers, position, count, [&](const auto& inputs, const ProfiledRun& run) {
      done.push_back({name, MeasureProfile(session, inputs, measured, roofs, run)});
      NameStep(done.back().report,
               (options.model.empty() ? load.random : options.model) + "  " + what);
    });
  };
  profile("prefill", 1, 0, prompt, "prefill of " + std::to_string(prompt) + " tokens");
  if (middle > prompt) {
    sequences.Step(1, prompt, middle - prompt, [&](const auto& inputs, const ProfiledRun& run) {
      session.Forward(inputs, run.options);  // what the answer has said by then
    });
  }
  const std::string together =
      steps.batch > 1 ? " of " + std::to_string(steps.batch) + " answers at once" : "";
  profile("decode", steps.batch, middle, 1,
          "decode" + together + " behind " + std::to_string(middle) + " tokens");
  return done;
}

}  // namespace oort::cli
