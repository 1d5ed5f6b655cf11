// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <string_view>

#include "oort/layer.h"

namespace oort {
namespace {

/// `(@0,0,2147483647)`: a list of integers, some of them inputs.
class SliceIndexesLayer final : public Layer {
 public:
  explicit SliceIndexesLayer(const LayerInit& init) {
    const std::string& text = init.String("indexes");
    std::string_view rest = text;
    if (rest.size() >= 2 && (rest.front() == '(' || rest.front() == '[')) {
      rest = rest.substr(1, rest.size() - 2);
    }
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      entries_.push_back(Parse(text, rest.substr(0, comma), init.op().inputs.size()));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    for (const Entry& entry : entries_) {
      if (entry.is_input && !Input(args, entry).IsConcrete()) return {Value::Deferred()};
    }
    return {Value(List(args))};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    outputs[0] = List(args);
  }

 private:
  struct Entry {
    bool is_input;
    int64_t number;  // itself, or that of an input
  };

  static Entry Parse(const std::string& text, std::string_view word, size_t inputs) {
    Entry entry{!word.empty() && word.front() == '@', 0};
    if (entry.is_input) word.remove_prefix(1);
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, entry.number);
    const bool in_range =
        !entry.is_input || (entry.number >= 0 && entry.number < static_cast<int64_t>(inputs));
    if (error != std::errc() || stop != end || !in_range) {
      throw Error(ErrorCode::kInvalidModel,
                  "expected integers and inputs in indexes=" + text.substr(0, 80));
    }
    return entry;
  }

  static const Value& Input(const Args& args, const Entry& entry) {
    return *args.variadic()[static_cast<size_t>(entry.number)];
  }

  Value::List List(const Args& args) const {
    Value::List list;
    for (const Entry& entry : entries_) {
      list.emplace_back(entry.is_input ? Input(args, entry).AsInt() : entry.number);
    }
    return list;
  }

  std::vector<Entry> entries_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(slice_indexes) {
  using namespace oort;
  registry.Add(OperatorSchema({"pnnx.SliceIndexes"},
                              "A list of integers for Tensor.slice, some of them computed")
                   .String("indexes")
                   .Tensors("inputs", kAllDTypes),
               Create<SliceIndexesLayer>());
}
