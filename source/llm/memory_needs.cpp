// SPDX-License-Identifier: MIT
#include "llm/memory_needs.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "core/parallel.h"
#include "llm/speculation/drafter.h"
#include "llm/state_models.h"

namespace oort {
namespace {

constexpr int64_t kDefaultCacheTokens = 8192;
/// Of models without keys and values: what counts them takes memory alone, 2 MB.
constexpr int64_t kTokensWithoutCache = int64_t{1} << 18;

/// "1 kB", "20 MB"; what is begun counts.
std::string SizeText(size_t bytes) {
  const auto units = [&](size_t unit) { return std::to_string((bytes + unit - 1) / unit); };
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  return bytes < 1'000'000 ? units(1000) + " kB" : units(1'000'000) + " MB";
}

/// Activations of a step of so many tokens, with the logits of `wanted` of them.
size_t StepBytes(const LanguageModel& model, int64_t tokens, int64_t wanted, int threads) {
  const Tensor rows = Tensor::Meta(DType::kI32, Shape{tokens});
  const MemoryReport memory =
      model.graph()->Plan({rows, rows, Tensor::Meta(DType::kI32, Shape{wanted})}, threads).memory;
  const bool on_host = model.graph()->device().type == DeviceType::kCpu;
  return CheckedAdd(on_host ? memory.arena : memory.device_arena, memory.outputs);
}

/// Of draft heads that guess for so many answers.
MemoryReport PlanOfHeads(const LanguageModel& model, int64_t answers, int threads) {
  const Tensor rows = Tensor::Meta(DType::kF32, Shape{answers, model.info().hidden});
  return model.draft_heads()->Plan({rows}, threads).memory;
}

}  // namespace

MemoryNeeds NeedsOf(const LanguageModel& model, KvType kv, int64_t tokens, int64_t answers,
                    int threads) {
  const int64_t together = std::clamp<int64_t>(answers, 1, model.facts().step_rows);
  // Where prompts are read one by one, none is longer than the context.
  const bool mixes = model.facts().step_rows > model.facts().decode_rows;
  const int64_t chunk =
      std::max<int64_t>(mixes ? tokens : std::min(tokens, model.info().context), 1);
  const Tensor one = Tensor::Meta(DType::kI32, Shape{1});
  const MemoryReport memory = model.graph()->Plan({one, one, one}, threads).memory;
  const bool on_host = model.graph()->device().type == DeviceType::kCpu;
  // What reads pictures and prompts runs between steps, but keeps its memory.
  const ReaderMemory reader = on_host ? model.reader_memory() : ReaderMemory{};
  MemoryNeeds needs;
  needs.weights = CheckedAdd(on_host ? memory.weights : memory.device_weights, reader.weights);
  needs.activations = CheckedAdd(
      std::max(StepBytes(model, chunk, 1, threads), StepBytes(model, together, together, threads)),
      reader.activations);
  needs.block = KvCache::BlockBytes(model.kv_shape(kv));
  if (!on_host) {
    // SequenceTable: four numbers for each token, and one for each sequence that has the block. The
    // cache has a block that is nobody's.
    const int64_t numbers = KvCache::kBlockTokens * 4 + model.facts().step_rows;
    needs.block += static_cast<size_t>(numbers) * sizeof(int32_t);
    needs.activations += needs.block;
  }
  return needs;
}

MemoryNeeds NeedsOf(const LanguageModel& model, const EngineOptions& options) {
  const int threads = options.threads > 0 ? options.threads : AvailableThreads();
  const int64_t tokens = MixesSteps(model, options) ? options.step_tokens : options.prompt_chunk;
  const bool guesses = options.draft.source != DraftOptions::kNone;
  const int64_t answers = std::max(options.most_running, guesses ? kMostCheckedRows : 1);
  MemoryNeeds needs =
      NeedsOf(model, options.kv.value_or(model.default_kv()), tokens, answers, threads);
  if (const RuntimeGraph* const heads = model.draft_heads().get()) {
    const MemoryReport memory = PlanOfHeads(model, std::min(answers, kMostCheckedRows), threads);
    const bool on_host = heads->device().type == DeviceType::kCpu;
    needs.weights = CheckedAdd(needs.weights, on_host ? memory.weights : memory.device_weights);
    const size_t arena = on_host ? memory.arena : memory.device_arena;
    needs.activations = CheckedAdd(needs.activations, CheckedAdd(arena, memory.outputs));
  }
  if (const LanguageModel* const draft = options.draft.model.get()) {
    // It keeps as many tokens as the model does.
    const MemoryNeeds more =
        NeedsOf(*draft, options.kv.value_or(draft->default_kv()), tokens, answers, threads);
    needs.weights = CheckedAdd(needs.weights, more.weights);
    needs.activations = CheckedAdd(needs.activations, more.activations);
    needs.block = CheckedAdd(needs.block, more.block);
  }
  return needs;
}

size_t MemoryNeeds::fixed() const { return CheckedAdd(weights, activations); }

Error NoRoom(const MemoryNeeds& needs, std::string_view what, size_t limit) {
  return {ErrorCode::kLimit, "weights take " + SizeText(needs.weights) + " and activations " +
                                 SizeText(needs.activations) + ", which leaves no room for " +
                                 std::string(what) + " in " + SizeText(limit) +
                                 ": raise the limit, or take weights of fewer bits"};
}

int64_t CacheTokens(const LanguageModel& model, const EngineOptions& options) {
  const int64_t context = model.info().context;
  if (!model.facts().caches_tokens) {
    return options.cache_tokens > 0 ? options.cache_tokens : kTokensWithoutCache;
  }
  const auto usual = [&] {
    return options.cache_tokens > 0 ? options.cache_tokens : std::min(context, kDefaultCacheTokens);
  };
  if (options.memory_limit == 0) return usual();
  const EngineOptions fitting = WithRoomForStates(model, options);
  const MemoryNeeds needs = NeedsOf(model, fitting);
  const size_t states = CheckedMultiply(
      model.state_shape().bytes(), static_cast<size_t>(std::max<int64_t>(fitting.most_running, 0)));
  const size_t taken = CheckedAdd(needs.fixed(), states);
  if (options.memory_limit < CheckedAdd(taken, needs.block)) {
    throw NoRoom(needs, "keys and values", options.memory_limit);
  }
  if (needs.block == 0) return usual();  // other ranks alone have keys and values
  const int64_t blocks = static_cast<int64_t>((options.memory_limit - taken) / needs.block);
  const int64_t most = options.cache_tokens > 0 ? options.cache_tokens
                                                : CheckedMultiply(context, fitting.most_running);
  return std::min(CheckedMultiply(blocks, KvCache::kBlockTokens), most);
}

}  // namespace oort
