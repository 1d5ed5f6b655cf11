// SPDX-License-Identifier: MIT
#include "cli/bench_batch.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "cli/results.h"
#include "cuda/roofs.h"

namespace oort::cli {
namespace {

using BatchClock = std::chrono::steady_clock;

double Seconds(BatchClock::time_point from, BatchClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// What one batch reached, a value for each round.
struct BatchRates {
  int64_t batch = 0;
  std::vector<double> decode;      ///< tokens/s of all answers, from when all began until one ends
  std::vector<double> end_to_end;  ///< tokens of all answers over the time of everything
  std::vector<double> token_ms;    ///< of the median step in that time, as each reader sees it
  std::vector<double> first_ms;    ///< until the first token of the median request
  double limit = 0;                ///< of decode: what the machine allows
};

GenerateRequest BatchRequest(const BatchArguments& options, const GenerateRequest& like,
                             int64_t vocabulary, int64_t index) {
  GenerateRequest request = like;
  request.sampling.seed = static_cast<uint64_t>(index);
  for (int64_t i = 0; i < options.prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<int32_t>((index * 7919 + i * 31 + 1) % vocabulary));
  }
  return request;
}

/// All requests of one round, and what their callbacks count.
class BatchRound {
 public:
  BatchRound(Engine& engine, const BatchArguments& options, const GenerateRequest& like,
             int64_t batch, int64_t first)
      : engine_(engine),
        batch_(batch),
        new_tokens_(options.new_tokens),
        has_form_(like.constraint != nullptr),
        answered_(Size(batch)) {
    const int64_t vocabulary = engine.model().info().vocabulary;
    start_ = BatchClock::now();
    for (int64_t i = 0; i < batch; ++i) {
      GenerateRequest request = BatchRequest(options, like, vocabulary, first + i);
      request.on_piece = [this, i](const GeneratedPiece&) { return Count(i); };
      ids_.push_back(engine.Submit(std::move(request)));
    }
  }

  void Run(BatchRates& rates) {
    std::vector<double> steps;
    BatchClock::time_point all_began{}, now = start_;
    int64_t tokens_at_begin = 0;
    bool more = true;
    while (more) {
      const bool all_run = begun_ == batch_ && ended_ == 0;
      if (all_run && all_began == BatchClock::time_point{}) {
        all_began = now;
        tokens_at_begin = tokens_;
      }
      more = engine_.Step();
      const BatchClock::time_point before = std::exchange(now, BatchClock::now());
      if (all_run) {
        steps.push_back(1e3 * Seconds(before, now));
        rate_ = static_cast<double>(tokens_ - tokens_at_begin) / Seconds(all_began, now);
      }
    }
    rates.end_to_end.push_back(static_cast<double>(tokens_) / Seconds(start_, now));
    // Where the first ends before the last begins, there is no time when all run.
    if (!steps.empty()) {
      rates.decode.push_back(rate_);
      rates.token_ms.push_back(Median(steps));
    }
    std::vector<double> first;
    for (int64_t id : ids_) {
      const GenerateResult result = engine_.Take(id).value();
      if (has_form_) CheckLength(result, new_tokens_);
      first.push_back(1e3 * result.timings.first_token_seconds);
    }
    rates.first_ms.push_back(Median(first));
  }

 private:
  static size_t Size(int64_t count) { return static_cast<size_t>(count); }
  bool Count(int64_t request) {
    int64_t& mine = answered_[Size(request)];
    ++tokens_;
    if (++mine == 1) ++begun_;
    if (mine > new_tokens_) ++ended_;
    return true;
  }

