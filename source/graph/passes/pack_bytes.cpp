// SPDX-License-Identifier: MIT
// A picture of three channels that is quantized and then moved to NHWC for integer convolutions
// becomes bytes of four channels at once: on a GPU each operator is a launch, and tensor cores read
// whole words of a pixel. It is padded at once, too: zero points around it would else be counted
// window by window.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/byte_quantizer.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

class PackBytesPass {
 public:
  PackBytesPass(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph) {}

  void Run() {
    if (!context_.on_gpu || !context_.HasLayer("nhwc.Quantize")) return;
    for (int index : graph_.TopologicalOrder()) {
      if (!rewriter_.dead(index) && rewriter_.op(index).type == "nhwc.enter") Pack(index);
    }
    rewriter_.Finish();
  }

 private:
  void Pack(int enter) {
    const Operator& op = rewriter_.op(enter);
    const int quantize = rewriter_.ProducerOf(op.inputs[0]);
    const int image = op.outputs[0];
    if (ParameterText(op, "image") != "True" || quantize < 0 ||
        rewriter_.op(quantize).type != "oort.Quantize" || !rewriter_.HasOneUse(op.inputs[0]) ||
        !rewriter_.operand(image).has_shape) {
      return;
    }
    Shape& shape = rewriter_.operand(image).shape;
    const int64_t channels = shape[shape.rank() - 1];
    const std::vector<int> readers = rewriter_.operand(image).consumers;
    if (channels >= kPacked || !std::all_of(readers.begin(), readers.end(), [&](int reader) {
          return TakesPadding(rewriter_.op(reader), channels);
        })) {
      return;
    }
    const auto padding = PaddingOf(readers);
    for (int reader : readers) PadWeight(rewriter_.op(reader));
    shape[shape.rank() - 1] = kPacked;
    const std::map<std::string, Parameter> params = rewriter_.op(quantize).params;
    rewriter_.SetInputs(enter, {rewriter_.op(quantize).inputs[0]});
    rewriter_.Kill(quantize);
    Operator& packed = rewriter_.op(enter);
    packed.type = "nhwc.Quantize";
    packed.params = params;
    packed.params["input_channels"] = Parameter(std::to_string(channels));
    packed.params["channels"] = Parameter(std::to_string(kPacked));
    if (!padding) return;
    packed.params["padding"] = Parameter::FromValue(Value::Ints(*padding));
    for (size_t axis = 0; axis < 2; ++axis) {
      shape[shape.rank() - 3 + static_cast<int>(axis)] += 2 * (*padding)[axis];
    }
    for (int reader : readers) rewriter_.op(reader).params["padding"] = Parameter("0");
  }

  static bool TakesPadding(const Operator& op, int64_t channels) {
    const Tensor* weight = FindAttribute(op, "weight");
    return op.type == "nhwc.IntegerConv2d" && op.inputs.size() == 1 && weight != nullptr &&
           weight->dtype() == DType::kI8 && weight->has_data() && weight->rank() == 4 &&
           weight->dim(1) == channels;
  }

  /// What all who read the picture pad it with, where that is stated, the same and no more than
  /// their windows reach.
  std::optional<std::vector<int64_t>> PaddingOf(const std::vector<int>& readers) {
    std::optional<std::vector<int64_t>> common;
    for (int reader : readers) {
      const Operator& op = rewriter_.op(reader);
      const Value value = ParameterValue(op, "padding");
      std::vector<int64_t> padding;
      if (value.IsInt()) padding = {value.AsInt(), value.AsInt()};
      if (value.IsList()) padding = value.AsInts();
      if (padding.size() != 2 || (common && *common != padding)) return {};
      const Tensor& weight = *FindAttribute(op, "weight");
      for (size_t axis = 0; axis < 2; ++axis) {
        if (padding[axis] < 0 || padding[axis] > weight.dim(2 + static_cast<int>(axis))) return {};
      }
      common = padding;
    }
    return common;
  }

  /// (filters, channels, height, width), with zeros for more channels.
  static void PadWeight(Operator& op) {
    Tensor& weight = op.attributes["weight"];
    Shape shape = weight.shape();
    const int64_t given = shape.Product(1, 4);
    shape[1] = kPacked;
    Tensor padded = Tensor::Zeros(DType::kI8, shape);
    for (int64_t f = 0; f < shape[0]; ++f) {
      std::copy_n(weight.data<int8_t>() + f * given, given,
                  padded.data<int8_t>() + f * shape.Product(1, 4));
    }
    weight = padded;
  }

  static constexpr int64_t kPacked = 4;

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
};

}  // namespace

void PackBytes(Graph& graph, const PassContext& context) { PackBytesPass(graph, context).Run(); }

}  // namespace oort
