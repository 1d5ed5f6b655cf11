// SPDX-License-Identifier: MIT
#include "parser/pnnx/param.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/number_text.h"
#include "graph/problem_of.h"
#include "oort/log.h"
#include "parser/pnnx/shape_text.h"

namespace oort::pnnx {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";
/// What an operand takes at least in a file that pnnx wrote: two names and a little more.
constexpr size_t kBytesOfAnOperand = 16;

void Split(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  // Reserved to the count: growing by doubling would cost half as much again on a hostile line.
  const auto is_blank = [](char c) { return kBlanks.find(c) != kBlanks.npos; };
  size_t count = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    count += !is_blank(line[i]) && (i == 0 || is_blank(line[i - 1]));
  }
  words.reserve(count);
  size_t begin = line.find_first_not_of(kBlanks);
  while (begin != line.npos) {
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
}

/// Walks over the lines of a text that are not blank, split into words.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool Next() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      Split(rest_.substr(0, end), words_);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      if (!words_.empty()) return true;
    }
    words_.clear();
    return false;
  }
  int number() const { return number_; }
  const std::vector<std::string_view>& words() const { return words_; }

 private:
  std::string_view rest_;
  std::vector<std::string_view> words_;
  int number_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, ProblemList& problems)
      : text_(text), lines_(text), problems_(problems) {}

  ParamContent Parse() {
    ReadMagic();
    ReadCounts();
    while (lines_.Next()) ReadOperator();
    CheckCounts();
    CheckLastLine();
    return std::move(content_);
  }

 private:
  struct Word {
    std::string_view key, value;
  };
  struct Use {
    int line = 0;  // the last one that uses the operand
    int unnamed_input = -1;
  };

  void ReadMagic() {
    const bool any = lines_.Next();
    if (any && lines_.words().size() == 1 && lines_.words()[0] == kMagic) return;
    throw Error(ErrorCode::kInvalidModel,
                "line 1: expected the magic number 7767517 of a .param, got " +
                    (any ? Quote(lines_.words()[0]) : "nothing"));
  }

  void ReadCounts() {
    const auto& words = lines_.words();
    std::optional<int64_t> operators, operands;
    if (lines_.Next() && words.size() == 2) {
      operators = ParseInt(words[0]);
      operands = ParseInt(words[1]);
    }
    if (!operators || !operands || *operators < 0 || *operands < 0) {
      problems_.Add(ErrorCode::kInvalidModel,
                    "line " + std::to_string(lines_.number()) +
                        ": expected the numbers of operators and operands, two integers of at "
                        "least 0",
                    lines_.number());
      return;
    }
    operators_ = *operators;
    operands_ = *operands;
    // Only what the file can hold is reserved, whatever it claims.
    const auto lines = std::count(text_.begin(), text_.end(), '\n') + 1;
    content_.graph.operators.reserve(static_cast<size_t>(std::min<int64_t>(operators_, lines)));
    const auto plausible = static_cast<int64_t>(text_.size() / kBytesOfAnOperand);
    content_.graph.operands.reserve(static_cast<size_t>(std::min(operands_, plausible)));
  }

  void ReadOperator() {
    const auto& words = lines_.words();
    ++lines_of_operators_;
    op_ = Operator();
    op_.line = lines_.number();
    op_.type = words[0];
    if (words.size() > 1) op_.name = words[1];
    if (words.size() < 4) {
      return FailLine("expected 'type name inputs outputs …', got " + std::to_string(words.size()) +
                      " word(s)");
    }
    const auto inputs = ParseInt(words[2]), outputs = ParseInt(words[3]);
    if (!inputs || !outputs || *inputs < 0 || *outputs < 0) {
      return FailLine("expected the numbers of inputs and outputs, got " + Quote(words[2]) +
                      " and " + Quote(words[3]));
    }
    const auto left = static_cast<int64_t>(words.size()) - 4;
    if (*inputs > left || *outputs > left - *inputs) {
      return FailLine("says " + std::to_string(*inputs) + " inputs and " +
                      std::to_string(*outputs) + " outputs, but only " + std::to_string(left) +
                      " words follow");
    }
    const auto first_output = 4 + static_cast<size_t>(*inputs);
    const auto first_key = first_output + static_cast<size_t>(*outputs);
    for (size_t i = 4; i < first_key; ++i) {
      if (words[i].find('=') != std::string_view::npos) {
        return FailLine("expected the name of an operand, got " + Quote(words[i]) +
                        ": do the numbers of inputs and outputs fit?");
      }
    }
    op_.inputs.reserve(static_cast<size_t>(*inputs));
    op_.outputs.reserve(static_cast<size_t>(*outputs));
    for (size_t i = 4; i < first_output; ++i) op_.inputs.push_back(FindOrAdd(words[i]));
    for (size_t i = first_output; i < first_key; ++i) op_.outputs.push_back(FindOrAdd(words[i]));
    MarkUses();
    for (size_t i = first_key; i < words.size(); ++i) ReadKey(words[i]);
    last_is_operand_ = first_key == words.size() && first_key > 4;
    content_.graph.AddOperator(std::move(op_));
  }

  int FindOrAdd(std::string_view name) {
    const auto [at, added] = operand_index_.try_emplace(name, 0);
    if (added) {
      at->second = content_.graph.AddOperand(std::string(name));
      uses_.emplace_back();
    }
    return at->second;
  }

  /// Chains the inputs of the line that are the same operand, so that each `$` and `#` finds its
  /// own in constant time however many there are.
  void MarkUses() {
    for (const int output : op_.outputs) uses_[static_cast<size_t>(output)] = {op_.line, -1};
    for (const int input : op_.inputs) uses_[static_cast<size_t>(input)] = {op_.line, -1};
    next_same_.resize(op_.inputs.size());
    for (size_t i = op_.inputs.size(); i-- > 0;) {
      Use& use = uses_[static_cast<size_t>(op_.inputs[i])];
      next_same_[i] = std::exchange(use.unnamed_input, static_cast<int>(i));
    }
  }

  /// How the line that is being read uses an operand; null if it does not.
  Use* FindUse(std::string_view operand) {
    const auto at = operand_index_.find(operand);
    if (at == operand_index_.end()) return nullptr;
    Use& use = uses_[static_cast<size_t>(at->second)];
    return use.line == op_.line ? &use : nullptr;
  }

  void ReadKey(std::string_view text) {
    const size_t equal = std::min(text.find('='), text.size());
    const Word word{text.substr(0, equal), text.substr(std::min(equal + 1, text.size()))};
    if (word.key.empty()) return Fail("expected key=value, got " + Quote(text));
    if (text.front() == '@') return ReadAttribute({word.key.substr(1), word.value});
    if (text.front() == '#') return ReadHint({word.key.substr(1), word.value});
    if (text.front() == '$') return ReadInputName({word.key.substr(1), word.value});
    // Like pnnx, take a word without '=' as a parameter with an empty value; no operator knows
    // such a name, so the schema will tell.
    const auto [at, added] = op_.params.try_emplace(std::string(word.key), std::string(word.value));
    if (!added) {
      Fail("parameter " + Quote(word.key) + " stands there twice" +
           (equal == text.size() ? " (a value with blanks breaks a line: pnnx knows no quotes)"
                                 : ""));
    }
  }

  void ReadAttribute(Word word) {
    std::string error;
    const auto parsed = ParseShapedType(word.value, &error);
    const std::string what = "attribute " + Quote(word.key) + ": ";
    if (!parsed) return Fail(what + error);
    if (parsed->dtype == DType::kNull) return Fail(what + "a weight cannot have dtype null");
    if (!parsed->shape.IsKnown()) {
      return Fail(what + "expected known extents, got " + Quote(word.value));
    }
    try {
      const auto meta = Tensor::Meta(parsed->dtype, parsed->shape);
      if (!op_.attributes.try_emplace(std::string(word.key), meta).second) {
        Fail(what + "stands there twice");
      }
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kOutOfMemory) throw;
      Fail(what + e.what());
    }
  }

  void ReadHint(Word word) {
    std::string error;
    const auto parsed = ParseShapedType(word.value, &error);
    const std::string what = "shape of operand " + Quote(word.key) + ": ";
    if (!parsed) return Fail(what + error);
    const Use* use = FindUse(word.key);
    if (use == nullptr) return Fail(what + "this operator has no such input or output");
    Operand& operand = content_.graph.operands[static_cast<size_t>(use - uses_.data())];
    if (operand.has_shape && !(operand.shape == parsed->shape && operand.dtype == parsed->dtype)) {
      return Fail(what + "says " + Quote(word.value) + ", but " + operand.shape.ToString() +
                  std::string(Name(operand.dtype)) + " stood above");
    }
    operand.has_shape = true;
    operand.shape = parsed->shape;
    operand.dtype = parsed->dtype;
  }

  /// The names stand in the order of the inputs, and one operand may serve twice: each name goes
  /// to the first input of that operand that has none yet.
  void ReadInputName(Word word) {
    Use* use = FindUse(word.value);
    if (use == nullptr || use->unnamed_input < 0) {
      return Fail("$ name " + Quote(word.key) + " is for operand " + Quote(word.value) +
                  ", which is no input that lacks a name");
    }
    const auto input = static_cast<size_t>(use->unnamed_input);
    op_.input_names.resize(op_.inputs.size());
    op_.input_names[input] = word.key;
    use->unnamed_input = next_same_[input];
  }

  void CheckCounts() {
    const auto say = [&](std::string_view what, int64_t claimed, size_t found) {
      if (claimed < 0 || claimed == static_cast<int64_t>(found)) return;
      problems_.Add(ErrorCode::kInvalidModel,
                    "line 2 says " + std::to_string(claimed) + " " + std::string(what) +
                        ", but the file has " + std::to_string(found) +
                        (claimed > static_cast<int64_t>(found) ? ": is it cut off?" : ""),
                    2);
    };
    say("operators", operators_, lines_of_operators_);
    if (!content_.edges_known) return;
    const size_t found = content_.graph.operands.size();
    // pnnx also counts operands of operators that it folded; no line of the file has them.
    const bool whole = operators_ == static_cast<int64_t>(lines_of_operators_) && EndsInNewline();
    if (whole && operands_ > static_cast<int64_t>(found)) {
      log::Write(log::Level::kWarning, "line 2 counts " + std::to_string(operands_) +
                                           " operands, but the file has " + std::to_string(found));
      return;
    }
    say("operands", operands_, found);
  }

  /// A file cut inside its last word may still parse: `… 1 0 12` becomes `… 1 0 1`.
  void CheckLastLine() {
    if (text_.empty() || EndsInNewline() || !last_is_operand_) return;
    const Operator& last = content_.graph.operators.back();
    const int index = last.outputs.empty() ? last.inputs.back() : last.outputs.back();
    const std::string& cut = content_.graph.operands[static_cast<size_t>(index)].name;
    for (const Operand& operand : content_.graph.operands) {
      if (!operand.consumers.empty() || operand.name.size() <= cut.size()) continue;
      if (!operand.name.starts_with(cut)) continue;
      problems_.Add(ErrorCode::kInvalidModel,
                    "line " + std::to_string(last.line) + " ends in operand " + Quote(cut) +
                        " without a newline, and operand " + Quote(operand.name) +
                        " is used nowhere: is the file cut off?",
                    last.line);
      return;
    }
  }

  bool EndsInNewline() const { return text_.ends_with('\n'); }
  void Fail(const std::string& message) { problems_.Add(ProblemOf(op_, message)); }
  void FailLine(const std::string& message) {
    content_.edges_known = false;
    last_is_operand_ = false;
    Fail(message);
  }

  std::string_view text_;
  Lines lines_;
  ProblemList& problems_;
  ParamContent content_;
  std::unordered_map<std::string_view, int> operand_index_;
  std::vector<Use> uses_;       // of each operand
  std::vector<int> next_same_;  // for each input of the line, the next one of the same operand
  Operator op_;                 // the line that is being read
  int64_t operators_ = -1, operands_ = -1;
  size_t lines_of_operators_ = 0;
  bool last_is_operand_ = false;
};

/// ncnn's .param has the same magic, but its layers are called Input, Convolution, …; all types
/// that pnnx writes hold a '.' or a ':', save some of ONNX beside its own pnnx.Input.
void RejectNcnn(const Graph& graph) {
  if (graph.operators.empty()) return;
  for (const Operator& op : graph.operators) {
    if (op.type.find_first_of(".:") != std::string::npos) return;
  }
  throw Error(ErrorCode::kInvalidModel, "this is ncnn's own .param (its first layer is of type " +
                                            Quote(graph.operators[0].type) +
                                            "): pnnx's .pnnx.param is wanted");
}

}  // namespace

ParamContent ParseParam(std::string_view text, ProblemList& problems) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    throw Error(ErrorCode::kInvalidModel,
                "byte " + std::to_string(nul) + " is zero: this is no text, so no .param");
  }
  ParamContent content = Parser(text, problems).Parse();
  RejectNcnn(content.graph);
  return content;
}

}  // namespace oort::pnnx
