// SPDX-License-Identifier: MIT
// The tables that tools/make-unicode-tables measures on the tokenizers library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace oort::text::unicode {

/// Numbers, which stand in the program as what they differ from those `lag` places before them: a
/// third of the bytes. Whoever asks first unpacks them, for good.
class Table {
 public:
  constexpr Table(const unsigned char* packed, size_t size, size_t lag)
      : packed_(packed), size_(size), lag_(lag) {}
  std::span<const uint32_t> values() const {
    const uint32_t* const known = values_.load(std::memory_order_acquire);
    return {known != nullptr ? known : Unpack(), size_};
  }

 private:
  const uint32_t* Unpack() const;

  const unsigned char* packed_;
  size_t size_, lag_;
  mutable std::atomic<const uint32_t*> values_ = nullptr;
};

// Runs: start << 8 | value, in force up to the next start.
extern const Table kGeneralCategory, kScript, kCombiningClass, kHuggingScript;
// Sets: alternating boundaries, in from the first, out from the second, and so on.
extern const Table kAlphabetic, kWhiteSpace, kLowercase, kUppercase, kEmoji, kEmojiPresentation,
    kEmojiModifier, kEmojiModifierBase, kEmojiComponent, kExtendedPictographic, kGraphemeExtend,
    kIdeographic, kSpace, kWord, kWordOutsideBrackets, kDigit, kPosixAlnum, kPosixAlpha,
    kPosixBlank, kPosixCntrl, kPosixGraph, kPosixLower, kPosixPrint, kPosixPunct, kPosixUpper;
extern const Table kNumeric, kRustSpace, kPunctuation, kRegexWord, kBertControl, kCombiningMark,
    kNonspacingMark;
// Pairs (from, to); of kCasePairs one for each character that another one matches under (?i).
extern const Table kLowercasePairs, kCasePairs;
// Entries: character, count, the count characters of its full decomposition.
extern const Table kCanonicalDecompositions, kCompatibilityDecompositions;
extern const Table kCompositions;  // triples: first, second, composed
// Where Python's str differs from the tables above (text/python.h); of the last two entries as
// those of decompositions.
extern const Table kNewerThanPython, kNotLowerInPython, kPythonDigit, kPythonNumeric,
    kPythonCaseIgnorable, kPythonUppercase, kPythonTitlecase;
extern const char* const kScriptNames[];
extern const int kScriptCount;

}  // namespace oort::text::unicode
