// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "core/similar.h"
#include "parser/expression/program.h"
#include "parser/expression/tokenizer.h"

namespace oort::expression {
namespace {

// Lists become nested values, which are destroyed recursively, so they stay shallow.
constexpr int kMaxDepth = 4096;
constexpr int kMaxListDepth = 32;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), tokens_(Tokenize(text)) {}

  Program Run() {
    if (tokens_.empty()) ThrowAt(1, "the expression is empty");
    if (IsPlainString()) {
      AddLiteral(Value(std::string(text_)), tokens_.front().column);
      return std::move(program_);
    }
    for (position_ = 0; position_ < tokens_.size(); ++position_) Read(tokens_[position_]);
    Finish();
    return std::move(program_);
  }

 private:
  /// A function, cast, size or list that still waits for arguments.
  struct Frame {
    Step step;
    std::string_view name;
    int wanted = 0;       // arguments until it is complete; for a list: no limit
    int parentheses = 0;  // how many were open inside of it when it began
  };

  /// Constants of leftover operators: a single word ("floor", "torch.float", "ij") is a string
  /// even if a function has that name, and so is a text without anything to compute ("ij,jk->ik").
  bool IsPlainString() const {
    if (tokens_.front().kind != Token::kWord || tokens_.size() == 1) {
      return tokens_.front().kind == Token::kWord;
    }
    return std::all_of(tokens_.begin(), tokens_.end(), [](const Token& token) {
      if (token.kind == Token::kComma) return true;
      return token.kind == Token::kWord && !MakeFrame(token);
    });
  }

  static std::optional<Frame> MakeFrame(const Token& token) {
    Frame frame;
    frame.step.column = token.column;
    frame.name = token.text;
    frame.wanted = 1;
    if (const auto function = FindFunction(token.text)) {
      frame.step.kind = Step::kCall;
      frame.step.function = *function;
      frame.wanted = Info(*function).arity;
    } else if (token.text == "int") {
      frame.step.kind = Step::kInt;
    } else if (token.text == "size") {
      frame.step.kind = Step::kSize;
      frame.wanted = 2;
    } else if (const DType dtype = CastDType(token.text); dtype != DType::kNull) {
      frame.step.kind = Step::kCast;
      frame.step.dtype = dtype;
    } else {
      return {};
    }
    return frame;
  }

  void Read(const Token& token) {
    switch (token.kind) {
      case Token::kComma: return;
      case Token::kOpen: return Open(token);
      case Token::kClose: return Close(token);
      case Token::kListOpen: return OpenList(token);
      case Token::kListClose: return CloseList(token);
      default: break;
    }
    CheckExpected(token);
    if (token.kind == Token::kOperand) {
      program_.operands = std::max(program_.operands, token.operand + 1);
      Step step;
      step.kind = Step::kOperand;
      step.index = token.operand;
      step.column = token.column;
      program_.steps.push_back(step);
      Complete();
    } else if (token.kind == Token::kLiteral) {
      AddLiteral(token.literal, token.column);
      Complete();
    } else if (auto frame = MakeFrame(token)) {
      Push(std::move(*frame));
    } else if (NextIsOpen()) {
      ThrowUnknown(token);
    } else {
      AddLiteral(Value(std::string(token.text)), token.column);
      Complete();
    }
  }

  /// An expression is one value: nothing may follow it.
  void CheckExpected(const Token& token) const {
    if (frames_.empty() && !program_.steps.empty()) {
      ThrowAt(token.column,
              "unexpected " + Quoted(token.text) + " after the end of the expression");
    }
  }

  bool NextIsOpen() const {
    return position_ + 1 < tokens_.size() && tokens_[position_ + 1].kind == Token::kOpen;
  }

  [[noreturn]] void ThrowUnknown(const Token& token) const {
    std::string message = "unknown function " + Quoted(token.text);
    const std::vector<std::string> near = NearestNames(token.text, FunctionNames(), 1);
    if (!near.empty()) message += "; did you mean '" + near.front() + "'?";
    ThrowAt(token.column, message);
  }

