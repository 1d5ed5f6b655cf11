// SPDX-License-Identifier: MIT
// What a BlockPool has to say, from code that is too simple to be wrong.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace oort::testing {

/// The same book-keeping by maps and lists that are searched from end to end.
class NaivePool {
 public:
  struct Known {
    std::pair<int32_t, uint32_t> parent;
    uint64_t name_space = 0;
    std::vector<int32_t> tokens;
    bool operator==(const Known&) const = default;
  };

  explicit NaivePool(int32_t blocks) : users(static_cast<size_t>(blocks)), generations(users) {
    for (int32_t i = 0; i < blocks; ++i) unknown.push_back(i);
  }
  std::optional<int32_t> Take() {
    std::list<int32_t>& from = unknown.empty() ? cached : unknown;
    if (from.empty()) return {};
    const int32_t block = from.front();
    from.pop_front();
    published.erase(block);
    ++generations[static_cast<size_t>(block)];
    users[static_cast<size_t>(block)] = 1;
    return block;
  }
  void Release(int32_t block) {
    if (--users[static_cast<size_t>(block)] > 0) return;
    published.contains(block) ? cached.push_back(block) : unknown.push_front(block);
  }
  std::optional<int32_t> Lookup(const Known& known) const {
    for (const auto& [block, other] : published) {
      if (other == known) return block;
    }
    return {};
  }
  std::optional<int32_t> Find(const Known& known) {
    const std::optional<int32_t> block = Lookup(known);
    if (block && users[static_cast<size_t>(*block)]++ == 0) cached.remove(*block);
    return block;
  }
  int32_t Publish(int32_t block, const Known& known) {
    if (const std::optional<int32_t> found = Lookup(known)) return *found;
    published[block] = known;
    return block;
  }
  std::optional<int32_t> TakePartial(Known known) {
    if (known.tokens.size() > 15) known.tokens.resize(15);
    for (; !known.tokens.empty(); known.tokens.pop_back()) {
      const std::optional<int32_t> block = Lookup(known);
      if (!block) continue;
      cached.remove(*block);
      published.erase(*block);
      ++generations[static_cast<size_t>(*block)];
      users[static_cast<size_t>(*block)] = 1;
      return block;
    }
    return {};
  }
  std::pair<int32_t, uint32_t> Ref(int32_t block) const {
    return {block, static_cast<uint32_t>(generations[static_cast<size_t>(block)])};
  }

  std::vector<int32_t> users, generations;
  std::list<int32_t> unknown, cached;  ///< without users, the next to be taken first
  std::map<int32_t, Known> published;
};

}  // namespace oort::testing
