// SPDX-License-Identifier: MIT
// Networks compute in 16-bit floats between their operators. Products and convolutions round what
// they read to 16 bits; operators behind them stay in 16 bits where they can (Trait::kKeepsDType);
// all others, and the inputs and outputs of the model, are f32, with casts between.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

class NarrowPass {
 public:
  NarrowPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) {
      if (IsProduct(Op(index)) || Follows(index)) {
        Narrow(index);
      } else {
        Widen(index);
      }
    }
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

  bool IsNhwcConv(const Operator& op) const { return op.type == "nhwc.Conv2d"; }

  /// Whether the device has a layer for the operator that takes 16-bit floats as they are. On a CPU
  /// all but those with Trait::kF16OnCpu would convert to f32 and back.
  bool HasNarrowLayer(const Operator& op) const {
    if (!context_.HasLayer(op.type) || !(OnGpu() || context_.Has(Trait::kF16OnCpu, op))) {
      return false;
    }
    const std::vector<ArgSpec>& args = context_.Schema(op.type)->args();
    return std::all_of(args.begin(), args.end(), [&](const ArgSpec& arg) {
      const bool input = arg.type == ArgType::kTensor && !arg.attribute;
      return !input || arg.dtypes.Contains(context_.narrow);
    });
  }

  bool IsProduct(const Operator& op) {
    if (!context_.Has(Trait::kProduct, op) || !HasNarrowLayer(op) || op.inputs.empty()) {
      return false;
    }
    if (!OnGpu() && !FitsCpu(op)) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(),
                       [&](int input) { return IsWide(input) || IsNarrow(input); });
  }

  /// Whether the f16 layers of the CPU take a product: its weight is stored with it, because they
  /// pack that at load, and the addend of a linear operator, which they do not broadcast, has the
  /// shape of the result.
  bool FitsCpu(const Operator& op) {
    const Tensor* weight = FindAttribute(op, "weight");
    if (weight == nullptr || !IsFloatOrAbsent(weight) || op.outputs.size() != 1) return false;
    const Operand& output = At(op.outputs[0]);
    if (op.inputs.size() < 2 || IsNhwcConv(op)) return true;
    const Operand& addend = At(op.inputs[1]);
    return op.inputs.size() == 2 && output.has_shape && addend.has_shape &&
           output.shape == addend.shape;
  }

  /// Whether the operator stays in 16 bits: it can, and each float that it reads is narrow already
  /// or a constant that can be made so.
  bool Follows(int index) {
    const Operator& op = Op(index);
    if (!context_.Has(Trait::kKeepsDType, op) || !HasNarrowLayer(op)) return false;
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
      if (!IsNarrow(input)) graph_.ReplaceInput(index, i, NarrowOf(input));
    }
    for (int output : Op(index).outputs) {
      if (At(output).dtype != DType::kF32 && At(output).dtype != DType::kNull) continue;
      At(output).dtype = context_.narrow;
      made_.insert(output);
    }
    // Layers of the CPU and NHWC convolutions round their weights themselves, when they pack them.
    if (!OnGpu() || IsNhwcConv(Op(index))) return;
    for (auto& [name, tensor] : Op(index).attributes) {
      if (IsFloatOrAbsent(&tensor)) tensor = tensor.To(context_.narrow);
    }
  }

  void Widen(int index) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      if (IsNarrow(input) && made_.count(input) != 0) {
        graph_.ReplaceInput(index, i, WideOf(input));
      }
    }
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

  /// Where an f32 image is converted to NHWC for convolutions only, makes that operator an
  /// nhwc.pack, which also rounds the image and pads the channels of each pixel with zeros to a
  /// number that the device reads fast. The weights get zeros for these channels.
  bool Pack(int image) {
    const int producer = At(image).producer;
    if (producer < 0 || Op(producer).type != "nhwc.enter" || !At(image).has_shape ||
        ParameterText(Op(producer), "image") != "True" || !context_.HasLayer("nhwc.pack")) {
      return false;
    }
    const int64_t channels = At(image).shape[At(image).shape.rank() - 1];
    for (int user : At(image).consumers) {
      const Tensor* weight = FindAttribute(Op(user), "weight");
      const bool plain = IsNhwcConv(Op(user)) && Op(user).inputs.size() == 1 && weight != nullptr &&
                         weight->dim(1) == channels && IsFloatOrAbsent(weight);
      if (!plain) return false;
    }
    // A GPU reads a pixel in words of 8 or 16 bytes.
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
    Operator cast;
    cast.type = "Tensor.to";
    cast.name = "cast_" + At(from).name + suffix;
    cast.params["dtype"] = Parameter(TorchName(dtype));
    const int to = graph_.AddOperatorOn(from, std::move(cast), At(from).name + suffix);
    At(to).dtype = dtype;
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
