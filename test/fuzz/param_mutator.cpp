// SPDX-License-Identifier: MIT
#include "param_mutator.h"

#include <algorithm>
#include <sstream>

#include "values.h"

namespace oort::fuzz {
namespace {

using Words = std::vector<std::string>;

std::vector<Words> Split(const std::string& text) {
  std::vector<Words> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    Words split;
    for (std::string word; words >> word;) split.push_back(word);
    lines.push_back(split);
  }
  return lines;
}

std::string Join(const std::vector<Words>& lines) {
  std::string text;
  for (const Words& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) text += (i == 0 ? "" : " ") + line[i];
    text += '\n';
  }
  return text;
}

/// Another number in the place of one of those in `value`.
std::string ChangeNumber(std::string value, const std::string& by, Random& random) {
  const size_t from = random.Below(value.size());
  const size_t digit = value.find_first_of("0123456789", from);
  if (digit == value.npos) return by;
  const size_t end = std::min(value.find_first_not_of("0123456789", digit), value.size());
  return value.replace(digit, end - digit, by);
}

/// Of "(2,3)f32".
std::string ChangeShape(const std::string& value, Random& random) {
  const size_t close = value.find(')');
  if (close == value.npos || random.OneIn(8)) return AnyShape(random, 5) + "f32";
  const std::string shape = value.substr(0, close + 1), dtype = value.substr(close + 1);
  switch (random.Below(9)) {
    case 0:
    case 1: return shape + AnyDType(random);
    case 2:
      return "(" + SmallExtent(random) + (shape == "()" ? ")" : "," + shape.substr(1)) + dtype;
    case 3: {  // an axis less
      const size_t comma = shape.find(',');
      return (comma == shape.npos ? "()" : "(" + shape.substr(comma + 1)) + dtype;
    }
    case 4: return AnyShape(random, 5) + dtype;
    case 5:
      if (random.OneIn(4)) return ChangeNumber(shape, ExtremeNumber(random), random) + dtype;
      return ChangeNumber(shape, "?", random) + dtype;
    default: return ChangeNumber(shape, SmallExtent(random), random) + dtype;
  }
}

/// A list with an element more, less or in another place.
std::string ChangeList(const std::string& value, Random& random) {
  const size_t comma = value.find(',');
  switch (random.Below(4)) {
    case 0: return "(" + SmallNumber(random) + "," + value.substr(1);
    case 1: return comma == value.npos ? "()" : "(" + value.substr(comma + 1);
    case 2:
      return comma == value.npos ? value.substr(1, value.size() - 2) : value.substr(1, comma - 1);
    default:
      return comma == value.npos ? value
                                 : "(" + value.substr(comma + 1, value.size() - comma - 2) + "," +
                                       value.substr(1, comma - 1) + ")";
  }
}

std::string ChangeValue(const std::string& value, Random& random) {
  switch (random.Below(8)) {
    case 0: return AnyWord(random);
    case 1: return value.starts_with('(') ? ChangeList(value, random) : "(" + value + ",1)";
    case 2:
    case 3: return ChangeNumber(value, ExtremeNumber(random), random);
    case 4: return ExtremeNumber(random);
    default: return ChangeNumber(value, SmallNumber(random), random);
  }
}

/// A hint stands at every use of its operand: all must change alike.
void ChangeHint(std::vector<Words>& lines, const std::string& old, const std::string& changed) {
  for (Words& line : lines) std::replace(line.begin(), line.end(), old, changed);
}

/// Operands of an operator in another order, or another one in the place of one of them.
void ChangeInputs(std::vector<Words>& lines, Words& line, Random& random) {
  if (line.size() < 4) return;
  const size_t count = static_cast<size_t>(std::atoi(line[2].c_str()));
  if (count == 0 || count > line.size() - 4) return;
  const size_t at = 4 + random.Below(count);
  if (random.OneIn(2)) {
    std::swap(line[at], line[4 + random.Below(count)]);
    return;
  }
  const Words& other = random.Pick(lines);
  const std::string old = line[at];
  if (other.size() > 4 && other[4].find('=') == std::string::npos) line[at] = other[4];
  for (std::string& word : line) {  // its name follows it
    if (word.starts_with('$') && word.ends_with("=" + old)) {
      word = word.substr(0, word.find('=') + 1) + line[at];
    }
  }
}

}  // namespace

std::string ParamMutator::Mutate(const std::string& text, Random& random) const {
  std::vector<Words> lines = Split(text);
  const size_t count = 1 + random.Below(3);
  for (size_t i = 0; i < count && !lines.empty(); ++i) MutateOnce(lines, random);
  return Join(lines);
}

void ParamMutator::MutateOnce(std::vector<Words>& lines, Random& random) const {
  Words& line = lines[random.Below(lines.size())];
  std::vector<size_t> pairs;  // words of the form key=value
  for (size_t i = 0; i < line.size(); ++i) {
    const size_t equal = line[i].find('=');
    if (equal != 0 && equal != std::string::npos) pairs.push_back(i);
  }
  const size_t action = random.Below(24);
  if (action == 0 && line.size() >= 4) {
    line[0] = types_.Pick(random);
    return;
  }
  if (action == 1 || pairs.empty()) return ChangeInputs(lines, line, random);
  const size_t at = random.Pick(pairs);
  if (action == 2) {
    line.erase(line.begin() + static_cast<ptrdiff_t>(at));
    return;
  }
  const size_t equal = line[at].find('=');
  const std::string key = line[at].substr(0, equal + 1), value = line[at].substr(equal + 1);
  if (key.starts_with('#')) {
    ChangeHint(lines, std::string(line[at]), key + ChangeShape(value, random));
  } else if (key.starts_with('@')) {
    line[at] = key + ChangeShape(value, random);
  } else if (!key.starts_with('$')) {
    line[at] = key + ChangeValue(value, random);
  }
}

}  // namespace oort::fuzz
