// SPDX-License-Identifier: MIT
// Networks compute in 16-bit floats between their operators: products and convolutions round what
// they read, what follows them stays in 16 bits as long as it can, and everything else, as the
// inputs and outputs of the model, is f32.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "cpu/activation.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

constexpr std::array<std::string_view, 9> kProducts = {
    "nhwc.Conv2d",        "nn.Conv1d", "nn.Conv2d",          "nn.Conv3d",  "nn.ConvTranspose1d",
    "nn.ConvTranspose2d", "nn.Linear", "nn.ConvTranspose3d", "oort.Linear"};

/// Operators that give floats of the dtype that they are given.
constexpr auto kFollowers = std::to_array<std::string_view>({
    "nn.MaxPool1d",
    "nn.MaxPool2d",
    "nn.MaxPool3d",
    "nn.AvgPool1d",
    "nn.AvgPool2d",
    "nn.AvgPool3d",
    "nn.AdaptiveAvgPool1d",
    "nn.AdaptiveAvgPool2d",
    "F.max_pool2d",
    "F.avg_pool2d",
    "F.adaptive_avg_pool2d",
    "torch.flatten",
    "nn.Flatten",
    "Tensor.reshape",
    "Tensor.view",
    "Tensor.permute",
    "torch.permute",
    "torch.transpose",
    "torch.squeeze",
    "torch.unsqueeze",
    "torch.cat",
    "torch.chunk",
    "torch.split",
    "torch.stack",
    "torch.mean",
    "Tensor.slice",
    "Tensor.select",
    "Tensor.expand",
    "Tensor.contiguous",
    "nn.Dropout",
    "nn.Dropout2d",
    "F.dropout",
    "nn.Identity",
    "nn.Softmax",
    "F.softmax",
    "nn.LayerNorm",
    "F.layer_norm",
    "oort.Attention",
    "nn.Upsample",
    "F.interpolate",
    "F.upsample",
    "nn.BatchNorm2d",
    "F.scaled_dot_product_attention",
    "nn.PixelShuffle",
    "F.pixel_shuffle",
    "nn.ChannelShuffle",
});

/// Those of them, and of the products, that a CPU computes in f16 or only moves; all others would
/// be converted to f32 and back there.
constexpr auto kCpuProducts =
    std::to_array<std::string_view>({"nhwc.Conv2d", "nn.Linear", "oort.Linear"});
constexpr auto kCpuFollowers = std::to_array<std::string_view>({
    "nhwc.MaxPool2d",
    "nhwc.AvgPool2d",
    "nhwc.AdaptiveAvgPool2d",
    "nhwc.AdaptiveMaxPool2d",
    "nhwc.cat",
    "nhwc.chunk",
    "nhwc.split",
    "nhwc.put",
    "nhwc.interleave",
    "nhwc.ChannelShuffle",
    "nhwc.PixelShuffle",
    "nhwc.PixelUnshuffle",
    "nhwc.leave",
    "torch.flatten",
    "nn.Flatten",
    "Tensor.reshape",
    "Tensor.view",
    "torch.squeeze",
    "torch.unsqueeze",
    "torch.cat",
    "torch.chunk",
    "torch.split",
    "Tensor.slice",
    "Tensor.contiguous",
    "nn.Dropout",
    "nn.Dropout2d",
    "F.dropout",
    "nn.Identity",
});

