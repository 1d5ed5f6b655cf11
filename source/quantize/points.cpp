// SPDX-License-Identifier: MIT
#include "quantize/points.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>

#include "graph/passes/byte_quantizer.h"
#include "graph/passes/zero_padding.h"
#include "quantize/row_layers.h"

namespace oort::quantize {
namespace {

/// "nn.MaxPool2d" and "F.max_pool2d" both as "maxpool2d".
std::string PlainName(const std::string& type) {
  std::string name;
  for (const char c : type.substr(type.rfind('.') + 1)) {
    if (c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

bool IsOneOf(const Operator& op, std::initializer_list<std::string_view> names) {
  if (op.type.starts_with("oort.") || op.type.starts_with("pnnx.")) return false;
  const std::string name = PlainName(op.type);
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Runs in the epilogue of what is before it.
bool IsActivation(const Operator& op) {
  return op.inputs.size() == 1 &&
         IsOneOf(op, {"relu", "relu6", "hardtanh", "clamp", "hardswish", "silu", "gelu", "sigmoid",
                      "hardsigmoid", "tanh", "leakyrelu", "mish", "elu"});
}

/// Gives elements of its first input as they are, or clipped.
bool IsPassive(const Operator& op) {
  if (op.inputs.empty()) return false;
  if (IsOneOf(op, {"maxpool2d", "adaptivemaxpool2d"})) return op.outputs.size() == 1;
  if (PadsZeros(op)) return true;
  if (IsOneOf(op, {"interpolate", "upsample"})) return ParameterText(op, "mode") == "nearest";
  return IsOneOf(op, {"relu",
                      "relu6",
                      "hardtanh",
                      "flatten",
                      "reshape",
                      "view",
                      "permute",
                      "transpose",
                      "chunk",
                      "split",
                      "slice",
                      "narrow",
                      "squeeze",
                      "unsqueeze",
                      "pixelshuffle",
                      "pixelunshuffle",
                      "channelshuffle",
                      "contiguous",
                      "dropout",
                      "identity",
                      "upsamplenearest",
                      "upsamplingnearest2d"});
}

bool IsAveragePool(const Operator& op) {
  return IsOneOf(op, {"avgpool2d", "adaptiveavgpool2d", "mean"});
}

bool IsAdd(const Operator& op) {
  if (op.inputs.size() != 2) return false;
  return ParameterText(op, "expr") == "add(@0,@1)" ||
         (op.type == "torch.add" && op.params.count("alpha") == 0);
}

bool IsProduct(const Operator& op) {
  return op.inputs.size() >= 2 &&
         (op.type == "torch.mul" || ParameterText(op, "expr").find("mul(") != std::string::npos);
}

/// Operators that multiply by weights, whether or not bytes could do it.
bool IsLayer(const Operator& op) {
  static constexpr std::string_view kLayers[] = {
      "nn.Conv2d",          "nn.Linear",          "nn.Conv1d",          "nn.Conv3d",
      "F.conv1d",           "F.conv2d",           "F.conv3d",           "nn.ConvTranspose1d",
      "nn.ConvTranspose2d", "nn.ConvTranspose3d", "F.conv_transpose2d", "F.linear"};
  return op.outputs.size() == 1 && !op.inputs.empty() &&
         std::find(std::begin(kLayers), std::end(kLayers), op.type) != std::end(kLayers);
}

/// Why a layer cannot be quantized; empty where it can.
std::string Obstacle(const Graph& graph, const Operator& op) {
  if (op.type.starts_with("F.")) return "its weights are not its own: export it as a module";
  if (op.type != "nn.Conv2d" && op.type != "nn.Linear") return "bytes have no form of " + op.type;
  const Tensor* weight = FindAttribute(op, "weight");
  const Tensor* bias = FindAttribute(op, "bias");
  if (op.inputs.size() != 1 || weight == nullptr) return "its weights are shared";
  if (weight->dtype() != DType::kF32 || !weight->has_data() || weight->elements() == 0 ||
      !IsFloatOrAbsent(bias)) {
    return "its weights are not f32";
  }
  const Operand& input = graph.operands[static_cast<size_t>(op.inputs[0])];
  if (input.dtype != DType::kF32 && input.dtype != DType::kNull) return "its input is not f32";
  if (op.type != "nn.Conv2d") return "";
  const std::string mode = ParameterText(op, "padding_mode");
  if (!mode.empty() && mode != "zeros") return "it pads by " + mode;
  const Value padding = ParameterValue(op, "padding");
  if (padding.IsList() && padding.AsList().size() != 2) return "its sides are padded unevenly";
  return "";
}

class PointFinder {
 public:
  PointFinder(const Graph& graph, const Decide& decide)
      : graph_(graph),
        decide_(decide),
        order_(graph.TopologicalOrder()),
        layer_of_(graph.operators.size(), -1),
        host_of_(graph.operators.size(), -1),
        in_region_(graph.operators.size(), false),
        point_(graph.operands.size(), false),
        same_(graph.operands.size()) {
    std::iota(same_.begin(), same_.end(), 0);
  }

  Points Run() {
    FindLayers();
    MarkSqueezeExcite();
    Spread();
    if (DropIsolated()) Spread();
    return Finish();
  }

 private:
  const Operator& Op(int index) const { return graph_.operators[static_cast<size_t>(index)]; }
  const Operand& At(int index) const { return graph_.operands[static_cast<size_t>(index)]; }
  template <typename T>
  static auto Of(T& list, int index) -> decltype(list[0]) {
    return list[static_cast<size_t>(index)];
  }

  void FindLayers() {
    for (const int index : order_) {
      const Operator& op = Op(index);
      if (!IsLayer(op)) continue;
      Layer layer;
      layer.op = index;
      layer.input = op.inputs.back();
      layer.output = op.outputs[0];
      layer.why_float = Obstacle(graph_, op);
      const std::optional<Decision> decision = decide_(op);
      decided_.push_back(decision.has_value());
      if (decision && decision->keep_float && layer.quantized()) layer.why_float = decision->reason;
      Of(layer_of_, index) = static_cast<int>(points_.layers.size());
      points_.layers.push_back(layer);
    }
  }

  /// Whether what an operand holds was made of averages of whole images, by layers and activations
  /// alone; these layers are added to `passed`.
  bool ComesFromPool(int operand, std::vector<int>& passed) const {
    for (int steps = 0; steps < 16; ++steps) {
      const int producer = At(operand).producer;
      if (producer < 0) return false;
      const Operator& op = Op(producer);
      if (IsAveragePool(op)) return true;
      if (layer_of_[static_cast<size_t>(producer)] >= 0) {
        passed.push_back(layer_of_[static_cast<size_t>(producer)]);
      } else if (!IsActivation(op) && !IsPassive(op)) {
        return false;
      }
      operand = op.inputs[0];
    }
    return false;
  }

  void MarkSqueezeExcite() {
    for (const Operator& op : graph_.operators) {
      if (!IsProduct(op)) continue;
      for (const int input : op.inputs) {
        std::vector<int> passed;
        if (!ComesFromPool(input, passed)) continue;
        for (const int layer : passed) {
          if (Of(decided_, layer) || !Of(points_.layers, layer).quantized()) continue;
          Of(points_.layers, layer).why_float = "it makes factors of channels (squeeze-and-excite)";
        }
      }
    }
  }

  /// The operators behind `index` that run with it: a sum that no other host has, an activation.
  int EndOf(int index, bool may_add) {
    int operand = Op(index).outputs[0];
    while (At(operand).consumers.size() == 1) {
      const int next = At(operand).consumers[0];
      const bool sum = may_add && IsAdd(Op(next)) && Of(host_of_, next) < 0;
      if (!sum && !IsActivation(Op(next))) break;
      Of(host_of_, next) = index;
      operand = Op(next).outputs[0];
      if (!sum) break;
      may_add = false;
    }
    return operand;
  }

  /// From the layers upwards: what is to be bytes.
  void Spread() {
    std::fill(host_of_.begin(), host_of_.end(), -1);
    std::fill(in_region_.begin(), in_region_.end(), false);
    std::fill(point_.begin(), point_.end(), false);
    std::iota(same_.begin(), same_.end(), 0);
    std::vector<int> end_of(graph_.operators.size(), -1);
    // The later of two layers that a sum joins computes it: the other's result is there by then.
    for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
      const int layer = Of(layer_of_, *i);
      if (layer < 0) continue;
      Of(points_.layers, layer).output = Of(end_of, *i) = EndOf(*i, true);
    }
    for (const int index : order_) {
      if (Of(host_of_, index) < 0 && Computes(Op(index))) {
        Of(end_of, index) = EndOf(index, false);
      }
    }
    for (auto i = order_.rbegin(); i != order_.rend(); ++i) Visit(*i, end_of);
  }

  void Visit(int index, const std::vector<int>& end_of) {
    const Operator& op = Op(index);
    if (const int layer = Of(layer_of_, index); layer >= 0) {
      if (Of(points_.layers, layer).quantized()) Of(point_, op.inputs[0]) = true;
      return;
    }
    const int end = end_of[static_cast<size_t>(index)];
    if (end >= 0) {
      // Means of what is bytes for others are summed of bytes, and may be floats.
      const int first = op.inputs[0];
      const bool rounded = IsAveragePool(op) && Of(point_, first) && IsMade(first);
      if (!Of(point_, end) && !rounded) return;
      // What floats alone made is not rounded, but for the factors of channels, which are few.
      const int factors = FactorsOf(op);
      const bool fits = std::all_of(op.inputs.begin(), op.inputs.end(), [&](int input) {
        return input == factors || Of(point_, input) || IsMade(input);
      });
      if (fits) Enter(index);
      return;
    }
    if (const int host = Of(host_of_, index); host >= 0) {
      if (!IsAdd(op) || !Of(point_, Of(end_of, host)) || !HostsBytes(host)) return;
      Of(in_region_, index) = true;
      Of(point_, OtherInput(index)) = true;
      return;
    }
    const bool wanted = std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](int output) { return Of(point_, output); });
    if (!wanted) return;
    if (op.type == "torch.cat") {
      Enter(index);
      for (const int input : op.inputs) Join(input, op.outputs[0]);
    } else if (IsPassive(op)) {
      Of(in_region_, index) = true;
      Of(point_, op.inputs[0]) = true;
      for (const int output : op.outputs) Join(op.inputs[0], output);
    }
  }

  /// Operators without weights that read bytes and give others.
  bool Computes(const Operator& op) const {
    return IsAdd(op) || IsAveragePool(op) || MultipliesBytes(op);
  }

  /// Products of two tensors of one shape, or of an image and factors of its channels.
  bool MultipliesBytes(const Operator& op) const {
    if (!IsMultiplication(op) || op.inputs[0] == op.inputs[1]) return false;
    const Operand &a = At(op.inputs[0]), &b = At(op.inputs[1]);
    return a.has_shape && b.has_shape && (a.shape == b.shape || FactorsOf(op) >= 0);
  }

  /// Of a product with factors of channels these; -1 of all others.
  int FactorsOf(const Operator& op) const {
    if (!IsMultiplication(op)) return -1;
    const Operand &a = At(op.inputs[0]), &b = At(op.inputs[1]);
    if (!a.has_shape || !b.has_shape || a.shape == b.shape) return -1;
    if (ScalesChannels(a.shape, b.shape)) return op.inputs[1];
    return ScalesChannels(b.shape, a.shape) ? op.inputs[0] : -1;
  }

  /// Whether a host is a layer that multiplies bytes: else its sums read floats.
  bool HostsBytes(int host) const {
    const int layer = Of(layer_of_, host);
    return layer >= 0 && Of(points_.layers, layer).quantized();
  }

  void Enter(int index) {
    Of(in_region_, index) = true;
    for (const int input : Op(index).inputs) Of(point_, input) = true;
  }

  /// Whether a layer, or what is made of its result without leaving bytes, makes an operand.
  bool IsMade(int operand) const {
    int producer = At(operand).producer;
    if (producer >= 0 && host_of_[static_cast<size_t>(producer)] >= 0) {
      producer = host_of_[static_cast<size_t>(producer)];
    }
    if (producer < 0) return false;
    const int layer = layer_of_[static_cast<size_t>(producer)];
    if (layer >= 0) return points_.layers[static_cast<size_t>(layer)].quantized();
    const Operator& op = Op(producer);
    return (IsPassive(op) || Computes(op) || op.type == "torch.cat") &&
           std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](int input) { return IsMade(input); });
  }

