// SPDX-License-Identifier: MIT
#include <bit>

#include "oort/error.h"
#include "text/regex_ops.h"
#include "text/utf8.h"

namespace oort::text {
namespace {

constexpr size_t kAnywhere = static_cast<size_t>(-1);
// Kinds of entries on the stack of ways back.
constexpr uint32_t kBranch = 0;   // go on at pc
constexpr uint32_t kGiveOne = 1;  // a loop gives its last character back, down to `floor`
constexpr uint32_t kRestore = 2;  // slot pc had the value `at`

void Spend(uint64_t& steps, uint64_t count) {
  if (steps < count) {
    throw Error(ErrorCode::kLimit,
                "a regular expression of the tokenizer takes too many steps on this text");
  }
  steps -= count;
}

/// Ways back are memory: a text that needs more than this has lost its way.
constexpr size_t kMaxStack = size_t{1} << 20;

void Remember(std::vector<Regex::Scratch::Entry>& stack, Regex::Scratch::Entry entry) {
  if (stack.size() >= kMaxStack) {
    stack.clear();
    throw Error(ErrorCode::kLimit,
                "a regular expression of the tokenizer takes too much memory on this text");
  }
  stack.push_back(entry);
}

uint32_t CodePointAt(std::string_view text, size_t at) { return NextCodePoint(text, at); }

}  // namespace

size_t Regex::NextLength(std::string_view text, size_t at) {
  return LengthFromLead(static_cast<unsigned char>(text[at]));
}

bool Regex::Search(std::string_view text, size_t from, Scratch& scratch, Match& match) const {
  if (!literal_.empty()) {
    const size_t found = text.find(literal_, from);
    if (found == std::string_view::npos) return false;
    match = {found, found + literal_.size()};
    return true;
  }
  if (scratch.slots.size() < slots_) scratch.slots.resize(slots_);
  for (size_t at = from;; at += NextLength(text, at)) {
    if (MatchAt(text, at, scratch, match)) return true;
    if (at >= text.size()) return false;
  }
}

bool Regex::MatchAt(std::string_view text, size_t at, Scratch& scratch, Match& match) const {
  Spend(scratch.steps, 1);
  uint64_t candidates = all_;
  uint32_t c = kCodePoints;
  if (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 128) {
      candidates = by_ascii_[lead];
    } else {
      c = CodePointAt(text, at);
    }
  }
  for (; candidates != 0; candidates &= candidates - 1) {
    const Alternative& alternative =
        alternatives_[static_cast<size_t>(std::countr_zero(candidates))];
    if (at == text.size() ? !alternative.nullable
                          : c != kCodePoints && !alternative.first.Contains(c)) {
      continue;
    }
    size_t end = 0;
    if (Run(alternative.pc, text, at, kAnywhere, scratch, end)) {
      match = {at, end};
      return true;
    }
  }
  return false;
}

/// Steps over as many characters as the loop takes; `floor` is where its least count ends.
/// Returns kAnywhere where there are fewer.
size_t Regex::Loop(const Instruction& i, std::string_view text, size_t at, Scratch& scratch,
                   size_t& floor) const {
  const CodePointSet& set = sets_[i.a];
  const size_t begin = at;
  uint32_t count = 0;
  floor = at;
  while (at < text.size() && count < i.max) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 128) {
      if (!set.ContainsAscii(lead)) break;
      ++at;
    } else {
      size_t next = at;
      if (!set.Contains(NextCodePoint(text, next))) break;
      at = next;
    }
    if (++count == i.min) floor = at;
  }
  Spend(scratch.steps, (at - begin) / 8);
  return count < i.min ? kAnywhere : at;
}

bool Regex::RunAssertion(const Instruction& i, std::string_view text, size_t at,
                         Scratch& scratch) const {
  switch (i.op) {
    case Op::kLineBegin: return at == 0 || (text[at - 1] == '\n' && at < text.size());
    case Op::kLineEnd: return at == text.size() || text[at] == '\n';
    case Op::kTextBegin: return at == 0;
    case Op::kTextEnd: return at == text.size();
    case Op::kTextEndOrNewline:
      return at == text.size() || (at + 1 == text.size() && text[at] == '\n');
    case Op::kWordBoundary: {
      const CodePointSet& word = sets_[i.a];
      const bool before = at > 0 && word.Contains(CodePointAt(text, PreviousStart(text, at)));
      const bool after = at < text.size() && word.Contains(CodePointAt(text, at));
      return (before != after) != i.flag;
    }
    default: break;
  }
  const auto part = static_cast<uint32_t>(&i - program_.data()) + 1;
  size_t end = 0;
  if (i.op == Op::kAhead) return Run(part, text, at, kAnywhere, scratch, end) != i.flag;
  size_t start = at;  // kBehind
  for (uint32_t count = 0;; ++count) {
    if (count >= i.min && Run(part, text, start, at, scratch, end)) return !i.flag;
    if (count == i.max || start == 0) return i.flag;
    start = PreviousStart(text, start);
  }
}

/// Runs the part of the program from `pc` to its kAccept, which must happen at `target` if given.
bool Regex::Run(uint32_t pc, std::string_view text, size_t at, size_t target, Scratch& scratch,
                size_t& end) const {
  auto& stack = scratch.stack;
  const size_t base = stack.size();
  for (;;) {
    Spend(scratch.steps, 1);
    const Instruction& i = program_[pc];
    bool failed = false;
    switch (i.op) {
      case Op::kSet: {
        size_t next = at;
        failed = at == text.size() || !sets_[i.a].Contains(NextCodePoint(text, next));
        if (!failed) at = next;
        ++pc;
        break;
      }
      case Op::kText:
        failed = text.compare(at, i.b, literals_, i.a, i.b) != 0;
        at += i.b;
        ++pc;
        break;
      case Op::kLoop: {
        size_t floor = 0;
        at = Loop(i, text, at, scratch, floor);
        ++pc;
        failed = at == kAnywhere;
        if (!failed && at > floor && !i.flag) Remember(stack, {kGiveOne, pc, at, floor});
        break;
      }
      case Op::kSplit:
        Remember(stack, {kBranch, i.b, at, 0});
        pc = i.a;
        break;
      case Op::kJump: pc = i.a; break;
      case Op::kMark:
        Remember(stack, {kRestore, i.a, scratch.slots[i.a], 0});
        scratch.slots[i.a] = at;
        ++pc;
        break;
      case Op::kMoved: pc = scratch.slots[i.a] == at ? i.b : pc + 1; break;
      case Op::kAtomic: {
        size_t after = 0;
        failed = !Run(pc + 1, text, at, kAnywhere, scratch, after);
        at = after;
        pc = i.b;
        break;
      }
      case Op::kAhead:
      case Op::kBehind:
        failed = !RunAssertion(i, text, at, scratch);
        pc = i.b;
        break;
      case Op::kAccept:
        failed = target != kAnywhere && at != target;
        if (!failed) {
          end = at;
          stack.resize(base);
          return true;
        }
        break;
      default:
        failed = !RunAssertion(i, text, at, scratch);
        ++pc;
        break;
    }
    while (failed) {
      if (stack.size() == base) return false;
      Scratch::Entry& entry = stack.back();
      if (entry.kind == kRestore) {
        scratch.slots[entry.pc] = entry.at;
        stack.pop_back();
        continue;
      }
      failed = false;
      pc = entry.pc;
      if (entry.kind == kGiveOne) {
        entry.at = at = PreviousStart(text, entry.at);
        if (at == entry.floor) stack.pop_back();
      } else {
        at = entry.at;
        stack.pop_back();
      }
    }
  }
}

}  // namespace oort::text
