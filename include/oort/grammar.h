// SPDX-License-Identifier: MIT
// Answers that keep to a grammar, a JSON Schema, a regular expression or a list of choices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "oort/constraint.h"
#include "oort/tokenizer.h"

namespace oort {

/// What answers are held to: one kind of text.
struct GrammarSpec {
  enum class Kind : unsigned char {
    kJsonObject,  ///< any JSON object; no text
    kJsonSchema,  ///< JSON that the schema describes
    kGbnf,        ///< a grammar in llama.cpp's notation, from its rule root on
    kRegex,       ///< a regular expression that matches all of the answer
    kChoice,      ///< one of `choices`
    kToolCalls,   ///< calls of tools; oort/tool_calls.h makes the text
  };
  Kind kind = Kind::kJsonObject;
  std::string text;
  std::vector<std::string> choices;
  /// kToolCalls: what Compile takes as the prefix is one token at most, and stands where calls
  /// begin instead of at the front of every answer.
  bool marked = false;

  static GrammarSpec JsonObject() { return {}; }
  static GrammarSpec JsonSchema(std::string schema);
  static GrammarSpec Gbnf(std::string grammar);
  static GrammarSpec Regex(std::string pattern);
  static GrammarSpec Choice(std::vector<std::string> choices);
};

struct GrammarOptions {
  size_t cache_bytes = size_t{256} << 20;  ///< of compiled grammars that are kept
  /// Milliseconds to find, when a grammar is compiled, which tokens its states take; the rest is
  /// found when an answer first gets there.
  int prepare_ms = 20;
};

/// Makes constraints for answers of one model, and keeps what it compiled: equal texts are compiled
/// once. Thread contract: any number of threads at once.
class GrammarCompiler {
 public:
  /// `vocabulary` is the model's, which may be more than the tokenizer has.
  GrammarCompiler(const Tokenizer& tokenizer, size_t vocabulary,
                  const GrammarOptions& options = {});
  ~GrammarCompiler();
  GrammarCompiler(GrammarCompiler&&) noexcept;
  GrammarCompiler& operator=(GrammarCompiler&&) noexcept;

  /// A constraint before its first token, for GenerateRequest::constraint. `prefix`: tokens that
  /// the answer begins with, before what the grammar says. Throws kInvalidArgument with what is
  /// wrong in the text, kUnsupported for what answers cannot be held to, and kLimit where it is
  /// larger than a text of 64 KiB, nesting of 32, repetitions of 1000, 100000 states or half a
  /// second.
  std::unique_ptr<TokenConstraint> Compile(const GrammarSpec& spec,
                                           std::span<const int32_t> prefix = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oort