  /// The input of a sum that does not come from its host.
  int OtherInput(int sum) const {
    const int host = host_of_[static_cast<size_t>(sum)];
    const int mine = Op(host).outputs[0];
    return Op(sum).inputs[0] == mine ? Op(sum).inputs[1] : Op(sum).inputs[0];
  }

  int Root(int operand) {
    while (Of(same_, operand) != operand)
      operand = Of(same_, operand) = Of(same_, Of(same_, operand));
    return operand;
  }
  void Join(int one, int other) {
    const int a = Root(one), b = Root(other);
    Of(same_, std::max(a, b)) = std::min(a, b);
  }

  bool DropIsolated() {
    bool dropped = false;
    for (size_t i = 0; i < points_.layers.size(); ++i) {
      Layer& layer = points_.layers[i];
      if (!layer.quantized() || decided_[i]) continue;
      if (IsMade(layer.input) || Of(point_, layer.output)) continue;
      layer.why_float = "it is isolated: its neighbours are float";
      dropped = true;
    }
    return dropped;
  }

  Points Finish() {
    const size_t operands = graph_.operands.size();
    points_.class_of.assign(operands, -1);
    points_.source.assign(operands, true);
    class_of_root_.assign(operands, -1);
    for (const int index : order_) {
      const Operator& op = Op(index);
      const bool passive = Of(in_region_, index) && (IsPassive(op) || op.type == "torch.cat");
      for (const int output : op.outputs) {
        if (Of(point_, output)) Enroll(output);
        if (passive && Of(host_of_, index) < 0) Of(points_.source, output) = false;
      }
    }
    for (const int index : order_) AddUses(index);
    return std::move(points_);
  }

