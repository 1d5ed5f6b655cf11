// SPDX-License-Identifier: MIT
#include "grammar/answer_places.h"

#include <algorithm>
#include <vector>

#include "oort/error.h"

namespace oort::grammar {
namespace {

// Items that a mask or a token may take uncounted, some milliseconds: each character of a string
// whose length has a limit is a place that nobody has been to, in grammars without ambiguity, too.
constexpr size_t kUsualWork = 32'768;

}  // namespace

struct AnswerPlaces::Learned {
  explicit Learned(std::shared_ptr<const Automaton> automaton) : machine(std::move(automaton)) {}

  Machine machine;
  std::vector<std::shared_ptr<const StateMask>> masks;  ///< by configuration
  size_t mask_bytes = 0;

  size_t bytes() const { return machine.bytes() + mask_bytes + masks.size() * sizeof(masks[0]); }
};

Machine& AnswerPlaces::Enter(Place& place) {
  // What was learnt before goes with the last answer that has not come here since.
  if (!learned_ || learned_->bytes() > limits_.bytes) {
    learned_ = std::make_shared<Learned>(automaton_);
  }
  Machine& machine = learned_->machine;
  machine.AllowWork();
  if (place.in != learned_) {
    const int32_t at = place.in ? machine.Import(place.in->machine, place.at) : machine.Begin();
    place = {learned_, at, place.work};
  }
  return machine;
}

void AnswerPlaces::Count(Place& place, const Machine& machine) const {
  place.work += machine.work() - std::min(machine.work(), kUsualWork);
  if (place.work <= limits_.work) return;
  throw Error(ErrorCode::kLimit,
              "the grammar is too ambiguous: there are too many ways to read the answer so far");
}

bool AnswerPlaces::Step(Place& place, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  Machine& machine = Enter(place);
  int32_t next = place.at;
  for (const char byte : bytes) next = machine.Step(next, static_cast<uint8_t>(byte));
  Count(place, machine);
  if (next == Machine::kDead) return false;
  place.at = next;
  return true;
}

void AnswerPlaces::Mask(Place& place, std::span<uint32_t> bits) { MaskOf(place)->AddTo(bits); }

std::shared_ptr<const StateMask> AnswerPlaces::MaskOf(Place& place) {
  const std::lock_guard lock(mutex_);
  Machine& machine = Enter(place);
  auto& masks = learned_->masks;
  const auto at = static_cast<size_t>(place.at);
  if (masks.size() <= at) masks.resize(at + 1);
  if (masks[at] == nullptr) {
    std::vector<uint32_t> found((trie_->vocabulary() + 31) / 32);
    MaskTokens(machine, place.at, masks_, *trie_, found);
    Count(place, machine);
    const auto kept = std::make_shared<StateMask>();
    kept->Keep(std::move(found));
    learned_->mask_bytes += kept->bytes();
    masks[at] = kept;
  }
  return masks[at];
}

void AnswerPlaces::MaskBelow(Place& place, uint32_t node, std::span<uint32_t> bits) {
  const std::lock_guard lock(mutex_);
  Machine& machine = Enter(place);
  grammar::MaskBelow(machine, place.at, *trie_, node, bits);
  Count(place, machine);
}

bool AnswerPlaces::complete(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (place.in) return place.in->machine.complete(place.at);
  Place begin;
  return Enter(begin).complete(begin.at);
}

size_t AnswerPlaces::bytes() const {
  const std::lock_guard lock(mutex_);
  return learned_ ? learned_->bytes() : 0;
}

}  // namespace oort::grammar
