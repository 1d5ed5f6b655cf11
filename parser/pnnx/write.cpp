// SPDX-License-Identifier: MIT
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/file_writer.h"
#include "core/guard.h"
#include "graph/problem_of.h"
#include "oort/pnnx.h"
#include "parser/pnnx/param.h"
#include "parser/pnnx/promised.h"
#include "parser/pnnx/zip_writer.h"

namespace oort {
namespace {

/// The format has no quotes: what holds a blank or a '=' in the wrong place cannot be written.
class WritableCheck {
 public:
  explicit WritableCheck(const Graph& graph) : graph_(graph) {}

  void Run() {
    problems_.Add(graph_.Check());
    problems_.Throw("the graph cannot be written");
    for (const Operator& op : graph_.operators) CheckOperator(op);
    problems_.Throw("the graph cannot be written");
  }

 private:
  static bool IsWord(std::string_view text, std::string_view forbidden = "") {
    if (text.find_first_of(" \t\r\n\v\f") != text.npos) return false;
    return text.find('\0') == text.npos && text.find_first_of(forbidden) == text.npos;
  }
  void Require(bool good, const Operator& op, std::string_view what, std::string_view text) {
    if (good) return;
    problems_.Add(ProblemOf(op,
                            std::string(what) + " " + Quote(text) +
                                " cannot be written in a .param, which has no quotes",
                            ErrorCode::kInvalidArgument));
  }

  void CheckOperator(const Operator& op) {
    Require(IsWord(op.type), op, "the type", op.type);
    Require(IsWord(op.name), op, "the name", op.name);
    for (const auto* edges : {&op.inputs, &op.outputs}) {
      for (const int operand : *edges) {
        const std::string& name = graph_.operands[static_cast<size_t>(operand)].name;
        Require(!name.empty() && IsWord(name, "="), op, "the operand", name);
      }
    }
    for (const auto& [key, parameter] : op.params) {
      const bool marked = !key.empty() && std::string_view("@#$").find(key[0]) != key.npos;
      Require(!key.empty() && !marked && IsWord(key, "="), op, "the parameter", key);
      Require(IsWord(parameter.text()), op, "the value", parameter.text());
    }
    for (const auto& [name, tensor] : op.attributes) {
      Require(IsWord(name, "=") && tensor.defined(), op, "the attribute", name);
    }
    CheckInputNames(op);
  }

  /// Names are paired with equal operands from left to right, so none may be skipped.
  void CheckInputNames(const Operator& op) {
    std::unordered_set<int> skipped;
    for (size_t i = 0; i < std::min(op.input_names.size(), op.inputs.size()); ++i) {
      const std::string& name = op.input_names[i];
      if (name.empty()) {
        skipped.insert(op.inputs[i]);
      } else {
        Require(!skipped.contains(op.inputs[i]) && IsWord(name, "="), op, "the input name", name);
      }
    }
  }

  const Graph& graph_;
  ProblemList problems_;
};

std::string Padded(const std::string& text) {
  std::string padded = text;
  padded.resize(std::max<size_t>(text.size(), 24), ' ');
  return padded;
}

/// Lines as pnnx writes them: parameters, attributes, input names, shapes of inputs and outputs.
class TextWriter {
 public:
  explicit TextWriter(const Graph& graph) : graph_(graph), named_(graph.operands.size(), false) {}

  std::string Write() {
    std::string lines;
    for (const Operator& op : graph_.operators) WriteOperator(op, lines);
    const auto operands = std::count(named_.begin(), named_.end(), true);
    return std::string(pnnx::kMagic) + "\n" + std::to_string(graph_.operators.size()) + " " +
           std::to_string(operands) + "\n" + lines;
  }

 private:
  const Operand& At(int operand) {
    named_[static_cast<size_t>(operand)] = true;
    return graph_.operands[static_cast<size_t>(operand)];
  }

