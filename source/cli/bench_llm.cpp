// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <iostream>

#include "cli/language.h"
#include "cli/results.h"
#include "cuda/roofs.h"
#include "limits/limits.h"

namespace oort::cli {
namespace {

struct BenchLlmArguments {
  LanguageOptions language;
  int64_t prompt_tokens = 128, new_tokens = 64;
  int64_t batch = 1;
  int rounds = 3;
  bool json = false;
};

struct Rates {
  std::vector<double> prefill, decode;
};

/// One round before those that count: memory is touched and plans are made.
Rates MeasureRates(Engine& engine, const BenchLlmArguments& options) {
  GenerateRequest request;
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    request.prompt.push_back(
        static_cast<int32_t>((1 + i % 100) % engine.model().info().vocabulary));
  }
  // The prompt gives the first token; each of the others is a step.
  request.max_tokens = options.new_tokens + 1;
  request.ignore_end = true;
  Rates rates;
  for (int round = 0; round <= options.rounds; ++round) {
    const GenerateResult result = engine.Generate(request);
    if (round == 0) continue;
    rates.prefill.push_back(PromptRate(request.prompt.size(), result));
    rates.decode.push_back(AnswerRate(result));
  }
  return rates;
}

/// Requests of different prompts, all at once.
struct BatchRates {
  std::vector<double> decode;      ///< tokens/s of all answers, from when all began until one ends
  std::vector<double> end_to_end;  ///< tokens of all answers over the time of everything
};

GenerateRequest BatchRequest(const BenchLlmArguments& options, int64_t vocabulary, int64_t index) {
  GenerateRequest request;
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<int32_t>((index * 7919 + i * 31 + 1) % vocabulary));
  }
  request.max_tokens = options.new_tokens + 1;
  request.ignore_end = true;
  return request;
}

BatchRates MeasureBatch(Engine& engine, const BenchLlmArguments& options) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  const int64_t vocabulary = engine.model().info().vocabulary;
  BatchRates rates;
  for (int round = 0; round <= options.rounds; ++round) {
    std::vector<int64_t> answered(static_cast<size_t>(options.batch), 0), ids;
    int64_t begun = 0, ended = 0, tokens = 0, tokens_at_begin = 0, tokens_at_end = 0;
    Clock::time_point all_began{}, one_ended{};
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < options.batch; ++i) {
      GenerateRequest request = BatchRequest(options, vocabulary, round * options.batch + i);
      request.on_piece = [&, i](const GeneratedPiece&) {
        int64_t& mine = answered[static_cast<size_t>(i)];
        ++tokens;
        if (++mine == 1) ++begun;
        if (mine > options.new_tokens) ++ended;
        return true;
      };
      ids.push_back(engine.Submit(std::move(request)));
    }
    bool more = true;
    while (more) {
      more = engine.Step();
      if (begun == options.batch && all_began == Clock::time_point{}) {
        all_began = Clock::now();
        tokens_at_begin = tokens;
      }
      if (ended > 0 && one_ended == Clock::time_point{}) {
        one_ended = Clock::now();
        tokens_at_end = tokens;
      }
    }
    const Clock::time_point end = Clock::now();
    for (int64_t id : ids) engine.Take(id);
    if (round == 0) continue;
    rates.end_to_end.push_back(static_cast<double>(tokens) / seconds(start, end));
    // Where the first ends before the last begins, there is no time when all run.
    if (all_began < one_ended) {
      rates.decode.push_back(static_cast<double>(tokens_at_end - tokens_at_begin) /
                             seconds(all_began, one_ended));
    }
  }
  return rates;
}

