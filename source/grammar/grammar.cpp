// SPDX-License-Identifier: MIT
#include "oort/grammar.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/guard.h"
#include "grammar/compiled.h"
#include "grammar/masks.h"
#include "grammar/sources.h"
#include "grammar/token_trie.h"
#include "oort/error.h"

namespace oort {
namespace grammar {
namespace {

class GrammarConstraint final : public TokenConstraint {
 public:
  /// `mark`: the token that is kMarkByte of the grammar, if it has one.
  GrammarConstraint(std::shared_ptr<const CompiledGrammar> grammar, std::vector<int32_t> prefix,
                    std::optional<int32_t> mark)
      : grammar_(std::move(grammar)), prefix_(std::move(prefix)), mark_(mark) {}

  void Mask(std::span<uint32_t> bits) override {
    Guarded([&] {
      if (read_ < prefix_.size()) return SetBit(bits, prefix_[read_]);
      grammar_->places.Mask(place_, bits);
      if (LosesSpace()) MaskFirst(bits);
      MaskMark(bits);
    });
  }

  bool Accept(int32_t token) override {
    return Guarded([&] {
      if (read_ < prefix_.size()) {
        if (token != prefix_[read_]) return false;
        ++read_;
        return true;
      }
      if (token < 0 || static_cast<size_t>(token) >= trie().vocabulary()) return false;
      std::string_view bytes = trie().bytes(token);
      if (bytes.starts_with(kMarkByte)) return false;
      if (token == mark_) bytes = {&kMarkByte, 1};
      if (LosesSpace() && bytes.starts_with(' ')) bytes.remove_prefix(1);
      if (bytes.empty()) return false;
      if (!grammar_->places.Step(place_, bytes)) return false;
      begun_ = true;
      return true;
    });
  }

  bool done() const override {
    return read_ == prefix_.size() && Guarded([&] { return grammar_->places.complete(place_); });
  }

  std::unique_ptr<TokenConstraint> Clone() const override {
    return Guarded([&] {
      auto clone = std::make_unique<GrammarConstraint>(grammar_, prefix_, mark_);
      clone->read_ = read_;
      clone->begun_ = begun_;
      clone->place_ = place_;
      return clone;
    });
  }

 private:
  const TokenTrie& trie() const { return *grammar_->vocabulary->trie; }
  bool LosesSpace() const {
    return !begun_ && prefix_.empty() && grammar_->vocabulary->drops_first_space &&
           grammar_->vocabulary->space != UINT32_MAX;
  }

  /// The space that the first token begins with will not be seen: the rest of it counts.
  void MaskFirst(std::span<uint32_t> bits) {
    const uint32_t space = grammar_->vocabulary->space;
    ClearBelow(space, bits);
    grammar_->places.MaskBelow(place_, space, bits);
  }

  /// The byte that stands for the mark is in no text, and the mark has no text.
  void MaskMark(std::span<uint32_t> bits) {
    if (grammar_->vocabulary->mark != UINT32_MAX) ClearBelow(grammar_->vocabulary->mark, bits);
    if (!mark_) return;
    AnswerPlaces::Place behind = place_;
    if (grammar_->places.Step(behind, {&kMarkByte, 1})) SetBit(bits, *mark_);
  }

  void ClearBelow(uint32_t node, std::span<uint32_t> bits) const {
    for (const int32_t token : trie().tokens_below(node)) {
      const auto i = static_cast<size_t>(token);
      if (i / 32 < bits.size()) bits[i / 32] &= ~(uint32_t{1} << (i % 32));
    }
  }

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::vector<int32_t> prefix_;
  std::optional<int32_t> mark_;
  size_t read_ = 0;            ///< of the prefix
  bool begun_ = false;         ///< a token behind the prefix was read
  AnswerPlaces::Place place_;  ///< of one that is only cloned, as requests have it, none
};

Rules RulesOf(const GrammarSpec& spec) {
  switch (spec.kind) {
    case GrammarSpec::Kind::kJsonObject: return AnyJsonObject();
    case GrammarSpec::Kind::kJsonSchema: return ReadJsonSchema(spec.text);
    case GrammarSpec::Kind::kGbnf: return ReadGbnf(spec.text);
    case GrammarSpec::Kind::kRegex: return ReadRegex(spec.text);
    case GrammarSpec::Kind::kChoice: return ReadChoices(spec.choices);
    case GrammarSpec::Kind::kToolCalls: return ReadToolCalls(spec.text);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no such kind of grammar");
}

/// Equal for equal grammars only: lengths stand before texts.
std::string KeyOf(const GrammarSpec& spec) {
  std::string key(1, static_cast<char>(spec.kind));
  key += spec.text;
  for (const std::string& choice : spec.choices) {
    key += '\n' + std::to_string(choice.size()) + ':' + choice;
  }
  return key;
}

}  // namespace
}  // namespace grammar

struct GrammarCompiler::Impl {
  using Compiled = std::shared_ptr<const grammar::CompiledGrammar>;

