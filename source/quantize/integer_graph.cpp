// SPDX-License-Identifier: MIT
#include "quantize/integer_graph.h"

#include <algorithm>
#include <set>

#include "graph/passes/rewrite.h"
#include "quantize/row_layers.h"

namespace oort::quantize {
namespace {

class Writer {
 public:
  Writer(const Graph& graph, const Points& points, const Numbers& numbers)
      : graph_(graph), points_(points), numbers_(numbers) {
    for (const Operator& op : graph.operators) operators_.insert(op.name);
    for (const Operand& operand : graph.operands) operands_.insert(operand.name);
  }

  Graph Run() {
    std::map<int, int> floats;  // by point: its values after bytes
    for (const Use& use : points_.uses) {
      const int point = graph_.operators[static_cast<size_t>(use.op)].inputs[use.at];
      auto found = floats.find(point);
      if (found == floats.end()) found = floats.emplace(point, ThroughBytes(point)).first;
      graph_.ReplaceInput(use.op, use.at, found->second);
    }
    for (const Layer& layer : points_.layers) {
      if (layer.quantized()) Rewrite(layer.op);
    }
    Sort();
    return std::move(graph_);
  }

 private:
  static std::string Fresh(std::set<std::string>& taken, const std::string& name) {
    std::string fresh = name;
    for (int i = 2; !taken.insert(fresh).second; ++i) fresh = name + "_" + std::to_string(i);
    return fresh;
  }
  std::string FreshOperator(const std::string& name) { return Fresh(operators_, name); }
  std::string FreshOperand(const std::string& name) { return Fresh(operands_, name); }

  static Operator Make(const char* type, std::string name,
                       std::initializer_list<std::pair<const char*, Value>> params) {
    Operator op;
    op.type = type;
    op.name = std::move(name);
    for (const auto& [key, value] : params) op.params[key] = Parameter::FromValue(value);
    return op;
  }

  int ThroughBytes(int point) {
    if (numbers_.dynamic) return ThroughRows(point);
    const Grid& grid = numbers_.grids.at(point);
    const std::string name = graph_.operands[static_cast<size_t>(point)].name;
    const Value scale = static_cast<double>(grid.scale), zero = grid.zero_point;
    const int bytes =
        graph_.AddOperatorOn(point,
                             Make("oort.Quantize", FreshOperator("quantize_" + name),
                                  {{"scale", scale}, {"zero_point", zero}, {"dtype", "u8"}}),
                             FreshOperand(name + "_u8"));
    graph_.operands[static_cast<size_t>(bytes)].dtype = DType::kU8;
    const int floats =
        graph_.AddOperatorOn(bytes,
                             Make("oort.Dequantize", FreshOperator("dequantize_" + name),
                                  {{"scale", scale}, {"zero_point", zero}}),
                             FreshOperand(name + "_f32"));
    graph_.operands[static_cast<size_t>(floats)].dtype = DType::kF32;
    return floats;
  }

  int ThroughRows(int point) {
    const std::string name = graph_.operands[static_cast<size_t>(point)].name;
    const int floats =
        graph_.AddOperatorOn(point,
                             Make("oort.DynamicQuantize", FreshOperator("quantize_" + name),
                                  {{"symmetric", numbers_.symmetric}}),
                             FreshOperand(name + "_f32"));
    graph_.operands[static_cast<size_t>(floats)].dtype = DType::kF32;
    return floats;
  }

  int Constant(const std::string& name, Tensor tensor) {
    Operator op = Make("pnnx.Attribute", FreshOperator(name), {});
    const int operand = graph_.AddOperand(FreshOperand(name));
    Operand& made = graph_.operands[static_cast<size_t>(operand)];
    made.dtype = tensor.dtype();
    made.has_shape = true;
    made.shape = tensor.shape();
    op.attributes["data"] = std::move(tensor);
    op.outputs = {operand};
    graph_.AddOperator(std::move(op));
    return operand;
  }