  void Enroll(int operand) {
    int& number = Of(class_of_root_, Root(operand));
    if (number < 0) {
      number = static_cast<int>(points_.classes.size());
      points_.classes.emplace_back();
    }
    Of(points_.class_of, operand) = number;
    Of(points_.classes, number).push_back(operand);
  }

  void AddUses(int index) {
    const Operator& op = Op(index);
    const int layer = Of(layer_of_, index);
    if (layer >= 0) {
      if (Of(points_.layers, layer).quantized()) points_.uses.push_back({index, 0});
    } else if (IsAdd(op) && Of(host_of_, index) >= 0) {
      const int other = OtherInput(index);
      const size_t at = op.inputs[0] == other ? 0 : 1;
      if (Of(point_, other) && HostsBytes(Of(host_of_, index))) points_.uses.push_back({index, at});
    } else if (Of(in_region_, index)) {
      const size_t count = IsPassive(op) ? 1 : op.inputs.size();
      for (size_t at = 0; at < count; ++at) points_.uses.push_back({index, at});
    }
  }

  const Graph& graph_;
  const Decide& decide_;
  std::vector<int> order_;
  Points points_;
  std::vector<bool> decided_;  // by layer
  std::vector<int> layer_of_;  // by operator: index into layers, or -1
  std::vector<int> host_of_;   // by operator: the one that it runs with, or -1
  std::vector<bool> in_region_, point_;
  std::vector<int> same_;           // union-find over operands that share a scale
  std::vector<int> class_of_root_;  // by operand: the class of all that have it as their root
};

}  // namespace