  Impl(const Tokenizer& tokenizer, size_t size, const GrammarOptions& given)
      : vocabulary(std::make_shared<const grammar::Vocabulary>(tokenizer, size)), options(given) {}

  Compiled Find(const std::string& key) {
    const std::lock_guard lock(mutex);
    const auto at = std::ranges::find(kept, key, &std::pair<std::string, Compiled>::first);
    if (at == kept.end()) return nullptr;
    kept.splice(kept.begin(), kept, at);
    return at->second;
  }

  /// Grammars grow with the answers that use them: all are counted again. The newest one stays.
  void Keep(std::string key, const Compiled& compiled) {
    const std::lock_guard lock(mutex);
    kept.emplace_front(std::move(key), compiled);
    size_t bytes = 0;
    for (auto at = kept.begin(); at != kept.end();) {
      bytes += at->first.size() + at->second->bytes();
      at = bytes > options.cache_bytes && at != kept.begin() ? kept.erase(at) : std::next(at);
    }
  }

  const std::shared_ptr<const grammar::Vocabulary> vocabulary;
  const GrammarOptions options;
  std::mutex mutex;
  std::list<std::pair<std::string, Compiled>> kept;  ///< least recently used last
};

GrammarSpec GrammarSpec::JsonSchema(std::string schema) {
  return {Kind::kJsonSchema, std::move(schema), {}};
}
GrammarSpec GrammarSpec::Gbnf(std::string grammar) { return {Kind::kGbnf, std::move(grammar), {}}; }
GrammarSpec GrammarSpec::Regex(std::string pattern) {
  return {Kind::kRegex, std::move(pattern), {}};
}
GrammarSpec GrammarSpec::Choice(std::vector<std::string> choices) {
  return {Kind::kChoice, {}, std::move(choices)};
}

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, size_t vocabulary,
                                 const GrammarOptions& options)
    : impl_(Guarded([&] { return std::make_unique<Impl>(tokenizer, vocabulary, options); })) {}
GrammarCompiler::~GrammarCompiler() = default;
GrammarCompiler::GrammarCompiler(GrammarCompiler&&) noexcept = default;
GrammarCompiler& GrammarCompiler::operator=(GrammarCompiler&&) noexcept = default;

std::unique_ptr<TokenConstraint> GrammarCompiler::Compile(const GrammarSpec& spec,
                                                          std::span<const int32_t> prefix) const {
  return Guarded([&]() -> std::unique_ptr<TokenConstraint> {
    std::vector<int32_t> first(prefix.begin(), prefix.end());
    std::string key = grammar::KeyOf(spec);
    Impl::Compiled compiled = impl_->Find(key);
    if (compiled == nullptr) {
      const auto made =
          std::make_shared<grammar::CompiledGrammar>(grammar::RulesOf(spec), impl_->vocabulary);
      made->masks.Prepare(std::chrono::milliseconds(impl_->options.prepare_ms));
      compiled = made;
      impl_->Keep(std::move(key), compiled);
    }
    std::optional<int32_t> mark;
    if (spec.marked && !first.empty()) mark = first[0];
    if (spec.marked) first.clear();
    return std::make_unique<grammar::GrammarConstraint>(std::move(compiled), std::move(first),
                                                        mark);
  });
}

}  // namespace oort
