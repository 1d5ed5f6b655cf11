// SPDX-License-Identifier: MIT
// Host memory for the keys and values of sequences that had to give up their blocks.
#pragma once

#include <map>
#include <memory>

#include "cuda/stream.h"
#include "llm/scheduler.h"
#include "oort/kv_cache.h"

namespace oort {

/// Copies blocks of preempted sequences out of the cache and back, bit by bit, so that they need
/// not be read again: pinned memory where the cache is a GPU's. No step may be under way meanwhile.
/// Thread contract: one thread at a time.
class SwapSpace final : public BlockSaver {
 public:
  /// Takes at most so many bytes; with 0 it keeps nothing.
  SwapSpace(const KvCache& cache, size_t most_bytes);

  bool Save(const Sequence& sequence) override;
  void Restore(const Sequence& sequence) override;
  void Forget(const Sequence& sequence) noexcept override;

  size_t bytes() const { return bytes_; }  ///< that it holds now
  int64_t sequences() const { return static_cast<int64_t>(kept_.size()); }

 private:
  /// `use(in_cache, in_memory, bytes)` for each layer of each block of the sequence.
  template <typename Use>
  void ForEachPiece(const Sequence& sequence, std::byte* memory, const Use& use) const;

  const KvCache& cache_;
  size_t most_bytes_, block_bytes_;
  size_t bytes_ = 0;
  std::unique_ptr<cuda::Stream> stream_;  // where the cache is a GPU's, once it is needed
  std::map<int64_t, std::shared_ptr<Buffer>> kept_;  // by the sequence's id
};

}  // namespace oort
