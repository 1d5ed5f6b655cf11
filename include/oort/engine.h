// SPDX-License-Identifier: MIT
// Tokens in, tokens out: answers of a language model, several at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/constraint.h"
#include "oort/language_model.h"
#include "oort/sampler.h"

namespace oort {

/// Who guesses what an answer says next. A step computes the guesses together with the token before
/// them and keeps those that turn out to be what the request picks anyway: the answer is the same,
/// in fewer steps.
struct DraftOptions {
  enum Source : unsigned char {
    kNone,
    kNgram,  ///< what followed the last tokens where they stood before, in prompt or answer
    kModel,  ///< a smaller model of the same vocabulary
    kHeads   ///< those that the model was loaded with: LanguageModelOptions::draft_heads
  } source = kNone;
  std::shared_ptr<const LanguageModel> model;  ///< of kModel
  /// Guesses in a step, for each answer, as far as there is room. 0: as many as are expected to
  /// pay, by how often guesses were right and how long steps took; none where none do.
  int64_t tokens = 0;
};

struct EngineOptions {
  int threads = 0;             ///< 0 for as many as the process may use
  std::optional<KvType> kv;    ///< how keys and values are kept; unset: the model's default_kv()
  int64_t cache_tokens = 0;    ///< of all sequences together; 0: the model's context, at most 8192
  int64_t prompt_chunk = 512;  ///< most tokens of a prompt in one step
  int64_t step_tokens = 4096;  ///< of a step, where a GPU computes prompts and answers together
  /// Who reads an answer waits about so long for the next token while prompts of others are read,
  /// which get parts of steps, by what steps took so far: on a CPU of 32 tokens at least, and of as
  /// much time as the answers take; on a GPU of 64. 0: no limit. Unset: 0.1 on a GPU, and on a CPU
  /// 0.04, but longer where short parts would take most of their time for what each takes anew:
  /// that is so only where it is unset. `deterministic` has no limit.
  std::optional<double> step_seconds;
  /// Most bytes, of the memory of the device that the model runs on, for weights, activations and
  /// cache together; 0: no limit. The cache takes what is left, of at most cache_tokens where that
  /// is given, and else of as many tokens as the requests that run together can have.
  size_t memory_limit = 0;
  int64_t most_running = 256;  ///< requests at a time; others wait
  /// Start a request only when the cache has room for all that it may take. Without that it grows
  /// token by token, so that more run at once, and when the cache is full the youngest request
  /// waits and is read again later (see swap_bytes). Its last digits may then be others, in the
  /// exact mode by float rounding alone. Unset: only where `deterministic` is.
  std::optional<bool> reserve_cache;
  /// Host memory for keys and values of requests that wait so: they go on where they were, to the
  /// last bit, instead of being read again. Unset: 4 GiB where the cache is a GPU's, else none.
  std::optional<size_t> swap_bytes;
  /// Begin a prompt with what was read of others that begin alike, finished or not, while the cache
  /// still has it. An answer may then differ in the last digits from that of a prompt that is read
  /// anew, in the exact mode by float rounding alone. Unset: unless `deterministic` is.
  std::optional<bool> reuse_prefixes;
  /// Compute each answer as it would be alone, to the last bit: prompts are read whole and once
  /// (see above), and kernels that take many rows at once leave the answers of a step alone. For
  /// dozens of requests these are many times faster on a GPU and a quarter faster on a CPU with
  /// units for 16-bit numbers, but last digits may depend on how many there are; in the exact mode,
  /// and of up to 12 requests on a CPU, they do not.
  bool deterministic = false;
  DraftOptions draft;
};

/// What came out for one token. `text` may be empty, and belong to tokens before.
struct GeneratedPiece {
  int answer = 0;  ///< of GenerateRequest::n: its index
  int32_t token = 0;
  std::string_view text;
  float logprob = 0;
  std::span<const TokenLogprob> top;
};

/// Beam search: of all continuations of the `width` most likely beginnings the `width` most likely
/// go on, and the best of those that came to an end are the answers, as transformers finds them.
struct BeamOptions {
  int64_t width = 0;  ///< 0: no beam search
  /// The score of an answer is its log-probability divided by its length to this power.
  float length_penalty = 1;
  /// When the search ends: as soon as there are `width` answers; when none of the beams would beat
  /// the worst of these by its score so far; or only when none could at any length.
  enum Stop : unsigned char { kEarly, kUnlikely, kImpossible } stop = kUnlikely;
};

struct GenerateRequest {
  std::vector<int32_t> prompt;
  /// What the tokens for pictures in the prompt stand for, in order: as many rows as there are such
  /// tokens. Empty: those are tokens like others.
  std::vector<std::shared_ptr<const Picture>> pictures;
  int64_t max_tokens = -1;  ///< of the answer; -1: as many as fit
  int64_t min_tokens = 0;   ///< so many come before a token that ends the answer, or a stop
  SamplingOptions sampling;
  std::vector<std::string> stops;    ///< the answer ends before the first of these
  bool ignore_end = false;           ///< go on behind a token that ends answers
  std::vector<int32_t> stop_tokens;  ///< others that end it, whatever ignore_end says
  /// Special tokens stand in the text, for an AnswerParser of harmony's channels; those that end
  /// the answer do not.
  bool special_text = false;
  /// What the answer may say, in the state before its first token: each answer follows a clone.
  std::shared_ptr<const TokenConstraint> constraint;
  /// So many answers; they share the prompt's keys and values. Answer i is that of a lone request
  /// with sampling.seed + i.
  int64_t n = 1;
  /// So many are made, of which the n with the highest mean log-probability are given, best first;
  /// 0: n. No on_piece where it is more than n: which ones are given shows in the end.
  int64_t best_of = 0;
  BeamOptions beams;  ///< gives the n best answers; without draws, stops and on_piece
  /// Log-probabilities of the prompt's tokens, with so many most likely ones of each place; -1:
  /// none.
  int prompt_logprobs = -1;
  int priority = 0;        ///< higher ones begin earlier, and wait last when the cache is full
  uint64_t caller = 0;     ///< requests of different callers share the machine evenly
  std::string cache_salt;  ///< prefixes are reused only among requests of the same salt
  std::string adapter;     ///< the name of one of the model's LoRA adapters; empty: none
  /// Guesses in a step for each answer at most, where the engine makes some; -1: as many as it
  /// says. Beams have none.
  int64_t draft_tokens = -1;
  /// Called for each token, and once more where text was held back at the end (token -1). Returning
  /// false cancels this answer.
  std::function<bool(const GeneratedPiece&)> on_piece;
  /// Called once with what prompt_logprobs asks for, before the first token of an answer; not for a
  /// prompt of one token, of which nothing is known.
  std::function<void(std::span<const float>, std::span<const std::vector<TokenLogprob>>)> on_prompt;
  /// When it ends at the latest, with kDeadline and what it has by then.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// When it came, where that was before Submit.
  std::optional<std::chrono::steady_clock::time_point> arrived;
};

enum class FinishReason : unsigned char { kStop, kLength, kCancelled, kDeadline };
std::string_view Name(FinishReason reason);

struct GenerateTimings {
  double prompt_seconds = 0;       ///< steps that read the prompt, the first token included
  double generate_seconds = 0;     ///< from the first token to the last
  double first_token_seconds = 0;  ///< from its arrival to the first token
  /// When it came, took part in its first step, had its first token, and ended; what did not happen
  /// is zero.
  std::chrono::steady_clock::time_point arrived{}, started{}, first_token{}, finished{};
};

/// Guesses that steps have checked. Without the accepted ones an answer takes one step a token.
struct DraftCounts {
  int64_t steps = 0;  ///< that checked guesses
  int64_t drafted = 0, accepted = 0;
  static constexpr size_t kPlaces = 16;
  std::array<int64_t, kPlaces> accepted_at = {};  ///< by the guess's place in its step

