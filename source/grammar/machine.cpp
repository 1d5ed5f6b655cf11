// SPDX-License-Identifier: MIT
#include "grammar/machine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "oort/error.h"

namespace oort::grammar {
namespace {

constexpr size_t kMostItems = 4096;
constexpr size_t kFew = 16;  // items that are searched one by one

Error TooAmbiguous() {
  return Error(ErrorCode::kLimit,
               "the grammar is too ambiguous: there are too many ways to read the answer so far");
}

uint64_t HashOf(std::span<const Item> items, uint64_t hash) {
  for (const Item& item : items) {
    hash ^= static_cast<uint64_t>(static_cast<uint32_t>(item.state)) << 32 |
            static_cast<uint32_t>(item.node);
    hash *= 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

void SortItems(std::vector<Item>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

}  // namespace

Machine::Machine(std::shared_ptr<const Automaton> automaton) : automaton_(std::move(automaton)) {
  node_begin_ = {0};
  for (const int32_t place : {kComplete, kReturned}) {
    std::vector<Item> parents = {{place, 0}};
    Node(parents);
  }
  Configure();  // kDead
  next_[kDead].fill(kDead);
}

/// The number of the node with these parents.
int32_t Machine::Node(std::vector<Item>& list) {
  SortItems(list);
  const uint64_t hash = HashOf(list, 1);
  const auto [first, last] = node_by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (std::ranges::equal(parents(at->second), list)) return at->second;
  }
  const auto node = static_cast<int32_t>(node_begin_.size()) - 1;
  parents_.resize(node_begin_.back());  // others go on where one has found no memory
  parents_.insert(parents_.end(), list.begin(), list.end());
  node_begin_.push_back(static_cast<uint32_t>(parents_.size()));
  node_by_hash_.emplace(hash, node);
  return node;
}

void Machine::Clear() {
  kernel_.clear();
  known_.clear();
  followed_ = 0;
  complete_ = returned_ = false;
}

bool Machine::IsKnown(Item item) {
  const auto key = [](Item one) {
    return static_cast<uint64_t>(static_cast<uint32_t>(one.state)) << 32 |
           static_cast<uint32_t>(one.node);
  };
  if (kernel_.size() < kFew) return std::ranges::find(kernel_, item) != kernel_.end();
  if (known_.empty()) {
    for (const Item& one : kernel_) known_.insert(key(one));
  }
  return !known_.insert(key(item)).second;
}

void Machine::AddKernel(Item item) {
  AddWork(1);
  if (item.state == kComplete) {
    complete_ = true;
  } else if (item.state == kReturned) {
    returned_ = true;
  } else if (!IsKnown(item)) {
    if (kernel_.size() >= kMostItems) throw TooAmbiguous();
    kernel_.push_back(item);
  }
}

/// Adds what the states of the kernel come to without reading: where their rules end, what these
/// return to; where they call what may be empty, what stands behind it.
void Machine::FollowReturns() {
  for (; followed_ < kernel_.size(); ++followed_) {
    const Item item = kernel_[followed_];
    if (automaton_->accepting(item.state)) {
      for (const Item& parent : parents(item.node)) AddKernel(parent);
    }
    for (const CallEdge& call : automaton_->calls(item.state)) {
      if (automaton_->nullable(call.rule)) AddKernel({call.target, item.node});
    }
  }
  std::erase_if(kernel_, [&](const Item& item) { return automaton_->is_final(item.state); });
  std::ranges::sort(kernel_);
}

void Machine::AddCaller(RuleId rule, Item caller) {
  const auto order = [&](const auto& entry) { return automaton_->order(entry.first); };
  auto at = std::ranges::lower_bound(callers_, automaton_->order(rule), {}, order);
  if (at == callers_.end() || at->first != rule) {
    at = callers_.insert(at, {rule, std::vector<Item>()});
  }
  // A call with which its rule ends returns to where that returns: so lists that are written as
  // recursion at their end take no stack.
  if (automaton_->is_final(caller.state)) {
    const auto whole = parents(caller.node);
    at->second.insert(at->second.end(), whole.begin(), whole.end());
  } else {
    at->second.push_back(caller);
  }
}

void Machine::Expand(Item item) {
  if (!automaton_->edges(item.state).empty()) expanded_.push_back(item);
  for (const CallEdge& call : automaton_->calls(item.state)) {
    AddCaller(call.rule, {call.target, item.node});
  }
}

/// Enters the rules that are called, each once with all its callers. By their order, all callers of
/// a rule are known when its turn comes.
void Machine::ExpandCalls() {
  callers_.clear();
  for (const Item& item : kernel_) Expand(item);
  std::vector<int32_t> states;
  for (size_t i = 0; i < callers_.size(); ++i) {
    const RuleId rule = callers_[i].first;
    std::vector<Item> list = std::move(callers_[i].second);
    const int32_t node = Node(list);
    states.assign(1, automaton_->start(rule));
    for (size_t k = 0; k < states.size(); ++k) {
      for (const CallEdge& call : automaton_->calls(states[k])) {
        if (!automaton_->nullable(call.rule)) continue;
        if (std::ranges::find(states, call.target) == states.end()) states.push_back(call.target);
      }
    }
    for (const int32_t state : states) Expand({state, node});
    if (expanded_.size() > kMostItems) throw TooAmbiguous();
  }
}

/// The number of the configuration that kernel_ has.
int32_t Machine::Configure() {
  const uint64_t hash =
      HashOf(kernel_, (complete_ ? uint64_t{2} : 0) | (returned_ ? uint64_t{4} : 0));
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (std::ranges::equal(kernel(at->second), kernel_) && complete(at->second) == complete_ &&
        returned(at->second) == returned_) {
      return at->second;
    }
  }
  expanded_.clear();
  ExpandCalls();
  SortItems(expanded_);
  work_ += kernel_.size() + expanded_.size();
  if (work_ > kMostWork) throw TooAmbiguous();
  Configuration added;
  added.complete = complete_;
  added.returned = returned_;
  added.kernel = static_cast<uint32_t>(items_.size());
  items_.insert(items_.end(), kernel_.begin(), kernel_.end());
  added.expanded = static_cast<uint32_t>(items_.size());
  items_.insert(items_.end(), expanded_.begin(), expanded_.end());
  added.end = static_cast<uint32_t>(items_.size());
  const auto number = static_cast<int32_t>(configurations_.size());
  next_.resize(configurations_.size() + 1);
  next_.back().fill(-1);
  configurations_.push_back(added);
  by_hash_.emplace(hash, number);
  return number;
}

int32_t Machine::Begin() {
  const Item first{automaton_->start(automaton_->root()), kRootNode};
  return BeginWith({&first, 1});
}

int32_t Machine::BeginAt(int32_t state) {
  Clear();
  kernel_.push_back({state, kUnknownNode});
  return Configure();
}

int32_t Machine::BeginWith(std::span<const Item> items) {
  Clear();
  for (const Item& item : items) AddKernel(item);
  FollowReturns();
  return Configure();
}

int32_t Machine::StepAnew(int32_t from, uint8_t byte) {
  Clear();
  const Configuration at = configurations_[static_cast<size_t>(from)];
  AddWork(at.end - at.expanded);
  for (uint32_t i = at.expanded; i < at.end; ++i) {
    for (const Edge& edge : automaton_->edges(items_[i].state)) {
      if (edge.low <= byte && byte <= edge.high) AddKernel({edge.target, items_[i].node});
    }
  }
  FollowReturns();
  work_ += 1 + kernel_.size();
  const int32_t to = Configure();
  next_[static_cast<size_t>(from)][byte] = to;
  return to;
}

int32_t Machine::Import(const Machine& other, int32_t at) {
  // Nodes below have lower numbers: in their order each finds the ones that it needs.
  std::vector<int32_t> needed;
  std::vector<int32_t> open;
  std::vector<int32_t> number(other.node_begin_.size() - 1, -1);
  const auto need = [&](const Item& item) {
    int32_t& its = number[static_cast<size_t>(item.node)];
    if (item.state < 0 || its == 0) return;
    its = 0;
    needed.push_back(item.node);
    open.push_back(item.node);
  };
  for (const Item& item : other.kernel(at)) need(item);
  while (!open.empty()) {
    const int32_t node = open.back();
    open.pop_back();
    for (const Item& parent : other.parents(node)) need(parent);
  }
  std::ranges::sort(needed);
  AddWork(number.size());
  const auto translated = [&](Item item) {
    if (item.state >= 0) item.node = number[static_cast<size_t>(item.node)];
    return item;
  };
  for (const int32_t node : needed) {
    std::vector<Item> list;
    for (const Item& parent : other.parents(node)) list.push_back(translated(parent));
    number[static_cast<size_t>(node)] = Node(list);
  }
  Clear();
  for (const Item& item : other.kernel(at)) kernel_.push_back(translated(item));
  std::ranges::sort(kernel_);
  complete_ = other.complete(at);
  returned_ = other.returned(at);
  return Configure();
}

void Machine::AddWork(size_t items) {
  work_ += items;
  if (work_ > kMostWork) throw TooAmbiguous();
}

size_t Machine::bytes() const {
  return next_.size() * (sizeof(next_[0]) + sizeof(Configuration) + 64) +
         (items_.size() + parents_.size()) * sizeof(Item) + node_begin_.size() * 64;
}

}  // namespace oort::grammar
