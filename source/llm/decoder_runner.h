// SPDX-License-Identifier: MIT
// Steps of a decoder: tokens of several sequences in, logits out, keys and values kept between.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "llm/block_pool.h"
#include "llm/sampling/token_drawer.h"
#include "oort/kv_cache.h"
#include "oort/language_model.h"
#include "oort/session.h"

namespace oort {

/// An empty cache for so many tokens, where the model's attention runs.
KvCache MakeKvCache(const LanguageModel& model, KvType type, int64_t tokens);
/// For batches of that cache; null for one in host memory.
std::unique_ptr<cuda::SequenceTable> MakeSequenceTable(const LanguageModel& model,
                                                       const KvCache& cache);

/// Tokens of one sequence in one step.
struct StepItem {
  CachedSequence* sequence = nullptr;  ///< null: a row that stands for nobody, of one token
  std::span<const int32_t> tokens;     ///< what comes behind those that the cache holds
  enum Logits : unsigned char { kNone, kLast, kAll } logits = kLast;
  int64_t length = 0;  ///< that the sequence is known to come to, if more is to follow
  /// Each token is computed as it would be in a step of its own, bit for bit: in few rows.
  bool one_by_one = false;
};

/// What a step gives; valid until the next but one begins.
struct StepTokens {
  std::span<const int32_t> tokens{};            ///< one of each row; -1 where there is none
  std::span<const cuda::DrawReport> reports{};  ///< of rows that were drawn, in order
  std::span<const float> logits{};              ///< of rows that were asked for
};

struct DrawnToken {
  int32_t token = -1;
  cuda::DrawReport report;
};

/// Thread contract: one thread at a time.
class DecoderRunner {
 public:
  /// `fast_batches`: steps of several sequences may be computed by kernels that sum in another
  /// order than that of one, where these are faster.
  DecoderRunner(std::shared_ptr<const LanguageModel> model, KvType type, int64_t cache_tokens,
                int threads, bool fast_batches = false);
  ~DecoderRunner();

  /// Runs the items as one batch and returns the logits that they want, row by row in their order;
  /// valid until the next step. Where it throws, no sequence has changed, but states are lost
  /// (SequenceState::torn): such a sequence is read again from its beginning.
  std::span<const float> Step(std::span<const StepItem> items, const RunOptions& options = {});
  /// The same for who only wants the argmax of each row, -1 where there is none: on a GPU
  /// nothing else comes to the host.
  std::span<const int32_t> StepArgmax(std::span<const StepItem> items,
                                      const RunOptions& options = {});

  // A step in parts, for who has tokens drawn where the logits are, or begins the next step before
  // it knows the tokens of this one: they go from one to the other on the GPU.

  /// Begins a step. `continues`: with one token for each item, not those of the items, but those
  /// that are picked in the step begun last, known or not; the sequences are the same, or nobody's
  /// from now on. Two may be under way, and their sequences must outlive them.
  void BeginStep(std::span<const StepItem> items, bool continues);
  /// Once for a step, the one begun last: the tokens of these rows are drawn, those of the others
  /// are the argmax. The draws are those of a Sampler but for rounding.
  void DrawRows(std::span<const cuda::TokenDraw> draws);
  /// Waits for the step that was begun first; logits of these rows of it come to the host, where no
  /// other step is under way. Where it throws, no step is under way any more.
  StepTokens EndStep(std::span<const int32_t> rows_of_logits = {});
  size_t steps_under_way() const { return under_way_.size(); }
  /// Another token of a row of the step that ended last, while no other is under way.
  DrawnToken DrawAgain(const cuda::TokenDraw& draw);
  /// Of each row of the step that ended last what heads guess from, row by row; empty where the
  /// model has no such heads. Valid as long as what the step gave.
  std::span<const float> hidden() const;
  /// Whether DrawRows can be called: where logits stay on a GPU.
  bool draws_on_device() const { return draws_; }
  /// Whether steps may continue others: on a GPU that reads the tokens again by itself. Other
  /// ranks are told each token, and from a state no token can be taken back.
  bool can_run_ahead() const { return draws_ && tokens_stay_ && rank_runner_ == 0 && !has_states_; }
  /// Waits for the steps under way, whose tokens leave the sequences again.
  void Drop() noexcept;