  void WriteOperator(const Operator& op, std::string& text) {
    text += Padded(op.type) + " " + Padded(op.name) + " " + std::to_string(op.inputs.size()) + " " +
            std::to_string(op.outputs.size());
    for (const int operand : op.inputs) text += " " + At(operand).name;
    for (const int operand : op.outputs) text += " " + At(operand).name;
    for (const auto& [key, parameter] : op.params) text += " " + key + "=" + parameter.text();
    for (const auto& [name, tensor] : op.attributes) text += " @" + name + "=" + tensor.ToString();
    for (size_t i = 0; i < std::min(op.input_names.size(), op.inputs.size()); ++i) {
      if (op.input_names[i].empty()) continue;
      text += " $" + op.input_names[i] + "=" + At(op.inputs[i]).name;
    }
    for (const int operand : op.inputs) WriteHint(At(operand), text);
    for (const int operand : op.outputs) WriteHint(At(operand), text);
    text += '\n';
  }

  static void WriteHint(const Operand& operand, std::string& text) {
    if (!operand.has_shape) return;
    text += " #" + operand.name + "=" + operand.shape.ToString() + std::string(Name(operand.dtype));
  }

  const Graph& graph_;
  std::vector<bool> named_;  // an operand that no operator names is not in the file
};

pnnx::ZipItem ItemOf(std::string name, const Tensor& tensor) {
  const PromisedBuffer* promised = PromisedBuffer::Of(tensor);
  if (promised == nullptr) return {std::move(name), {tensor.raw(), tensor.bytes()}};
  return {std::move(name), {}, [promised] { return promised->Take(); }, tensor.bytes()};
}

/// What one promise makes is written in a row, so that it is made once and let go soon.
std::vector<pnnx::ZipItem> Together(std::vector<pnnx::ZipItem> items,
                                    const std::vector<const PromisedBuffer*>& promises) {
  std::unordered_map<const Promise*, size_t> first;
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool there = promises[i] == nullptr;
    order.emplace_back(there ? i : first.try_emplace(promises[i]->promise(), i).first->second, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<pnnx::ZipItem> sorted;
  for (const auto& [group, index] : order) sorted.push_back(std::move(items[index]));
  return sorted;
}

std::vector<pnnx::ZipItem> Items(const Graph& graph) {
  std::vector<pnnx::ZipItem> items;
  std::vector<const PromisedBuffer*> promises;
  for (const Operator& op : graph.operators) {
    for (const auto& [name, tensor] : op.attributes) {
      if (tensor.storage() == Storage::kNone || tensor.device() != Device::Cpu()) {
        throw Error(ErrorCode::kInvalidArgument,
                    op.Describe() + ": attribute " + Quote(name) + " has no elements in memory");
      }
      items.push_back(ItemOf(op.name + "." + name, tensor));
      promises.push_back(PromisedBuffer::Of(tensor));
    }
  }
  return Together(std::move(items), promises);
}

void CheckUnique(const std::vector<pnnx::ZipItem>& items) {
  std::vector<std::string_view> names;
  for (const pnnx::ZipItem& item : items) names.push_back(item.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "two attributes would have the same zip entry " + Quote(*twice));
}

void Write(const Graph& graph, const std::filesystem::path& param,
           const std::filesystem::path& bin) {
  if (param.lexically_normal() == bin.lexically_normal()) {
    throw Error(ErrorCode::kInvalidArgument, "the .param and the .bin must be two files");
  }
  const std::string text = PnnxParamText(graph);
  const std::vector<pnnx::ZipItem> items = Items(graph);
  CheckUnique(items);
  FileWriter param_file(param), bin_file(bin);
  param_file.Write(text);
  pnnx::WriteZip(items, pnnx::NeedsZip64(items),
                 [&](std::span<const std::byte> bytes) { bin_file.Write(bytes); });
  param_file.Finish();
  bin_file.Finish();
  // The .param last: whoever finds it finds its weights as well.
  bin_file.Publish();
  param_file.Publish();
}

}  // namespace

std::string PnnxParamText(const Graph& graph) {
  return Guarded([&] {
    WritableCheck(graph).Run();
    return TextWriter(graph).Write();
  });
}

void WritePnnx(const Graph& graph, const std::filesystem::path& param,
               const std::filesystem::path& bin) {
  Guarded([&] { Write(graph, param, bin); });
}

}  // namespace oort
