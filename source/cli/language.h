// SPDX-License-Identifier: MIT
// What the commands on language models have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/device_option.h"
#include "cli/text.h"
#include "oort/engine.h"

namespace oort::cli {

/// This process was a rank that followed rank 0, which is done: there is nothing left to do or say.
struct LedToTheEnd {};

/// --exact and --fast, which leave `exact` unset where neither is given: a flag of CLI11 for an
/// optional would set it.
CLI::Option* AddExact(CLI::App& app, std::optional<bool>& exact, const std::string& help);

/// MODEL and how it is loaded and run.
struct LanguageOptions {
  std::string model;
  std::optional<bool> exact;
  DeviceOption device;
  std::string activations;  ///< "int8", "fp8", or empty
  std::string kv;           ///< empty: as the model wants it
  int64_t context = 0;      ///< 0: the model's, at most 8192
  uint64_t memory_limit = 0;
  int threads = 0;
  Isa isa = DefaultIsa();
  std::string random, weights;
  std::optional<int64_t> group;
  std::vector<AdapterFile> adapters;
  /// "ngram", the files of a smaller model, or a folder of heads; empty: nobody guesses.
  std::string draft;
  int64_t draft_tokens = 0;  ///< 0: as many as pay
  /// A number, "mpi", or "tcp:0/2@first:7070"; empty: mpi where mpirun has started several.
  std::string ranks;
  std::string rank_secret;  ///< a file
  std::string split;        ///< "exact", "fast" or "pipeline"; empty: exact with --exact
  std::string shard;        ///< "0/8": that rank of so many, alone
  double rank_deadline = RankOptions().deadline;
  std::string exchange;  ///< of ranks on GPUs: "host" or "nccl"; empty: as it can be

  /// `or_random`: instead of MODEL the shape of one may be given, whose weights are random.
  void Add(CLI::App& app, bool or_random = false);
  /// --context and --memory-limit, of commands with a cache that may be of any size.
  void AddContext(CLI::App& app);
  /// --random, instead of `file`.
  void AddRandom(CLI::App& app, CLI::Option* file);
  /// --weights and --group.
  void AddWeights(CLI::App& app);
  /// --activations.
  void AddActivations(CLI::App& app);
  /// --draft and --draft-tokens.
  void AddDraft(CLI::App& app);
  /// --ranks, --split, --rank-deadline, --rank-secret and --exchange.
  void AddRanks(CLI::App& app);
  /// --shard, of commands that measure.
  void AddShard(CLI::App& app);
  /// Throws LedToTheEnd where this process was another rank than the first, and is done.
  std::shared_ptr<const LanguageModel> Load() const;
  /// Loads the draft model, where there is one; heads come with the model. Throws a UsageError
  /// where the model has a smaller context than asked for.
  EngineOptions ForEngine(const LanguageModel& loaded) const;

 private:
  RankOptions Ranks() const;
};

/// How tokens are picked, and when an answer ends.
struct AnswerOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 512;
  std::vector<std::string> stops, biases;
  std::optional<uint64_t> seed;

  void Add(CLI::App& app);
  /// Before anything is loaded: throws a UsageError for what makes no sense, and picks a seed where
  /// none is given and answers are drawn.
  void Settle();
  bool Draws() const { return sampling.temperature > 0; }
  GenerateRequest Request(std::vector<int32_t> prompt) const;
};

/// Throws kInvalidArgument where a prompt is no UTF-8.
void CheckPrompt(std::string_view text);

/// What became of the guesses: how many steps checked some, how many were made and right, and how
/// many tokens a step gave.
Json DraftJson(const DraftCounts& draft, size_t tokens);
/// "; 2.31 tokens a step, 120 of 152 guesses right", or nothing where none were checked.
std::string DraftSummary(const DraftCounts& draft, size_t tokens);
/// "prompt 37 tokens, 512.3 tokens/s; answer 8 tokens, 120.1 tokens/s; first token after 81 ms"
std::string Summary(size_t prompt_tokens, const GenerateResult& result);
double PromptRate(size_t prompt_tokens, const GenerateResult& result);
/// Tokens behind the first, by the time from the first to the last.
double AnswerRate(const GenerateResult& result);

/// While it lives, Ctrl-C sets a flag instead of ending the program.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  /// Whether Ctrl-C was pressed since the last call.
  bool Take();
  /// Waits until standard input has something to read, or its end; false if Ctrl-C came first, also
  /// just before the waiting began.
  bool WaitForInput() const;
};

/// Engine::Generate that Ctrl-C cancels, also while the prompt is read.
GenerateResult Answer(Engine& engine, GenerateRequest request, InterruptFlag& interrupt);

}  // namespace oort::cli
