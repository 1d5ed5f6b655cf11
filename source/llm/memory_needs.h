// SPDX-License-Identifier: MIT
// What a model takes of the memory of the device that it runs on.
#pragma once

#include "oort/engine.h"

namespace oort {

struct MemoryNeeds {
  size_t weights = 0;
  size_t activations = 0;  ///< of the largest step
  size_t block = 0;        ///< of a block of the cache
};

/// For steps of prompts of up to `prompt_chunk` tokens and of up to `answers` answers together.
MemoryNeeds NeedsOf(const LanguageModel& model, KvType kv, int64_t prompt_chunk, int64_t answers,
                    int threads);

/// Tokens of the cache that an Engine with these options has: what cache_tokens says, or else the
/// model's context, at most 8192; with a memory_limit what fits, as many at most as all that run
/// together can use. Throws kLimit where not even one block fits.
int64_t CacheTokens(const LanguageModel& model, const EngineOptions& options);

}  // namespace oort
