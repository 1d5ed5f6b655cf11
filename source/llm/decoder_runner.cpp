// SPDX-License-Identifier: MIT
#include "llm/decoder_runner.h"

#include <algorithm>
#include <array>
#include <random>

#include "core/checked.h"
#include "cuda/memory.h"
#include "decoder/decoder_graph.h"
#include "layers/attention/paged/sequence_table.h"
#include "llm/picture_places.h"
#include "llm/rank_group.h"

namespace oort {

KvCache MakeKvCache(const LanguageModel& model, KvType type, int64_t tokens) {
  const KvShape shape = model.kv_shape(type);
  const Device device = model.facts().attention_device;
  const bool on_host = device.type == DeviceType::kCpu;
  if (on_host && type == KvType::kFp8) {
    throw Error(
        ErrorCode::kUnsupported,
        "keys and values are kept as fp8 on a GPU alone, and attention of this model runs on "
        "the CPU: int8 takes as little there");
  }
  if (!on_host && type == KvType::kK6V4) {
    throw Error(ErrorCode::kUnsupported,
                "keys and values are kept as k6v4 on a CPU alone, and attention of this model runs "
                "on a GPU: int8 and fp8 are what it has");
  }
  // A GPU has one more, for rows that stand for nobody.
  const bool has_spare = !on_host || cuda::TokenDrawerOverride::active();
  const int64_t blocks = KvCache::BlocksFor(tokens) + (has_spare ? 1 : 0);
  const size_t bytes = KvCache::Bytes(shape, blocks);
  try {
    if (on_host) return {shape, blocks};
    return {shape, blocks, cuda::AllocateDevice(bytes, device.index)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    throw Error(ErrorCode::kOutOfMemory,
                "keys and values of " + std::to_string(tokens) + " tokens take " +
                    std::to_string(bytes / 1'000'000) + " MB, and " + error.what() +
                    ": ask for a smaller context, or for what is left (memory_limit)");
  }
}

std::unique_ptr<cuda::SequenceTable> MakeSequenceTable(const LanguageModel& model,
                                                       const KvCache& cache) {
  if (cache.device().type == DeviceType::kCpu) return nullptr;
  // Sequences that share blocks have them in their lists each.
  const int64_t rows = model.facts().step_rows;
  const int64_t longest = std::min(KvCache::BlocksFor(model.info().context) + 1, cache.blocks());
  return std::make_unique<cuda::SequenceTable>(
      cache.device().index, CheckedAdd(cache.blocks() * KvCache::kBlockTokens, rows),
      CheckedMultiply(longest, rows));
}

namespace {

/// Nobody who sends prompts can know which of them share a bucket.
uint64_t RandomKey() {
  std::random_device source;
  return (static_cast<uint64_t>(source()) << 32) | source();
}

/// What a step put into sequences that did not come to its end.
void TakeBack(std::span<const StepItem> items) {
  for (const StepItem& item : items) {
    if (item.sequence == nullptr) continue;
    item.sequence->length -= static_cast<int64_t>(item.tokens.size());
    if (item.sequence->state) item.sequence->state->torn = true;
  }
}

/// The step is over that PrepareStates was called for.
void KeepState(CachedSequence& sequence) {
  if (sequence.state) sequence.state->torn = false;
}

}  // namespace

DecoderRunner::DecoderRunner(std::shared_ptr<const LanguageModel> model, KvType type,
                             int64_t cache_tokens, int threads, bool fast_batches)
    : model_(std::move(model)),
      cache_(MakeKvCache(*model_, type, cache_tokens)),
      pool_(KvCache::BlocksFor(cache_tokens), RandomKey()),
      table_(MakeSequenceTable(*model_, cache_)),
      spare_block_(static_cast<int32_t>(pool_.blocks())),
      fast_batches_(fast_batches),
      made_on_(model_->facts().logits_device),
      draws_(made_on_.type != DeviceType::kCpu || cuda::TokenDrawerOverride::active()),
      tokens_stay_(table_ || cuda::TokenDrawerOverride::active()),
      session_(model_->graph(), {.threads = ThreadsOfRank(*model_, threads)}),
      has_states_(model_->info().state_bytes > 0) {
  if (RankGroup* group = model_->rank_group().get()) {
    if (has_states_) state_log_ = std::make_shared<StateLog>();
    rank_runner_ = group->Open(type, cache_tokens, ThreadsOfRank(*model_, threads));
  }
}

DecoderRunner::~DecoderRunner() {
  Drop();
  if (rank_runner_ != 0) model_->rank_group()->Close(rank_runner_);
}

/// Takes the blocks that the new tokens need; all or none.
void DecoderRunner::Reserve(std::span<const StepItem> items) {
  const auto length = [](const StepItem& item) {
    return item.sequence->length + static_cast<int64_t>(item.tokens.size());
  };
  int64_t needed = 0;
  for (const StepItem& item : items) {
    if (item.sequence == nullptr) continue;
    SequenceBlocks& blocks = item.sequence->blocks;
    if (!blocks.has_pool()) blocks = SequenceBlocks(pool_);
    needed += std::max<int64_t>(0, KvCache::BlocksFor(length(item)) - blocks.size());
  }
  if (needed > pool_.free_blocks()) {
    throw Error(ErrorCode::kLimit,
                "the key-value cache holds " +
                    std::to_string(pool_.blocks() * KvCache::kBlockTokens) + " tokens, and " +
                    std::to_string((needed - pool_.free_blocks()) * KvCache::kBlockTokens) +
                    " more are needed: a larger context makes room");
  }
  for (const StepItem& item : items) {
    if (item.sequence != nullptr) item.sequence->blocks.Grow(length(item));
  }
  PrepareStates(items);
}

/// Sequences that have no state yet get one; from here on it is torn, until the step is over.
void DecoderRunner::PrepareStates(std::span<const StepItem> items) {
  if (!has_states_) return;
  for (const StepItem& item : items) {
    if (item.sequence == nullptr) continue;
    std::unique_ptr<KeptState>& state = item.sequence->state;
    const bool is_known = state != nullptr && !state->torn;
    if (item.sequence->length > 0 && !is_known) {
      throw Error(ErrorCode::kInternal, "the state of a sequence is lost: it has to be read again");
    }
    if (state == nullptr) state = std::make_unique<KeptState>(model_->state_shape(), state_log_);
  }
  for (const StepItem& item : items) {
    if (item.sequence != nullptr) item.sequence->state->torn = true;
  }
}

std::span<const float> DecoderRunner::Step(std::span<const StepItem> items,
                                           const RunOptions& options) {
  Run(items, options, logits_, Device::Cpu(), Wanted::kLogits);
  return logits_.span<float>();
}

std::span<const int32_t> DecoderRunner::StepArgmax(std::span<const StepItem> items,
                                                   const RunOptions& options) {
  Run(items, options, unseen_logits_, made_on_, Wanted::kArgmax);
  return argmax_.span<int32_t>();
}

void DecoderRunner::CopyBlocks(std::span<const std::pair<int32_t, int32_t>> copies) {
  const Device device = cache_.device();
  const bool on_host = device.type == DeviceType::kCpu;
  if (!on_host && !block_copies_) block_copies_ = std::make_unique<cuda::Stream>(device.index);
  if (rank_runner_ != 0) {
    RankMessage message;
    message.command = RankCommand::kCopy;
    message.runner = rank_runner_;
    message.copies.assign(copies.begin(), copies.end());
    model_->rank_group()->Lead(message, [] {});
  }
  for (const auto& [from, to] : copies) cache_.CopyBlock(from, to, block_copies_.get());
  if (!on_host) block_copies_->Synchronize();
}

void DecoderRunner::Fit(Tensor& tensor, DType dtype, const Shape& shape, Device where) const {
  if (tensor.defined() && tensor.shape() == shape) return;
  const size_t bytes = Tensor::Meta(dtype, shape).bytes();
  std::shared_ptr<Buffer> buffer = tensor.defined() ? tensor.buffer() : nullptr;
  if (!buffer || buffer->size() < bytes) {
    if (where.type != DeviceType::kCpu) {
      buffer = cuda::AllocateDevice(bytes, where.index);
    } else {
      const bool for_device = table_ || made_on_.type != DeviceType::kCpu;
      buffer = for_device ? cuda::AllocatePinned(bytes) : AllocateHost(bytes);
    }
  }
  tensor = Tensor(dtype, shape, std::move(buffer));
}

void DecoderRunner::Run(std::span<const StepItem> items, const RunOptions& options, Tensor& logits,
                        Device logits_on, Wanted wanted) {
  RunOptions run = options;
  run.unread_outputs = uint64_t{1} << (wanted == Wanted::kLogits ? kArgmaxOutput : kLogitsOutput);
  hidden_at_ = hidden_.size() - 1;
  PendingForward forward = Begin(items, run, {}, logits, logits_on, argmax_, hidden_[hidden_at_]);
  try {
    forward.Wait();
  } catch (...) {
    TakeBack(items);
    throw;
  }
  for (const StepItem& item : items) {
    if (item.sequence != nullptr) KeepState(*item.sequence);
  }
}

void DecoderRunner::BeginStep(std::span<const StepItem> items, bool continues) {
  UnderWay& step = under_way_.emplace_back();
  try {
    for (const StepItem& item : items) {
      if (item.sequence != nullptr) step.grown.emplace_back(item.sequence, std::ssize(item.tokens));
    }
    const Tensor tokens = continues ? picked_[(begun_ + 1) % 2] : Tensor();
    const size_t turn = begun_ % 2;
    step.forward = Begin(items, {}, tokens, unseen_logits_, made_on_, picked_[turn], hidden_[turn]);
  } catch (...) {
    under_way_.pop_back();
    throw;
  }
  ++begun_;
}

cuda::TokenDrawer& DecoderRunner::drawer() {
  if (!drawer_) drawer_ = cuda::MakeTokenDrawer(session_.stream());
  if (!drawer_) throw Error(ErrorCode::kInternal, "tokens are drawn where there is no device");
  return *drawer_;
}

void DecoderRunner::DrawRows(std::span<const cuda::TokenDraw> draws) {
  if (draws.empty()) return;
  const size_t turn = (begun_ + 1) % 2;
  drawer().Begin(turn, unseen_logits_, draws, picked_[turn].data<int32_t>());
  under_way_.back().draws = true;
}

StepTokens DecoderRunner::EndStep(std::span<const int32_t> rows_of_logits) {
  const size_t turn = (begun_ - under_way_.size()) % 2;
  StepTokens result{.tokens = picked_[turn].span<int32_t>()};
  try {
    under_way_.front().forward.Wait();
    hidden_at_ = turn;
    if (under_way_.front().draws) result.reports = drawer().End(turn);
    if (!rows_of_logits.empty()) {
      CopyLogits(rows_of_logits);
      result.logits = logits_.span<float>();
    }
  } catch (...) {
    Drop();
    throw;
  }
  for (const auto& [sequence, tokens] : under_way_.front().grown) KeepState(*sequence);
  under_way_.pop_front();
  return result;
}

std::span<const float> DecoderRunner::hidden() const {
  const Tensor& rows = hidden_[hidden_at_];
  return rows.defined() ? rows.span<float>() : std::span<const float>();
}

/// Of the step that ran last, into logits_.
void DecoderRunner::CopyLogits(std::span<const int32_t> rows) {
  Fit(logits_, DType::kF32, {static_cast<int64_t>(rows.size()), vocabulary()}, Device::Cpu());
  const bool on_host = made_on_.type == DeviceType::kCpu;
  if (!on_host && !copies_) copies_ = std::make_unique<cuda::Stream>(made_on_.index);
  const size_t row_bytes = static_cast<size_t>(vocabulary()) * sizeof(float);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::byte* const to = logits_.raw() + i * row_bytes;
    const std::byte* const from = unseen_logits_.raw() + static_cast<size_t>(rows[i]) * row_bytes;
    if (on_host) {
      std::copy_n(from, row_bytes, to);
    } else {
      copies_->CopyToHost(to, from, row_bytes);
    }
  }
  if (!on_host) copies_->Synchronize();
}

DrawnToken DecoderRunner::DrawAgain(const cuda::TokenDraw& draw) {
  constexpr size_t kTurn = 2;  // what steps have told stays as it is
  const int64_t rows = unseen_logits_.dim(0);
  Fit(picked_again_, DType::kI32, {rows}, Device::Cpu());
  drawer().Begin(kTurn, unseen_logits_, {&draw, 1}, picked_again_.data<int32_t>());
  const cuda::DrawReport report = drawer().End(kTurn)[0];
  return {picked_again_.span<int32_t>()[static_cast<size_t>(draw.row)], report};
}

void DecoderRunner::Drop() noexcept {
  const auto wait = [](const auto& body) {
    try {
      body();
    } catch (const std::exception&) {
      // What went wrong in a step that nobody asks for is told by the next one.
    }
  };
  for (size_t i = 0; i < under_way_.size(); ++i) {
    UnderWay& step = under_way_[i];
    wait([&] { step.forward.Wait(); });
    // Also behind a step that failed: what a draw reads is written again by the next one.
    if (step.draws) wait([&] { drawer_->End((begun_ - under_way_.size() + i) % 2); });
    for (const auto& [sequence, tokens] : step.grown) sequence->length -= tokens;
  }
  under_way_.clear();
}

/// The rows of a step, and of whom they are.
void DecoderRunner::Describe(std::span<const StepItem> items) {
  tokens_.clear();
  positions_.clear();
  rows_.clear();
  slices_.clear();
  states_.clear();
  texts_.clear();
  pictures_.clear();
  // Rows of nobody have no state.
  const bool fills = table_ != nullptr && items.size() > 1 && !has_states_;
  bool filled = !fills;
  for (const StepItem& item : items) {
    if (!filled && item.tokens.size() > 1) {
      FillUp(items);
      filled = true;
    }
    AddSlice(item);
  }
  if (!filled) FillUp(items);
  // Logits of nobody come behind those that are wanted.
  if (table_ == nullptr || items.size() < 2 || rows_.empty()) return;
  const size_t wanted = static_cast<size_t>(RoundRows(static_cast<int64_t>(rows_.size())));
  rows_.resize(wanted, rows_.back());
}

/// The next row is one of a picture.
void DecoderRunner::AddPictureRow(const StepItem& item, int64_t position) {
  const bool has_some = item.sequence != nullptr && item.sequence->pictures != nullptr;
  const float* const row = has_some ? item.sequence->pictures->RowAt(position) : nullptr;
  if (row == nullptr || table_ != nullptr || rank_runner_ != 0) {
    throw Error(ErrorCode::kInternal, "a row of a picture is not there");
  }
  pictures_.push_back({static_cast<int64_t>(tokens_.size()), row});
}

void DecoderRunner::AddSlice(const StepItem& item) {
  const int64_t first = static_cast<int64_t>(tokens_.size());
  const int64_t count = static_cast<int64_t>(item.tokens.size());
  const int64_t position = item.sequence == nullptr ? 0 : item.sequence->length;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = item.tokens[static_cast<size_t>(i)];
    if (token < 0) AddPictureRow(item, position + i);
    tokens_.push_back(std::max(token, 0));
    positions_.push_back(static_cast<int32_t>(position + i));
    const bool last = i + 1 == count;
    if (item.logits == StepItem::kAll || (item.logits == StepItem::kLast && last)) {
      rows_.push_back(static_cast<int32_t>(first + i));
    }
  }
  const std::span<const int32_t> blocks = item.sequence == nullptr
                                              ? std::span<const int32_t>(&spare_block_, 1)
                                              : item.sequence->blocks.blocks();
  const int32_t adapter = item.sequence == nullptr ? -1 : item.sequence->adapter;
  const EncodedText* const text = item.sequence == nullptr ? nullptr : item.sequence->text;
  KeptState* const state = item.sequence == nullptr ? nullptr : item.sequence->state.get();
  const auto add = [&](int64_t at, int64_t rows) {
    slices_.push_back({first + at, rows, position + at, blocks, item.length, adapter, text, state});
    states_.push_back(state == nullptr ? -1 : state->number());
    texts_.push_back(text == nullptr ? -1 : text->number);
  };
  // The CPU's kernels for several tokens of a sequence sum in another order than those for one. A
  // GPU has one kernel for few rows, which needs to know that some of them read what others write.
  if (item.one_by_one && table_ == nullptr) {
    for (int64_t i = 0; i < count; ++i) add(i, 1);
    return;
  }
  add(0, count);
}

