// SPDX-License-Identifier: MIT
#include "graph/passes/formula.h"

#include "core/number_text.h"

namespace oort {
namespace {

constexpr int kDeepestFormula = 100;

class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}

  std::optional<Formula> Read() {
    std::optional<Formula> formula = ReadOne(0);
    if (!formula || at_ != text_.size()) return {};
    return formula;
  }

 private:
  std::optional<Formula> ReadOne(int depth) {
    if (depth > kDeepestFormula) return {};
    const size_t end = text_.find_first_of("(),[] ", at_);
    Formula formula;
    formula.name = text_.substr(at_, end == std::string_view::npos ? end : end - at_);
    if (formula.name.empty()) return {};
    at_ += formula.name.size();
    if (!Take('(')) return formula;
    do {
      std::optional<Formula> arg = ReadOne(depth + 1);
      if (!arg) return {};
      formula.args.push_back(std::move(*arg));
    } while (Take(','));
    if (!Take(')')) return {};
    return formula;
  }

  bool Take(char expected) {
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

int Formula::operand() const {
  if (!args.empty() || name.size() < 2 || name.size() > 6 || name[0] != '@') return -1;
  return static_cast<int>(ParseInt(std::string_view(name).substr(1)).value_or(-1));
}

std::optional<double> Formula::number() const {
  return args.empty() ? ParseFloat(name) : std::nullopt;
}

std::string Formula::ToText() const {
  if (args.empty()) return name;
  std::string text = name + "(";
  for (size_t i = 0; i < args.size(); ++i) text += (i == 0 ? "" : ",") + args[i].ToText();
  return text + ")";
}

size_t Formula::size() const {
  size_t total = 1;
  for (const Formula& arg : args) total += arg.size();
  return total;
}

std::optional<Formula> ParseFormula(std::string_view text) { return FormulaReader(text).Read(); }

Formula Substitute(const Formula& formula, const std::vector<Formula>& replacements) {
  const int operand = formula.operand();
  if (operand >= 0 && operand < static_cast<int>(replacements.size())) {
    return replacements[static_cast<size_t>(operand)];
  }
  Formula result{formula.name, {}};
  for (const Formula& arg : formula.args) result.args.push_back(Substitute(arg, replacements));
  return result;
}

}  // namespace oort
