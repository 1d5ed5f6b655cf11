// SPDX-License-Identifier: MIT
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "oort/error.h"
#include "text/utf8.h"

namespace oort::tokenizer {

bool SpecialRule::Allows(std::string_view part) const {
  if (!parse || plain.empty()) return parse;
  const auto begin = static_cast<size_t>(part.data() - text.data());
  const auto next = std::ranges::partition_point(
      plain, [&](const TextRange& range) { return range.end <= begin; });
  return next == plain.end() || next->begin >= begin + part.size();
}

void AddedTokens::Matcher::Add(std::string_view text, int32_t id) {
  if (text.empty()) return;  // normalized away: nothing to find
  // Of two tokens with the same normalized text the first is found; the library takes any.
  if (trie.LongestPrefix(text).length == text.size()) return;
  trie.Add(text, id);
  begins[static_cast<unsigned char>(text[0])] = true;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary,
                         const Normalizer* normalizer) {
  auto next_id = static_cast<int64_t>(vocabulary.count());
  text::Regex::Scratch scratch;
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    int64_t id = Find(token.content);
    if (id >= 0 && tokens_.at(static_cast<int32_t>(id)) == token) continue;
    if (id < 0) id = vocabulary.Find(token.content);
    if (id < 0) id = next_id++;
    if (id > kMaxTokenId) throw Error(ErrorCode::kInvalidModel, "there are too many added tokens");
    const auto key = static_cast<int32_t>(id);
    NormalText text{token.content, 0};
    if (token.normalized && normalizer != nullptr) normalizer->Apply(text, scratch);
    texts_[key] = text.text;
    ids_[token.content] = key;
    if (token.special) special_.insert(token.content);
    tokens_[key] = token;
    end_id_ = std::max(end_id_, id + 1);
  }
  for (const auto& [id, text] : texts_) {
    (tokens_.at(id).normalized ? normalized_ : raw_).Add(text, id);
  }
}

int32_t AddedTokens::Find(std::string_view content) const {
  if (ids_.empty()) return -1;
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? -1 : found->second;
}

const std::string* AddedTokens::Text(int32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? nullptr : &found->second;
}

namespace {

bool IsWordCharacterBefore(std::string_view text, size_t at) {
  if (at == 0) return false;
  size_t start = text::PreviousStart(text, at);
  return text::RegexWordSet().Contains(text::NextCodePoint(text, start));
}

bool IsWordCharacterAfter(std::string_view text, size_t at) {
  return at < text.size() && text::RegexWordSet().Contains(text::NextCodePoint(text, at));
}

/// Where the spaces that end at `at` begin, but not before `first`.
size_t SpacesBefore(std::string_view text, size_t first, size_t at) {
  while (at > first) {
    const size_t start = text::PreviousStart(text, at);
    size_t step = start;
    if (!text::RustSpaceSet().Contains(text::NextCodePoint(text, step))) break;
    at = start;
  }
  return at;
}

/// Where the spaces that begin at `at` end.
size_t SpacesAfter(std::string_view text, size_t at) {
  for (size_t step = at; step < text.size(); at = step) {
    if (!text::RustSpaceSet().Contains(text::NextCodePoint(text, step))) break;
  }
  return at;
}

}  // namespace

/// The longest token at the leftmost place; one that is refused is stepped over, not tried shorter.
void AddedTokens::Cut(Words& words, const Word& word, const Matcher& matcher,
                      const SpecialRule& rule) const {
  const std::string_view text = word.text;
  size_t done = 0;
  size_t spaces_end = 0;  // of the last ones taken along, so that none is looked at twice
  for (size_t at = 0; at < text.size();) {
    if (!matcher.begins[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const ByteTrie::Found found = matcher.trie.LongestPrefix(text.substr(at));
    if (found.length == 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + found.length;
    at = end;
    const AddedToken& token = tokens_.at(found.number);
    if (special_.contains(token.content) && !rule.Allows(text.substr(begin, found.length)))
      continue;
    if (token.single_word &&
        (IsWordCharacterBefore(text, begin) || IsWordCharacterAfter(text, end))) {
      continue;
    }
    if (token.lstrip) begin = std::max(SpacesBefore(text, done, begin), done);
    if (token.rstrip) end = spaces_end = SpacesAfter(text, std::max(end, spaces_end));
    // A token before this one may have taken all of its characters along as spaces: then it is
    // none.
    words.Cut(word, done, begin);
    if (begin < end) words.next.push_back({text.substr(begin, end - begin), found.number, 0});
    done = end;
  }
  words.Cut(word, done, text.size());
}

}  // namespace oort::tokenizer