/// Kernels are chosen, and runs recorded, for few different numbers. Up to 16 rows a GPU's kernels
/// take any number, and compute each row as if it were alone; for some formats of weights those for
/// many are faster from fewer rows on.
int64_t DecoderRunner::RoundRows(int64_t rows) const {
  constexpr int64_t kInvariantRows = 16, kFewestOfMany = 24;
  if (rows <= kInvariantRows) {
    return fast_batches_ && rows > model_->facts().fast_decode_rows ? kFewestOfMany : rows;
  }
  const int64_t unit = rows <= 64 ? 8 : rows <= 128 ? 16 : rows <= 512 ? 32 : 64;
  return (rows + unit - 1) / unit * unit;
}

void DecoderRunner::FillUp(std::span<const StepItem> items) {
  static constexpr int32_t kAnyToken = 0;
  int64_t rows = 0;
  for (const StepItem& item : items) rows += static_cast<int64_t>(item.tokens.size());
  for (int64_t missing = RoundRows(rows) - rows; missing > 0; --missing) {
    AddSlice({nullptr, {&kAnyToken, 1}, StepItem::kNone});
  }
}

PendingForward DecoderRunner::Begin(std::span<const StepItem> items, const RunOptions& options,
                                    const Tensor& tokens, Tensor& logits, Device logits_on,
                                    Tensor& argmax, Tensor& hidden) {
  Reserve(items);
  Describe(items);
  const auto borrow = [](std::vector<int32_t>& values) {
    return Tensor::Borrow(values.data(), Shape{static_cast<int64_t>(values.size())});
  };
  if (table_) table_->Set(slices_);
  const bool rows_alone = !fast_batches_ || std::ranges::any_of(items, &StepItem::one_by_one);
  const SequenceBatch batch{slices_, &cache_, table_.get(), rows_alone, pictures_};
  RunOptions run = options;
  run.state = &batch;
  const int64_t rows = static_cast<int64_t>(rows_.size());
  Fit(logits, DType::kF32, {rows, vocabulary()}, logits_on);
  Fit(argmax, DType::kI32, {rows}, Device::Cpu());
  std::array<Tensor, 3> made = {logits, argmax};
  std::span<Tensor> outputs(made.data(), 2);
  if (model_->draft_heads()) {
    Fit(hidden, DType::kF32, {rows, model_->info().hidden}, Device::Cpu());
    made[kHiddenOutput] = hidden;
    outputs = made;
  }
  const std::array<Tensor, 3> inputs = {tokens.defined() ? tokens : borrow(tokens_),
                                        borrow(positions_), borrow(rows_)};
  PendingForward forward = Forward(inputs, outputs, run, rows_alone);
  for (const StepItem& item : items) {
    if (item.sequence == nullptr) continue;
    item.sequence->length += static_cast<int64_t>(item.tokens.size());
  }
  return forward;
}

PendingForward DecoderRunner::Forward(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                                      const RunOptions& options, bool rows_alone) {
  if (rank_runner_ == 0) return session_.ForwardLater(inputs, outputs, options);
  // Ranks cannot stop in the middle of a step that others go on with.
  if (options.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "cancelled");
  RunOptions run = options;
  run.stop = {};
  RankGroup& group = *model_->rank_group();
  RankMessage message;
  message.command = RankCommand::kStep;
  message.runner = rank_runner_;
  message.step = {.unread_outputs = run.unread_outputs,
                  .rows_alone = rows_alone,
                  .tokens = tokens_,
                  .positions = positions_,
                  .rows = rows_,
                  .slices = slices_,
                  .blocks = {},
                  .state_changes = {},
                  .states = states_,
                  .texts = texts_};
  if (state_log_) message.step.state_changes = state_log_->Take();
  group.Lead(message, [&] {
    const GroupScope scope(group.collective());
    session_.ForwardInto(inputs, outputs, run);  // who waits here looks after the others
  });
  return {};
}

}  // namespace oort
