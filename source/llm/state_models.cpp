// SPDX-License-Identifier: MIT
#include "llm/state_models.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "core/problems.h"
#include "llm/memory_needs.h"

namespace oort {

Error NotOfStates(const LanguageModelInfo& model, std::string_view what) {
  return {ErrorCode::kUnsupported, std::string(what) + " is not for models of the family " +
                                       Quote(model.family) +
                                       ", whose layers keep a state of each sequence"};
}

EngineOptions WithRoomForStates(const LanguageModel& model, const EngineOptions& options) {
  EngineOptions fitting = options;
  const size_t state = model.state_shape().bytes();
  if (state == 0 || options.memory_limit == 0) return fitting;
  const MemoryNeeds needs = NeedsOf(model, options);
  const bool has_cache = model.kv_shape(KvType::kF32).layers > 0;
  const size_t room = options.memory_limit - std::min(needs.fixed(), options.memory_limit);
  const size_t block = has_cache ? needs.block : 0;
  if (room < CheckedAdd(state, block))
    throw NoRoom(needs, "the state of a sequence", options.memory_limit);
  // Half of what is left is for keys and values, where layers have these, too.
  const size_t most =
      (has_cache ? std::max(std::min(room / 2, room - block), state) : room) / state;
  fitting.most_running = static_cast<int64_t>(
      std::min(most, static_cast<size_t>(std::max<int64_t>(options.most_running, 0))));
  return fitting;
}

}  // namespace oort
