// SPDX-License-Identifier: MIT
#include "cuda/live_streams.h"

#include <map>
#include <mutex>

namespace oort::cuda {
namespace {

struct StreamTable {
  std::mutex mutex;
  std::map<uint64_t, cudaStream_t> streams;
};

StreamTable& LiveStreamTable() {
  static StreamTable* const table = new StreamTable;  // never destroyed: static objects hold memory
  return *table;
}

}  // namespace

void LiveStreams::Add(uint64_t id, cudaStream_t stream) {
  StreamTable& table = LiveStreamTable();
  const std::lock_guard lock(table.mutex);
  table.streams.emplace(id, stream);
}

void LiveStreams::Remove(uint64_t id, const std::function<void()>& destroy) {
  StreamTable& table = LiveStreamTable();
  const std::lock_guard lock(table.mutex);
  destroy();
  table.streams.erase(id);
}

bool LiveStreams::With(uint64_t id, const std::function<void(cudaStream_t)>& use) {
  StreamTable& table = LiveStreamTable();
  const std::lock_guard lock(table.mutex);
  const auto found = table.streams.find(id);
  if (found == table.streams.end()) return false;
  use(found->second);
  return true;
}

}  // namespace oort::cuda