  void Push(Frame frame) {
    if (frames_.size() == kMaxDepth) {
      ThrowAt(frame.step.column, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    frame.parentheses = static_cast<int>(open_.size());
    frames_.push_back(std::move(frame));
  }

  void Open(const Token& token) {
    if (open_.size() == kMaxDepth) {
      ThrowAt(token.column, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    CheckExpected(token);
    open_.push_back(token.column);
  }

  void Close(const Token& token) {
    if (open_.empty() || (ListDepth() > 0 && open_.size() <= lists_.back().parentheses)) {
      ThrowAt(token.column, "')' without a '('");
    }
    open_.pop_back();
    // Only size() needs its parentheses: they tell size(x) from size(x,d).
    if (frames_.empty() || frames_.back().step.kind != Step::kSize) return;
    Frame& size = frames_.back();
    if (static_cast<int>(open_.size()) == size.parentheses && size.step.count == 1) Emit();
  }

  int ListDepth() const { return static_cast<int>(lists_.size()); }

  void OpenList(const Token& token) {
    CheckExpected(token);
    if (ListDepth() == kMaxListDepth) {
      ThrowAt(token.column,
              "lists nested deeper than " + std::to_string(kMaxListDepth) + " levels");
    }
    Frame frame;
    frame.step.kind = Step::kList;
    frame.step.column = token.column;
    frame.name = "[";
    frame.wanted = -1;
    Push(std::move(frame));
    lists_.push_back({frames_.size(), open_.size()});
  }

  void CloseList(const Token& token) {
    if (lists_.empty()) ThrowAt(token.column, "']' without a '['");
    if (frames_.size() != lists_.back().frames) ThrowMissing(token.column);
    if (open_.size() != lists_.back().parentheses) {
      ThrowAt(open_.back(),
              "'(' is not closed before the ']' of column " + std::to_string(token.column));
    }
    lists_.pop_back();
    Emit();
  }

  void AddLiteral(Value value, int column) {
    Step step;
    step.kind = Step::kLiteral;
    step.index = static_cast<int>(program_.literals.size());
    step.column = column;
    program_.literals.push_back(std::move(value));
    program_.steps.push_back(step);
  }

  /// A value was finished: counts it as an argument, and finishes all calls that it completes.
  void Complete() {
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (++frame.step.count != frame.wanted) return;
      program_.steps.push_back(frame.step);
      frames_.pop_back();
    }
  }

  /// Finishes the innermost frame as it is.
  void Emit() {
    program_.steps.push_back(frames_.back().step);
    frames_.pop_back();
    Complete();
  }

  [[noreturn]] void ThrowMissing(int column) const {
    const Frame& frame = frames_.back();
    ThrowAt(column, Quoted(frame.name) + " of column " + std::to_string(frame.step.column) +
                        " takes " + std::to_string(frame.wanted) +
                        (frame.wanted == 1 ? " argument, got " : " arguments, got ") +
                        std::to_string(frame.step.count));
  }

  void Finish() {
    const int end = static_cast<int>(text_.size()) + 1;
    if (!lists_.empty()) {
      ThrowAt(frames_[lists_.back().frames - 1].step.column, "'[' is never closed");
    }
    if (!frames_.empty()) ThrowMissing(end);
    if (!open_.empty()) ThrowAt(open_.back(), "'(' is never closed");
    if (program_.steps.empty()) ThrowAt(end, "the expression has no value");
  }

  struct OpenListMark {
    size_t frames;       // how many frames there were, the list's own included
    size_t parentheses;  // how many were open
  };

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  std::vector<Frame> frames_;
  std::vector<OpenListMark> lists_;
  std::vector<int> open_;  // columns of the parentheses that are open
  Program program_;
};

std::string StepName(const Program& program, const Step& step) {
  switch (step.kind) {
    case Step::kOperand: return "@" + std::to_string(step.index);
    case Step::kLiteral: return program.literals[static_cast<size_t>(step.index)].ToString();
    case Step::kCall: return std::string(Info(step.function).name);
    case Step::kCast: return "to_" + std::string(Name(step.dtype));
    case Step::kInt: return "int";
    case Step::kSize: return "size/" + std::to_string(step.count);
    case Step::kList: return "list/" + std::to_string(step.count);
  }
  return "?";
}

}  // namespace

std::string Program::ToString() const {
  std::string text;
  for (const Step& step : steps) {
    if (!text.empty()) text += ' ';
    text += StepName(*this, step);
  }
  return text;
}

Program Parse(std::string_view text) { return Parser(text).Run(); }

}  // namespace oort::expression
