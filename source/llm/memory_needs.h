// SPDX-License-Identifier: MIT
// What a model takes of the memory of the device that it runs on.
#pragma once

#include <string_view>

#include "oort/engine.h"

namespace oort {

/// Whether rows of prompts and of answers share a step: where digits of one may depend on others.
inline bool MixesSteps(const LanguageModel& model, const EngineOptions& options) {
  return !options.deterministic && model.facts().step_rows > model.facts().decode_rows;
}

struct MemoryNeeds {
  size_t weights = 0;
  size_t activations = 0;  ///< of the largest step
  size_t block = 0;        ///< of a block of the cache

  size_t fixed() const;  ///< whatever sequences there are
};

/// What is thrown where weights and activations leave no room for `what` within the limit.
Error NoRoom(const MemoryNeeds& needs, std::string_view what, size_t limit);

/// For steps of up to `tokens` tokens of prompts and of up to `answers` answers.
MemoryNeeds NeedsOf(const LanguageModel& model, KvType kv, int64_t tokens, int64_t answers,
                    int threads);

/// Of an Engine with these options, and of the draft heads or the draft model that it has.
MemoryNeeds NeedsOf(const LanguageModel& model, const EngineOptions& options);

/// Tokens of the cache that an Engine with these options has: what cache_tokens says, or else the
/// model's context, at most 8192, or 2^18 where tokens take no memory; with a memory_limit what
/// fits, as many at most as all that run together can use. Throws kLimit where not even one block
/// fits.
int64_t CacheTokens(const LanguageModel& model, const EngineOptions& options);

}  // namespace oort
