// SPDX-License-Identifier: MIT
#include "grammar/masks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace oort::grammar {
namespace {

constexpr size_t kMostMaskBytes = size_t{64} << 20;
constexpr size_t kMostMachineBytes = size_t{32} << 20;
constexpr int kWideBytes = 64;  // a state that takes so many bytes has a long walk

/// Calls visit(node, configuration) for the nodes of the trie from `first` to `last` whose bytes
/// may follow in `at`; they lie `depth` deep or deeper.
template <typename Visit>
void WalkTrie(Machine& machine, int32_t at, const TokenTrie& trie, uint32_t first, uint32_t last,
              size_t depth, const Visit& visit) {
  std::vector<int32_t> above(trie.depth() + 1);
  above[0] = at;
  for (uint32_t i = first; i < last;) {
    const TokenTrie::Node& node = trie.node(i);
    const size_t level = node.depth - depth;
    const int32_t here = machine.Step(above[level], node.byte);
    if (here == Machine::kDead) {
      i = node.next;
      continue;
    }
    above[level + 1] = here;
    visit(i, here);
    ++i;
  }
}

}  // namespace

void StateMask::Keep(std::vector<uint32_t> all) {
  size_t count = 0;
  for (const uint32_t word : all) count += static_cast<size_t>(std::popcount(word));
  if (count > all.size()) {
    bits = std::move(all);
    return;
  }
  tokens.reserve(count);
  for (size_t i = 0; i < all.size(); ++i) {
    for (uint32_t word = all[i]; word != 0; word &= word - 1) {
      tokens.push_back(static_cast<int32_t>(32 * i) + std::countr_zero(word));
    }
  }
}

void StateMask::AddTo(std::span<uint32_t> allowed) const {
  const size_t words = std::min(allowed.size(), bits.size());
  for (size_t i = 0; i < words; ++i) allowed[i] |= bits[i];
  for (const int32_t token : tokens) SetBit(allowed, token);
}

StateMasks::StateMasks(std::shared_ptr<const Automaton> automaton,
                       std::shared_ptr<const TokenTrie> trie)
    : automaton_(std::move(automaton)),
      trie_(std::move(trie)),
      masks_(static_cast<size_t>(automaton_->states())) {}

std::shared_ptr<const StateMask> StateMasks::Of(int32_t state, size_t& work) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const StateMask>& mask = masks_[static_cast<size_t>(state)];
  if (mask != nullptr) return mask;
  std::shared_ptr<const StateMask> made = Walk(state);
  work += machine_->work();
  if (mask_bytes_ > kMostMaskBytes) {
    for (auto& one : masks_) one = nullptr;
    mask_bytes_ = 0;
  }
  mask_bytes_ += made->bytes();
  return mask = std::move(made);
}

std::shared_ptr<const StateMask> StateMasks::Walk(int32_t state) {
  if (machine_ == nullptr || machine_->bytes() > kMostMachineBytes) {
    machine_ = std::make_unique<Machine>(automaton_);
  }
  auto mask = std::make_shared<StateMask>();
  machine_->AllowWork();
  const int32_t begin = machine_->BeginAt(state);
  WalkTrie(*machine_, begin, *trie_, 0, trie_->size(), 1, [&](uint32_t node, int32_t at) {
    const auto tokens = trie_->tokens(node);
    mask->tokens.insert(mask->tokens.end(), tokens.begin(), tokens.end());
    if (machine_->returned(at) && trie_->node(node).next > node + 1) {
      mask->returns.push_back(node);
    }
  });
  const size_t words = (trie_->vocabulary() + 31) / 32;
  if (mask->tokens.size() > words) {
    mask->bits.resize(words);
    for (const int32_t token : mask->tokens) SetBit(mask->bits, token);
    mask->tokens = {};
  }
  return mask;
}

void StateMasks::Prepare(std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  const auto width = [&](int32_t state) {
    int bytes = 0;
    for (const Edge& edge : automaton_->edges(state)) bytes += edge.high - edge.low + 1;
    return bytes;
  };
  for (int32_t state = 0; state < automaton_->states(); ++state) {
    int bytes = width(state);
    for (const CallEdge& call : automaton_->calls(state)) {
      bytes = std::max(bytes, width(automaton_->start(call.rule)));
    }
    if (bytes < kWideBytes) continue;
    size_t work = 0;
    Of(state, work);
    if (std::chrono::steady_clock::now() >= end) return;
  }
}

size_t StateMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  return mask_bytes_ + (machine_ == nullptr ? 0 : machine_->bytes());
}

void MaskBelow(Machine& machine, int32_t at, const TokenTrie& trie, uint32_t node,
               std::span<uint32_t> bits) {
  WalkTrie(machine, at, trie, node + 1, trie.node(node).next, trie.node(node).depth + size_t{1},
           [&](uint32_t below, int32_t) {
             for (const int32_t token : trie.tokens(below)) SetBit(bits, token);
           });
}

void MaskTokens(Machine& machine, int32_t at, StateMasks& masks, const TokenTrie& trie,
                std::span<uint32_t> bits) {
  machine.AllowWork();
  const auto kernel = machine.kernel(at);
  const std::vector<Item> items(kernel.begin(), kernel.end());
  for (const Item& item : items) {
    size_t work = 0;
    const std::shared_ptr<const StateMask> mask = masks.Of(item.state, work);
    machine.AddWork(work);
    mask->AddTo(bits);
    if (mask->returns.empty()) continue;
    const int32_t behind = machine.BeginWith(machine.parents(item.node));
    if (machine.kernel(behind).empty()) continue;
    for (const uint32_t node : mask->returns) MaskBelow(machine, behind, trie, node, bits);
  }
}

}  // namespace oort::grammar