  DraftCounts& operator+=(const DraftCounts& other) {
    steps += other.steps;
    drafted += other.drafted;
    accepted += other.accepted;
    for (size_t i = 0; i < kPlaces; ++i) accepted_at[i] += other.accepted_at[i];
    return *this;
  }
};

struct GeneratedAnswer {
  int index = 0;                ///< among those that were made: what is added to the seed
  std::vector<int32_t> tokens;  ///< with the one that ended it, if one did
  std::string text;
  std::vector<float> logprobs;  ///< one for each token, where sampling.top_logprobs asks for them
  std::vector<std::vector<TokenLogprob>> top;
  /// What answers were compared by: of best_of the mean log-probability, of beams their score.
  float score = 0;
  FinishReason finish = FinishReason::kStop;
  std::string stop;  ///< the stop string that ended it
  GenerateTimings timings;
  DraftCounts draft;
};

/// The answer, the first of several.
struct GenerateResult : GeneratedAnswer {
  std::vector<GeneratedAnswer> others;  ///< n - 1
  int64_t reused_tokens = 0;            ///< of the prompt, that were read for others before
  /// One for each token of the prompt but the first, where prompt_logprobs asks for them.
  std::vector<float> prompt_logprobs;
  std::vector<std::vector<TokenLogprob>> prompt_top;
};

/// Steps by how many tokens they had: those of prompts that they read, and those of answers.
struct StepSizes {
  static constexpr std::array<int64_t, 13> kMost = {1,   8,    16,   32,   64,   128,  256,
                                                    512, 1024, 2048, 4096, 8192, 16384};
  /// By the first of kMost that is not less; the last ones have more than all of these.
  std::array<int64_t, kMost.size() + 1> steps = {};
  int64_t tokens = 0;  ///< of all steps

