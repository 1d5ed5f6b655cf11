// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>

#include "cli/bench_batch.h"
#include "cli/results.h"

namespace oort::cli {
namespace {

struct BenchLlmArguments {
  LanguageOptions language;
  int64_t prompt_tokens = 128, new_tokens = 64;
  std::vector<int64_t> batches = {1};
  PickArguments pick;
  bool deterministic = false;
  int rounds = 3;
  bool json = false;
};

struct Rates {
  std::vector<double> prefill, decode;
  DraftCounts draft;
  size_t tokens = 0;  ///< of all answers that count
};

/// One round before those that count: memory is touched and plans are made.
Rates MeasureRates(Engine& engine, const BenchLlmArguments& options) {
  GenerateRequest request = options.pick.Request(engine.model(), options.new_tokens);
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    request.prompt.push_back(
        static_cast<int32_t>((1 + i % 100) % engine.model().info().vocabulary));
  }
  Rates rates;
  for (int round = 0; round <= options.rounds; ++round) {
    const GenerateResult result = engine.Generate(request);
    if (request.constraint) CheckLength(result, options.new_tokens);
    if (round == 0) continue;
    rates.prefill.push_back(PromptRate(request.prompt.size(), result));
    rates.decode.push_back(AnswerRate(result));
    rates.draft += result.draft;
    rates.tokens += result.tokens.size();
  }
  return rates;
}

/// The fastest that this machine allows anybody (see docs/limits.md), in tokens a second.
struct SpeedOfLight {
  limits::Machine machine;
  double bytes = 0;  ///< that a token in the middle of the answer reads
  double decode = 0, prefill = 0;
};

/// Every token reads all weights (of the embeddings a row) and, in the middle of the answer, so
/// much of the cache; a prompt multiplies each of its tokens with the weights and with those before
/// it.
SpeedOfLight FindLimit(const LanguageModel& model, const BenchLlmArguments& options, KvType kv,
                       int threads) {
  const LanguageModelInfo& info = model.info();
  const double prompt = static_cast<double>(options.prompt_tokens);
  const double cache = static_cast<double>(KvCache::BlockBytes(model.kv_shape(kv))) /
                       static_cast<double>(KvCache::kBlockTokens);
  SpeedOfLight light;
  light.machine = MachineOf(model.graph()->device(), threads);
  if (!options.language.activations.empty()) light.machine.byte_rate = kByteRate;
  // A state is read and written, and in a prompt not for each token.
  const double fixed = static_cast<double>(info.step_bytes + 2 * info.state_bytes);
  light.bytes = fixed + cache * (prompt + static_cast<double>(options.new_tokens) / 2);
  light.decode = light.machine.bandwidth / light.bytes;
  const Tensor tokens = Tensor::Meta(DType::kI32, Shape{options.prompt_tokens});
  const double layers = static_cast<double>(model.kv_shape(kv).layers);
  double flops =
      2 * layers * static_cast<double>(info.heads * info.head_dim) * prompt * (prompt + 1);
  const Tensor wanted = Tensor::Meta(DType::kI32, Shape{1});
  for (const NodeReport& node : model.graph()->Plan({tokens, tokens, wanted}, 1).nodes) {
    if (node.type != "oort.PagedAttention") flops += FlopsOf(node, light.machine);
  }
  const double read = fixed + cache * prompt;
  light.prefill = prompt / std::max(read / light.machine.bandwidth, flops / light.machine.flops);
  return light;
}

int BenchLlm(const BenchLlmArguments& options) {
  if (options.batches != std::vector<int64_t>{1}) {
    return BenchBatches(options.language,
                        {options.prompt_tokens, options.new_tokens, options.batches, options.rounds,
                         options.pick, options.deterministic, options.json});
  }
  const auto model = options.language.Load();
  EngineOptions engine_options = options.language.ForEngine(*model);
  engine_options.cache_tokens = options.prompt_tokens + options.new_tokens + 1;
  engine_options.prompt_chunk = std::max<int64_t>(512, options.prompt_tokens);
  engine_options.reuse_prefixes = false;  // every round reads the same prompt
  Engine engine(model, engine_options);
  const Rates rates = MeasureRates(engine, options);
  const double prefill = Median(rates.prefill), decode = Median(rates.decode);
  const SpeedOfLight light =
      FindLimit(*model, options, engine_options.kv.value_or(model->default_kv()), engine.threads());
  if (options.json) {
    Json report = {{"model", options.language.model},
                   {"threads", engine.threads()},
                   {"prompt_tokens", options.prompt_tokens},
                   {"new_tokens", options.new_tokens},
                   {"prefill_tps", prefill},
                   {"decode_tps", decode},
                   {"bytes_per_token", light.bytes},
                   {"bandwidth", light.machine.bandwidth},
                   {"flops", light.machine.flops},
                   {"prefill_limit_tps", light.prefill},
                   {"decode_limit_tps", light.decode},
                   {"prefill_percent", 100 * prefill / light.prefill},
                   {"decode_percent", 100 * decode / light.decode},
                   {"prefill_rounds", rates.prefill},
                   {"decode_rounds", rates.decode}};
    report["device"] = model->graph()->device().ToString();
    if (!options.language.activations.empty()) {
      report["activations"] = options.language.activations;
    }
    report["ranks"] = model->ranks();
    report["exchange"] = model->exchange();
    if (!options.language.shard.empty()) report["shard"] = options.language.shard;
    if (!options.language.draft.empty()) report["draft"] = DraftJson(rates.draft, rates.tokens);
    Print(std::cout, report);
    return 0;
  }
  const LanguageModelInfo& info = model->info();
  const auto reaches = [](double rate, double limit, const char* what) {
    return ": at most " + FormatFixed(limit, 1) + " tokens/s, of which " + what + " reaches " +
           FormatFixed(100 * rate / limit, 1) + " %";
  };
  std::cout << info.family << ", " << info.layers << " layers, " << engine.threads() << " threads, "
            << model->graph()->device().ToString() << "; a token reads " << FormatBytes(light.bytes)
            << " of weights and cache\n"
            << "memory gives " << FormatFixed(light.machine.bandwidth / 1e9, 1) << " GB/s"
            << reaches(decode, light.decode, "decode")
            << ": its model bandwidth utilization\nmultiply-adds give "
            << FormatFixed(light.machine.flops / 1e9, 1) << " GFLOP/s"
            << reaches(prefill, light.prefill, "prefill") << "\nprefill_tps "
            << FormatFixed(prefill, 1) << " decode_tps " << FormatFixed(decode, 1)
            << DraftSummary(rates.draft, rates.tokens) << '\n';
  return 0;
}

}  // namespace

Action AddBenchLlm(CLI::App& app) {
  auto options = std::make_shared<BenchLlmArguments>();
  options->language.Add(app, true);
  options->language.AddRanks(app);
  options->language.AddShard(app);
  options->language.AddDraft(app);
  app.add_option("--prompt-tokens", options->prompt_tokens, "Length of the prompt")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--new-tokens", options->new_tokens, "Length of the answer")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options->batches,
                 "Requests at once, each of other tokens: 8, or 1,8,64")
      ->delimiter(',')
      ->type_name("N,…")
      ->check(CLI::Range(1, 4096));
  options->pick.Add(app);
  app.add_flag("--deterministic", options->deterministic,
               "Of several at once: each is computed as it would be alone");
  app.add_option("--rounds", options->rounds, "Rounds, of which the median counts")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", options->json, "Print all figures as JSON");
  app.footer(
      "Example: oort bench-llm SmolLM2.gguf --threads 2 --prompt-tokens 128 --new-tokens 64\n"
      "The last line is: prefill_tps X decode_tps Y; of several at once: end_to_end_tps X "
      "decode_tps Y");
  return [options] { return BenchLlm(*options); };
}

}  // namespace oort::cli