int BenchBatch(const BenchLlmArguments& options) {
  const auto model = options.language.Load();
  EngineOptions engine_options = options.language.ForEngine(*model);
  const int64_t blocks = KvCache::BlocksFor(options.prompt_tokens + options.new_tokens + 1);
  engine_options.cache_tokens = options.batch * blocks * KvCache::kBlockTokens;
  engine_options.most_running = options.batch;
  engine_options.reuse_prefixes = false;
  Engine engine(model, engine_options);
  const BatchRates rates = MeasureBatch(engine, options);
  const double decode = rates.decode.empty() ? 0 : Median(rates.decode);
  const double end_to_end = Median(rates.end_to_end);
  if (options.json) {
    Print(std::cout, {{"model", options.language.model},
                      {"threads", engine.threads()},
                      {"batch", options.batch},
                      {"prompt_tokens", options.prompt_tokens},
                      {"new_tokens", options.new_tokens},
                      {"decode_tps", decode},
                      {"end_to_end_tps", end_to_end},
                      {"decode_rounds", rates.decode},
                      {"end_to_end_rounds", rates.end_to_end}});
    return 0;
  }
  std::cout << model->info().family << ", " << engine.threads() << " threads, "
            << model->graph()->device().ToString() << ", " << options.batch
            << " requests at once\nend_to_end_tps " << FormatFixed(end_to_end, 1) << " decode_tps "
            << (rates.decode.empty() ? "none: the first answer ends before the last begins"
                                     : FormatFixed(decode, 1))
            << '\n';
  return 0;
}

/// The fastest that this machine allows anybody (see docs/limits.md), in tokens a second.
struct SpeedOfLight {
  limits::Machine machine;
  double bytes = 0;  ///< that a token in the middle of the answer reads
  double decode = 0, prefill = 0;
};

limits::Machine MachineOf(Device device, int threads) {
  if (device.type == DeviceType::kCpu) return limits::MeasureThisMachine(threads);
  const cuda::Roofs roofs = cuda::MeasureRoofs(device.index);
  limits::Machine machine;
  machine.bandwidth = roofs.read_bandwidth;
  machine.flops = roofs.bf16_flops;
  return machine;
}

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
  light.bytes = static_cast<double>(info.step_bytes) +
                cache * (prompt + static_cast<double>(options.new_tokens) / 2);
  light.decode = light.machine.bandwidth / light.bytes;
  const Tensor tokens = Tensor::Meta(DType::kI32, Shape{options.prompt_tokens});
  double flops =
      2 * static_cast<double>(info.layers * info.heads * info.head_dim) * prompt * (prompt + 1);
  const Tensor wanted = Tensor::Meta(DType::kI32, Shape{1});
  for (const NodeReport& node : model.graph()->Plan({tokens, tokens, wanted}, 1).nodes) {
    if (node.type != "oort.PagedAttention") flops += node.work.flops;
  }
  const double read = (static_cast<double>(info.step_bytes) + cache * prompt);
  light.prefill = prompt / std::max(read / light.machine.bandwidth, flops / light.machine.flops);
  return light;
}

int BenchLlm(const BenchLlmArguments& options) {
  if (options.batch > 1) return BenchBatch(options);
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
    Print(std::cout, {{"model", options.language.model},
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
                      {"decode_rounds", rates.decode}});
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
            << FormatFixed(prefill, 1) << " decode_tps " << FormatFixed(decode, 1) << '\n';
  return 0;
}

}  // namespace

Action AddBenchLlm(CLI::App& app) {
  auto options = std::make_shared<BenchLlmArguments>();
  options->language.Add(app, true);
  app.add_option("--prompt-tokens", options->prompt_tokens, "Length of the prompt")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--new-tokens", options->new_tokens, "Length of the answer")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", options->batch, "Requests at once, each of other tokens")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--rounds", options->rounds, "Rounds, of which the median counts")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", options->json, "Print all figures as JSON");
  app.footer(
      "Example: oort bench-llm SmolLM2.gguf --threads 2 --prompt-tokens 128 --new-tokens 64\n"
      "The last line is: prefill_tps X decode_tps Y");
  return [options] { return BenchLlm(*options); };
}

}  // namespace oort::cli