  void RewriteMatrices(int index, const LayerForm& form) {
    Operator& op = graph_.operators[static_cast<size_t>(index)];
    op.type = DynamicTypeOf(op);
    for (const auto& [name, matrix] : form.matrices) {
      Tensor& weight = op.attributes.at(name);
      weight = Tensor::From<int8_t>(std::span(matrix.values), weight.shape());
      op.attributes[name + "_scales"] = Tensor::From<float>(
          std::span(matrix.scales), Shape{static_cast<int64_t>(matrix.scales.size())});
    }
    if (numbers_.symmetric) op.params["symmetric"] = Parameter::FromValue(true);
  }

  void Rewrite(int index) {
    const LayerForm& form = numbers_.forms.at(index);
    if (!form.matrices.empty()) return RewriteMatrices(index, form);
    const std::string name = graph_.operators[static_cast<size_t>(index)].name;
    const Shape shape =
        graph_.operators[static_cast<size_t>(index)].attributes.at("weight").shape();
    const auto channels = static_cast<int64_t>(form.weights.scales.size());
    const int bytes =
        Constant(name + ".weight_i8", Tensor::From<int8_t>(std::span(form.weights.values), shape));
    Operator dequantize = Make("oort.Dequantize", FreshOperator(name + ".weight"), {{"axis", 0}});
    dequantize.attributes["scales"] =
        Tensor::From<float>(std::span(form.weights.scales), Shape{channels});
    const int weight =
        graph_.AddOperatorOn(bytes, std::move(dequantize), FreshOperand(name + ".weight_f32"));
    graph_.operands[static_cast<size_t>(weight)].dtype = DType::kF32;
    const Tensor bias = Bias(index, form, channels);
    Operator& op = graph_.operators[static_cast<size_t>(index)];
    const bool convolution = op.type == "nn.Conv2d";
    op.type = convolution ? "F.conv2d" : "F.linear";
    op.attributes.clear();
    for (const char* key : {"in_channels", "out_channels", "kernel_size", "padding_mode", "bias",
                            "in_features", "out_features"}) {
      op.params.erase(key);
    }
    op.input_names = {"input"};
    graph_.AddInput(index, weight, "weight");
    if (bias.defined()) graph_.AddInput(index, Constant(name + ".bias", bias), "bias");
  }

  /// With its correction; undefined where there is neither.
  Tensor Bias(int index, const LayerForm& form, int64_t channels) const {
    const Operator& op = graph_.operators[static_cast<size_t>(index)];
    const Tensor* stored = FindAttribute(op, "bias");
    if (stored == nullptr && form.correction.empty()) return {};
    Tensor bias = Tensor::Zeros(DType::kF32, Shape{channels});
    float* values = bias.data<float>();
    for (size_t i = 0; i < static_cast<size_t>(channels); ++i) {
      values[i] = stored != nullptr ? stored->data<float>()[i] : 0;
      if (!form.correction.empty()) values[i] += form.correction[i];
    }
    return bias;
  }

  /// Makes stand before their readers, as in every file that pnnx writes.
  void Sort() {
    const std::vector<int> order = graph_.TopologicalOrder();
    std::vector<int> place(order.size());
    std::vector<Operator> sorted;
    sorted.reserve(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      place[static_cast<size_t>(order[i])] = static_cast<int>(i);
      sorted.push_back(std::move(graph_.operators[static_cast<size_t>(order[i])]));
      sorted.back().line = 0;
    }
    graph_.operators = std::move(sorted);
    for (Operand& operand : graph_.operands) {
      if (operand.producer >= 0) operand.producer = place[static_cast<size_t>(operand.producer)];
      for (int& consumer : operand.consumers) consumer = place[static_cast<size_t>(consumer)];
    }
  }

  Graph graph_;
  const Points& points_;
  const Numbers& numbers_;
  std::set<std::string> operators_, operands_;  // names that are taken
};

}  // namespace

QuantizedWeights QuantizeWeights(const Operator& layer, const std::string& attribute,
                                 WeightMethod method, bool one_scale, int threads) {
  const Tensor& weight = layer.attributes.at(attribute);
  try {
    return (one_scale ? QuantizeAlike : QuantizeRows)(weight.span<float>(), weight.dim(0), method,
                                                      threads);
  } catch (const Error& error) {
    throw error.WithContext(layer.Describe() + ": ");
  }
}

Graph IntegerGraph(const Graph& graph, const Points& points, const Numbers& numbers) {
  return Writer(graph, points, numbers).Run();
}

}  // namespace oort::quantize