size_t Points::QuantizedLayers() const {
  return static_cast<size_t>(std::count_if(layers.begin(), layers.end(),
                                           [](const Layer& layer) { return layer.quantized(); }));
}

Points FindDynamicPoints(const Graph& graph, const Decide& decide) {
  Points points;
  points.class_of.assign(graph.operands.size(), -1);
  points.source.assign(graph.operands.size(), true);
  for (const int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    const bool reads_rows = DynamicTypeOf(op) != nullptr && !op.inputs.empty();
    if (!IsLayer(op) && !reads_rows) continue;
    Layer layer;
    layer.op = index;
    layer.input = reads_rows ? op.inputs.front() : op.inputs.back();
    layer.output = op.outputs[0];
    if (reads_rows) {
      layer.why_float = RowObstacle(graph, op);
    } else if (op.type == "nn.Linear") {
      layer.why_float = Obstacle(graph, op);
    } else {
      layer.why_float = "scales of rows are for linear and recurrent layers and attention";
    }
    const std::optional<Decision> decision = decide(op);
    if (decision && decision->keep_float && layer.quantized()) layer.why_float = decision->reason;
    if (!decision && layer.quantized() && HasSmallSteps(op)) {
      layer.why_float = "its steps are so small that bytes would be slower";
    }
    if (layer.quantized() && !reads_rows) points.uses.push_back({index, 0});
    points.layers.push_back(layer);
  }
  return points;
}

Points FindPoints(const Graph& graph, const Decide& decide) {
  return PointFinder(graph, decide).Run();
}

}  // namespace oort::quantize
