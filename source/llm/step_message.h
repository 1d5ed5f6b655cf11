// SPDX-License-Identifier: MIT
// What rank 0 tells the others to do, as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/kept_state.h"
#include "oort/kv_cache.h"

namespace oort {

enum class RankCommand : uint32_t {
  kNothing,  ///< rank 0 is still there
  kRead,     ///< read a text: of encoder-decoders
  kOpen,     ///< make a cache and a session
  kStep,     ///< run a step
  kCopy,     ///< copy blocks of the cache
  kClose,    ///< let go of a cache and its session
  kStop,     ///< the model is not needed any more
};

/// A step as all ranks run it; block numbers are the same for all.
struct RankStep {
  uint64_t unread_outputs = 0;
  bool rows_alone = true;
  std::vector<int32_t> tokens, positions, rows;
  std::vector<SequenceSlice> slices;  ///< their blocks are in `blocks`
  std::vector<std::vector<int32_t>> blocks;
  std::vector<StateChange> state_changes;  ///< before it
  /// Of each slice, the number of its state; below 0: it has none.
  std::vector<int64_t> states;
  /// The same of the texts that they are about.
  std::vector<int64_t> texts;
};

/// Fields are those of its command; the others stay as they are here.
struct RankMessage {
  RankCommand command = RankCommand::kNothing;
  std::vector<int64_t> ended_texts;  ///< with any command: nobody needs them any more
  uint32_t runner = 0;
  int64_t text = -1;            ///< the number of the one to read
  std::vector<int32_t> prompt;  ///< its tokens
  KvType kv = KvType::kF32;
  int64_t cache_tokens = 0;
  int32_t threads = 0;
  RankStep step;
  std::vector<std::pair<int32_t, int32_t>> copies;

  std::vector<std::byte> Write() const;
  /// Throws kDevice for bytes that Write did not give: counts are checked before memory is taken.
  static RankMessage Read(std::span<const std::byte> bytes);
};

}  // namespace oort