  Engine& engine_;
  int64_t batch_, new_tokens_;
  bool has_form_;
  std::vector<int64_t> answered_, ids_;
  int64_t begun_ = 0, ended_ = 0, tokens_ = 0;
  double rate_ = 0;
  BatchClock::time_point start_;
};

}  // namespace

double FlopsOf(const NodeReport& node, const limits::Machine& machine) {
  return node.work.flops / (node.type == "oort.QuantizedLinear" ? machine.byte_rate : 1);
}

namespace {

/// A step reads all weights once and the cache of every answer, and multiplies each answer's row
/// with all weights.
double DecodeLimit(const LanguageModel& model, const BatchArguments& options, int64_t batch,
                   KvType kv, const limits::Machine& machine) {
  const double answers = static_cast<double>(batch);
  const double cache = static_cast<double>(KvCache::BlockBytes(model.kv_shape(kv))) /
                       static_cast<double>(KvCache::kBlockTokens);
  const double length =
      static_cast<double>(options.prompt_tokens) + static_cast<double>(options.new_tokens) / 2;
  const double state = 2 * static_cast<double>(model.info().state_bytes);  // read and written
  const double bytes =
      static_cast<double>(model.info().step_bytes) + answers * (cache * length + state);
  const Tensor rows = Tensor::Meta(DType::kI32, Shape{batch});
  double flops = 0;
  for (const NodeReport& node : model.graph()->Plan({rows, rows, rows}, 1).nodes) {
    flops += FlopsOf(node, machine);
  }
  return answers / std::max(bytes / machine.bandwidth, flops / machine.flops);
}

BatchRates MeasureBatch(const std::shared_ptr<const LanguageModel>& model, EngineOptions with,
                        const BatchArguments& options, int64_t batch) {
  const int64_t blocks = KvCache::BlocksFor(options.prompt_tokens + options.new_tokens + 1);
  with.cache_tokens = batch * blocks * KvCache::kBlockTokens;
  with.most_running = batch;
  with.reserve_cache = true;  // it has just the room for all of them
  with.reuse_prefixes = false;
  with.deterministic = options.deterministic;
  Engine engine(model, with);
  const GenerateRequest like = options.pick.Request(*model, options.new_tokens);
  BatchRates rates;
  rates.batch = batch;
  // One round before those that count: memory is touched, plans are made and runs recorded.
  BatchRates ignored;
  BatchRound(engine, options, like, batch, 0).Run(ignored);
  for (int round = 1; round <= options.rounds; ++round) {
    BatchRound(engine, options, like, batch, round * batch).Run(rates);
  }
  return rates;
}

Json RatesJson(const BatchRates& rates) {
  return {{"batch", rates.batch},
          {"decode_tps", Median(rates.decode)},
          {"end_to_end_tps", Median(rates.end_to_end)},
          {"decode_limit_tps", rates.limit},
          {"token_ms", Median(rates.token_ms)},
          {"first_token_ms", Median(rates.first_ms)},
          {"decode_rounds", rates.decode},
          {"end_to_end_rounds", rates.end_to_end}};
}

void PrintTable(const std::vector<BatchRates>& all) {
  Table table({{"at once", Table::kRight},
               {"decode tokens/s", Table::kRight},
               {"of the limit", Table::kRight},
               {"end to end", Table::kRight},
               {"ms a token", Table::kRight},
               {"ms to the first", Table::kRight}});
  for (const BatchRates& rates : all) {
    const double decode = Median(rates.decode);
    const auto known = [&](double value, int decimals, const char* unit) {
      return rates.decode.empty() ? std::string("-") : FormatFixed(value, decimals) + unit;
    };
    table.Row({std::to_string(rates.batch), known(decode, 1, ""),
               known(100 * decode / rates.limit, 1, " %"), FormatFixed(Median(rates.end_to_end), 1),
               known(Median(rates.token_ms), 2, ""), FormatFixed(Median(rates.first_ms), 2)});
  }
  table.Print(std::cout);
}

}  // namespace

void PickArguments::Add(CLI::App& app) {
  app.add_option("--temperature", sampling.temperature,
                 "0: always the most probable token (argmax); else draws")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--logprobs", sampling.top_logprobs,
                 "Log-probabilities of each token and of so many others (-1: none)")
      ->capture_default_str()
      ->check(CLI::Range(-1, 1024));
  form.Add(app);
}

GenerateRequest PickArguments::Request(const LanguageModel& model, int64_t new_tokens) const {
  GenerateRequest request;
  // The prompt gives the first token; each of the others is a step.
  request.max_tokens = new_tokens + 1;
  request.ignore_end = true;
  request.sampling = sampling;
  request.constraint = form.Compile(model);
  return request;
}

void CheckLength(const GenerateResult& result, int64_t new_tokens) {
  if (std::ssize(result.tokens) > new_tokens) return;
  throw Error(ErrorCode::kInvalidArgument,
              "an answer was complete with " + std::to_string(result.tokens.size()) +
                  " tokens: give a form that goes on, or fewer --new-tokens");
}

limits::Machine MachineOf(Device device, int threads) {
  if (device.type == DeviceType::kCpu) return limits::MeasureThisMachine(threads);
  const cuda::Roofs roofs = cuda::MeasureRoofs(device.index);
  limits::Machine machine;
  machine.bandwidth = roofs.read_bandwidth;
  machine.flops = roofs.bf16_flops;
  return machine;
}

int BenchBatches(const LanguageOptions& language, const BatchArguments& options) {
  const auto model = language.Load();
  const EngineOptions with = language.ForEngine(*model);
  const int threads = Engine(model, with).threads();
  limits::Machine machine = MachineOf(model->graph()->device(), threads);
  if (!language.activations.empty()) machine.byte_rate = kByteRate;
  std::vector<BatchRates> all;
  for (int64_t batch : options.batches) {
    all.push_back(MeasureBatch(model, with, options, batch));
    all.back().limit =
        DecodeLimit(*model, options, batch, with.kv.value_or(model->default_kv()), machine);
  }
  const std::string name = language.model.empty() ? language.random : language.model;
  if (options.json) {
    Json rows = Json::array();
    for (const BatchRates& rates : all) rows.push_back(RatesJson(rates));
    Json report = {{"model", name},
                   {"weights", language.weights},
                   {"activations", language.activations},
                   {"device", model->graph()->device().ToString()},
                   {"threads", threads},
                   {"prompt_tokens", options.prompt_tokens},
                   {"new_tokens", options.new_tokens},
                   {"temperature", options.pick.sampling.temperature},
                   {"has_form", options.pick.form.Spec().has_value()},
                   {"bandwidth", machine.bandwidth},
                   {"flops", machine.flops}};
    if (rows.size() == 1) {
      report.update(rows[0]);
    } else {
      report["batches"] = rows;
    }
    Print(std::cout, report);
    return 0;
  }
  std::cout << model->info().family << ", " << threads << " threads, "
            << model->graph()->device().ToString() << ", prompts of " << options.prompt_tokens
            << " and answers of " << options.new_tokens << " tokens\n";
  PrintTable(all);
  if (all.size() == 1) {
    std::cout << "end_to_end_tps " << FormatFixed(Median(all[0].end_to_end), 1) << " decode_tps "
              << (all[0].decode.empty() ? "none: the first answer ends before the last begins"
                                        : FormatFixed(Median(all[0].decode), 1))
              << '\n';
  }
  return 0;
}

}  // namespace oort::cli