  /// Copies blocks of the cache, each from `first` to `second`.
  void CopyBlocks(std::span<const std::pair<int32_t, int32_t>> copies);

  /// The book-keeping of the cache's blocks. A sequence without blocks gets them from here when a
  /// step needs them.
  BlockPool& pool() { return pool_; }
  const BlockPool& pool() const { return pool_; }

  const LanguageModel& model() const { return *model_; }
  const KvCache& cache() const { return cache_; }
  int64_t vocabulary() const { return model_->info().vocabulary; }
  int threads() const { return session_.threads(); }
  size_t activation_bytes() const { return session_.memory(); }

 private:
  struct UnderWay {
    std::vector<std::pair<CachedSequence*, int64_t>> grown;  // sequences, by so many tokens
    PendingForward forward;
    bool draws = false;
  };

  void Reserve(std::span<const StepItem> items);
  cuda::TokenDrawer& drawer();
  void CopyLogits(std::span<const int32_t> rows);
  void PrepareStates(std::span<const StepItem> items);
  /// What a step is asked for: what nobody reads need not be computed.
  enum class Wanted : unsigned char { kLogits, kArgmax };
  /// Fills `logits` or argmax_, and hidden.
  void Run(std::span<const StepItem> items, const RunOptions& options, Tensor& logits,
           Device logits_on, Wanted wanted);
  /// The same with `argmax`, and with `tokens` instead of those of the items where it is
  /// defined; the sequences are longer by what is still under way.
  PendingForward Begin(std::span<const StepItem> items, const RunOptions& options,
                       const Tensor& tokens, Tensor& logits, Device logits_on, Tensor& argmax,
                       Tensor& hidden);
  void Describe(std::span<const StepItem> items);
  void AddPictureRow(const StepItem& item, int64_t position);
  void AddSlice(const StepItem& item);
  /// Rows for nobody behind the single ones, so that steps have few different numbers of rows.
  void FillUp(std::span<const StepItem> items);
  /// The number of rows that a step of at least so many gets.
  int64_t RoundRows(int64_t rows) const;
  /// Makes it a tensor of that shape there, in the memory that it has if that will do.
  void Fit(Tensor& tensor, DType dtype, const Shape& shape, Device where) const;

  /// Runs the step that Describe has described, on all ranks.
  PendingForward Forward(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                         const RunOptions& options, bool rows_alone);

  std::shared_ptr<const LanguageModel> model_;
  KvCache cache_;
  BlockPool pool_;
  std::unique_ptr<cuda::SequenceTable> table_;  // where the cache is a GPU's
  int32_t spare_block_ = 0;                     // of the cache: what rows for nobody write
  bool fast_batches_;
  Device made_on_;                              // where logits come from
  bool draws_, tokens_stay_;                    // there; and go into the next step
  std::unique_ptr<cuda::Stream> copies_;        // there, when it is asked for
  std::unique_ptr<cuda::Stream> block_copies_;  // where the cache is, likewise
  Session session_;
  std::unique_ptr<cuda::TokenDrawer> drawer_;  // in the session's stream, likewise
  uint32_t rank_runner_ = 0;                   // by which other ranks know this one
  bool has_states_;                            // sequences of the model, if perhaps not here
  std::shared_ptr<StateLog> state_log_;        // for other ranks
  // Kept from step to step, so that a step need not allocate them.
  std::vector<int32_t> tokens_, positions_, rows_;
  std::vector<SequenceSlice> slices_;
  std::vector<int64_t> states_, texts_;  // of each slice, numbers of its state and of its text
  std::vector<PictureRow> pictures_;
  Tensor logits_, argmax_;  // on the host
  Tensor unseen_logits_;    // where they were made
  std::deque<UnderWay> under_way_;
  std::array<Tensor, 2> picked_;  // what steps pick, in turns: the next one reads it, too
  // What draft heads read, of steps in turns, and of those that Run runs.
  std::array<Tensor, 3> hidden_;
  size_t hidden_at_ = 0;  // in which of these that of the step is that ended last
  Tensor picked_again_;
  size_t begun_ = 0;  // steps, so whose turn it is
};

}  // namespace oort