template <typename Types>
bool Lists(const Types& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

class NarrowPass {
 public:
  NarrowPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) {
      if (IsProduct(Op(index))) {
        Narrow(index);
      } else if (Follows(index)) {
        Narrow(index);
      } else {
        Widen(index);
      }
    }
    // What was cast in vain has no reader any more.
    graph_.Remove(std::vector<bool>(graph_.operators.size(), false));
  }

 private:
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  Operand& At(int operand) { return graph_.operands[static_cast<size_t>(operand)]; }
  bool OnGpu() const { return context_.on_gpu; }
  bool IsNarrow(int operand) { return At(operand).dtype == context_.narrow; }
  bool IsWide(int operand) { return At(operand).dtype == DType::kF32; }
  bool IsConstant(int operand) {
    const int producer = At(operand).producer;
    return producer >= 0 && Op(producer).type == "pnnx.Attribute";
  }

  /// Of elements alone, and without casts.
  static bool IsPlainFormula(const std::string& text) {
    return text.find("size") == std::string::npos && text.find("torch.") == std::string::npos;
  }

  bool IsProduct(const Operator& op) {
    const bool known = OnGpu() ? Lists(kProducts, op.type) : Lists(kCpuProducts, op.type);
    if (!known || !context_.HasLayer(op.type) || op.inputs.empty()) return false;
    if (!OnGpu() && !FitsCpu(op)) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](int input) { return IsWide(input) || IsNarrow(input); });
  }

  /// The weight is at hand, and what is added to a product has the shape of the result.
  bool FitsCpu(const Operator& op) {
    const Tensor* weight = FindAttribute(op, "weight");
    if (weight == nullptr || !IsFloatOrAbsent(weight) || op.outputs.size() != 1) return false;
    const Operand& output = At(op.outputs[0]);
    if (op.inputs.size() < 2 || op.type == "nhwc.Conv2d") return true;
    const Operand& addend = At(op.inputs[1]);
    return op.inputs.size() == 2 && output.has_shape && addend.has_shape &&
           output.shape == addend.shape;
  }

  /// Whether all floats that come are narrow already, or constants that can be made so.
  bool Follows(int index) {
    const Operator& op = Op(index);
    if (op.IsPort() || !context_.HasLayer(op.type)) return false;
    const bool listed = OnGpu() ? Lists(kFollowers, op.type) || op.type.starts_with("nhwc.")
                                : Lists(kCpuFollowers, op.type);
    const bool elementwise =
        op.type == "pnnx.Expression" && IsPlainFormula(ParameterText(op, "expr"));
    if (!listed && !elementwise && !ActivationOf(op)) return false;
    bool any = false;
    for (int input : op.inputs) {
      any = any || IsNarrow(input);
      if (!IsNarrow(input) && !(IsWide(input) && IsConstant(input))) return false;
    }
    return any;
  }

  void Narrow(int index) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      if (!IsNarrow(input)) Replace(index, i, NarrowOf(input));
    }
    for (int output : Op(index).outputs) {
      if (At(output).dtype != DType::kF32 && At(output).dtype != DType::kNull) continue;
      At(output).dtype = context_.narrow;
      made_.insert(output);
    }
    // These round their weights themselves.
    if (!OnGpu() || Op(index).type == "nhwc.Conv2d") return;
    for (auto& [name, tensor] : Op(index).attributes) {
      if (IsFloatOrAbsent(&tensor)) tensor = tensor.To(context_.narrow);
    }
  }

  void Widen(int index) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      if (IsNarrow(input) && made_.count(input) != 0) Replace(index, i, WideOf(input));
    }
  }

  void Replace(int index, size_t place, int operand) {
    int& input = Op(index).inputs[place];
    std::vector<int>& users = At(input).consumers;
    users.erase(std::find(users.begin(), users.end(), index));
    At(operand).consumers.push_back(index);
    input = operand;
  }

  int NarrowOf(int wide) {
    if (Pack(wide)) return wide;
    const auto found = narrow_of_.find(wide);
    if (found != narrow_of_.end()) return found->second;
    return narrow_of_[wide] = Cast(wide, context_.narrow);
  }
  int WideOf(int narrow) {
    const auto found = wide_of_.find(narrow);
    if (found != wide_of_.end()) return found->second;
    return wide_of_[narrow] = Cast(narrow, DType::kF32);
  }

  /// Where images of f32 enter for convolutions only, one operator moves their channels, rounds
  /// them and fills up the channels of a pixel, whose weights are zero, to what the device likes.
  bool Pack(int image) {
    const int producer = At(image).producer;
    if (producer < 0 || Op(producer).type != "nhwc.enter" || !At(image).has_shape ||
        ParameterText(Op(producer), "image") != "True" || !context_.HasLayer("nhwc.pack")) {
      return false;
    }
    const int64_t channels = At(image).shape[At(image).shape.rank() - 1];
    for (int user : At(image).consumers) {
      const Tensor* weight = FindAttribute(Op(user), "weight");
      const bool plain = Op(user).type == "nhwc.Conv2d" && Op(user).inputs.size() == 1 &&
                         weight != nullptr && weight->dim(1) == channels && IsFloatOrAbsent(weight);
      if (!plain) return false;
    }
    // A GPU reads whole words.
    const int64_t padded = !OnGpu() ? channels : channels <= 4 ? 4 : (channels + 7) / 8 * 8;
    for (int user : At(image).consumers) PadWeight(Op(user), padded);
    Operator& op = Op(producer);
    op.type = "nhwc.pack";
    op.params.erase("image");
    op.params["dtype"] = Parameter(TorchName(context_.narrow));
    op.params["channels"] = Parameter(std::to_string(padded));
    At(image).shape[At(image).shape.rank() - 1] = padded;
    At(image).dtype = context_.narrow;
    return true;
  }

  /// (filters, channels, height, width), with zeros for more channels.
  static void PadWeight(Operator& op, int64_t channels) {
    Tensor& weight = op.attributes["weight"];
    Shape shape = weight.shape();
    const int64_t given = shape.Product(1, 4);
    shape[1] = channels;
    Tensor padded = Tensor::Zeros(DType::kF32, shape);
    for (int64_t f = 0; f < shape[0]; ++f) {
      std::copy_n(weight.data<float>() + f * given, given,
                  padded.data<float>() + f * shape.Product(1, 4));
    }
    weight = padded;
    const auto declared = op.params.find("in_channels");
    if (declared != op.params.end()) declared->second = Parameter(std::to_string(channels));
  }

  int Cast(int from, DType dtype) {
    const std::string suffix = "." + std::string(Name(dtype));
    const int to = graph_.AddOperand(At(from).name + suffix);
    At(to).dtype = dtype;
    At(to).has_shape = At(from).has_shape;
    At(to).shape = At(from).shape;
    Operator cast;
    cast.type = "Tensor.to";
    cast.name = "cast_" + At(from).name + suffix;
    cast.inputs = {from};
    cast.outputs = {to};
    cast.params["dtype"] = Parameter(TorchName(dtype));
    graph_.AddOperator(std::move(cast));
    return to;
  }

  static std::string TorchName(DType dtype) {
    if (dtype == DType::kF16) return "torch.half";
    return dtype == DType::kBF16 ? "torch.bfloat16" : "torch.float";
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<int, int> narrow_of_, wide_of_;
  std::set<int> made_;  // operands that are narrow because of this pass
};

}  // namespace

void NarrowFloats(Graph& graph, const PassContext& context) {
  if (context.narrow == DType::kNull) return;
  NarrowPass(graph, context).Run();
}

}  // namespace oort