  void Add(int64_t count) {
    size_t at = 0;
    while (at < kMost.size() && kMost[at] < count) ++at;
    ++steps[at];
    tokens += count;
  }
  StepSizes& operator+=(const StepSizes& other) {
    for (size_t i = 0; i < steps.size(); ++i) steps[i] += other.steps[i];
    tokens += other.tokens;
    return *this;
  }
};

/// What an Engine has done and holds.
struct EngineStats {
  int64_t waiting = 0, waiting_tokens = 0;  ///< requests, and tokens of their prompts
  int64_t swapped = 0;        ///< of those that wait: kept by EngineOptions::swap_bytes
  int64_t running = 0;        ///< requests
  int64_t blocks = 0;         ///< of the cache, of KvCache::kBlockTokens tokens each
  int64_t used_blocks = 0;    ///< of these, the ones of running requests
  int64_t used_tokens = 0;    ///< that those hold
  int64_t cached_blocks = 0;  ///< others, that hold beginnings of prompts
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  ///< of all requests that were admitted
  int64_t reused_tokens = 0;  ///< of these, the ones that the cache had already
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;  ///< times that a request had to wait for blocks and was read again
  DraftCounts draft;        ///< of all answers
  StepSizes step_sizes;     ///< of steps that had any tokens
};

/// Logits of every token of a text, each from those before it in its window: what
/// `visit(i, logits)` gets predicts tokens[i + 1]. Windows of `window` tokens stand side by side.
void VisitLogits(std::shared_ptr<const LanguageModel> model, std::span<const int32_t> tokens,
                 int64_t window, const EngineOptions& options,
                 const std::function<void(int64_t, std::span<const float>)>& visit);

/// Runs requests side by side, each with the result that it would have alone: what goes wrong for
/// one, its callback included, ends that one. Stays usable after an Error. Thread contract: one
/// thread at a time.
class Engine {
 public:
  explicit Engine(std::shared_ptr<const LanguageModel> model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// Queues a request and returns its number. Throws kInvalidArgument or kLimit for one that could
  /// never run: tokens that the model does not have, a prompt that is empty or too long, options
  /// that make no sense, more than 256 stop strings, 1024 log-probabilities a token or 128 answers.
  int64_t Submit(GenerateRequest request);
  /// One step: a part of a prompt, or a token of each request that is running. Returns whether
  /// anything is left to do.
  bool Step();
  /// The result of a request that is finished, once. Throws what went wrong for it, if something
  /// did.
  std::optional<GenerateResult> Take(int64_t request);
  void Cancel(int64_t request);
  /// Submits a request and runs until it is finished.
  GenerateResult Generate(GenerateRequest request);

  const LanguageModel& model() const;
  int64_t cache_tokens() const;
  int threads() const;
  EngineStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort
