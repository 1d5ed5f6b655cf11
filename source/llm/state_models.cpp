// SPDX-License-Identifier: MIT
#include "llm/state_models.h"

#include <algorithm>
#include <string>

#include "core/problems.h"
#include "llm/memory_needs.h"

namespace oort {

Error NotOfStates(const LanguageModelInfo& model, std::string_view what) {
  return {ErrorCode::kUnsupported,
          std::string(what) + " is not for models of the family " + Quote(model.family) +
              ", whose layers keep a state of each sequence in place of keys and values"};
}

EngineOptions WithRoomForStates(const LanguageModel& model, const EngineOptions& options) {
  EngineOptions fitting = options;
  const size_t state = model.state_shape().bytes();
  if (state == 0 || options.memory_limit == 0) return fitting;
  const MemoryNeeds needs = NeedsOf(model, options);
  const size_t taken = std::min(needs.fixed(), options.memory_limit);
  const size_t room = (options.memory_limit - taken) / state;
  if (room == 0) throw NoRoom(needs, "the state of a sequence", options.memory_limit);
  fitting.most_running = static_cast<int64_t>(
      std::min(room, static_cast<size_t>(std::max<int64_t>(options.most_running, 0))));
  return fitting;
}

}  // namespace oort
