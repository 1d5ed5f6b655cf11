// SPDX-License-Identifier: MIT
// A network that was quantized says so by oort.Quantize and oort.Dequantize around its operators.
// This pass makes operators on bytes of them: what only moves elements moves bytes, and what
// computes between a Dequantize and a Quantize becomes one operator that sums in integers. Nothing
// is left of the two but at the borders of a region.
#include <cmath>
#include <map>
#include <tuple>

#include "cpu/activation.h"
#include "graph/passes/byte_quantizer.h"
#include "graph/passes/byte_weight.h"
#include "graph/passes/passes.h"
#include "graph/passes/zero_padding.h"

namespace oort {
namespace {

/// Operators that give elements of their first input, each as it is, in other places. Where an
/// extent comes from other inputs these stay.
bool MovesElements(const Operator& op) {
  static constexpr std::string_view kMovers[] = {
      "nn.MaxPool2d",      "F.max_pool2d",      "torch.flatten",     "nn.Flatten",
      "Tensor.flatten",    "Tensor.view",       "Tensor.reshape",    "torch.reshape",
      "torch.permute",     "Tensor.permute",    "torch.transpose",   "torch.squeeze",
      "torch.unsqueeze",   "Tensor.slice",      "Tensor.select",     "torch.select",
      "nn.PixelShuffle",   "F.pixel_shuffle",   "nn.ChannelShuffle", "F.channel_shuffle",
      "nn.PixelUnshuffle", "F.pixel_unshuffle",
  };
  for (std::string_view type : kMovers) {
    if (op.type == type) return op.outputs.size() == 1 && !op.inputs.empty();
  }
  return false;
}

/// Gives elements of its first input as they are, by sizes or factors that are known at load.
bool RepeatsElements(const Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  if (op.type == "F.upsample_nearest" || op.type == "nn.UpsamplingNearest2d") return true;
  if (op.type != "F.interpolate" && op.type != "F.upsample" && op.type != "nn.Upsample") {
    return false;
  }
  const std::string mode = ParameterText(op, "mode");
  return mode.empty() || mode == "nearest" || mode == "nearest-exact";
}

/// Lets an operator that pads with zeros pad bytes, whose zero is the zero point.
void PadZeroPoints(Operator& op, int64_t zero_point) {
  constexpr std::string_view kZeros = "nn.ZeroPad";
  if (op.type.starts_with(kZeros)) op.type = "nn.ConstantPad" + op.type.substr(kZeros.size());
  op.params["value"] = Parameter(std::to_string(zero_point));
}

bool IsJoin(const Operator& op) {
  return op.type == "torch.cat" && op.outputs.size() == 1 && !op.inputs.empty();
}

bool IsAddition(const Operator& op) {
  if (op.inputs.size() != 2 || op.outputs.size() != 1) return false;
  if (op.type == "pnnx.Expression") {
    const std::string text = ParameterText(op, "expr");
    return text == "add(@0,@1)" || text == "add(@1,@0)";
  }
  const bool sum = op.type == "torch.add" || op.type == "Tensor.add";
  const std::string alpha = ParameterText(op, "alpha");
  return sum && (alpha.empty() || alpha == "1");
}

class IntegerRegionsPass {
 public:
  IntegerRegionsPass(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph) {}

  void Run() {
    MergeTwins();
    MoveDequantizeDown();
    MoveQuantizeUp();
    for (int index : graph_.TopologicalOrder()) {
      if (!rewriter_.dead(index) && QuantizeOf(Op(index))) AbsorbQuantize(index);
    }
    for (int index : graph_.TopologicalOrder()) {
      if (rewriter_.dead(index)) continue;
      MakeProductOfNumbers(index);
      MakePoolOfNumbers(index);
    }
    rewriter_.Finish();
  }

 private:
  /// A convolution or linear operator whose input and weight are bytes.
  struct Product {
    int index;  // of the operator
    bool convolution;
    int input;  // operand of bytes
    ByteQuantizer input_numbers;
    Tensor weight, scales, bias;
  };
  /// What stands between a product or a sum and its result.
  struct Tail {
    std::vector<int> absorbed;  // operators
    ActivationSpec activation;
    int source;  // operand in front of them
  };

  Operator& Op(int index) { return rewriter_.op(index); }
  Operand& At(int operand) { return rewriter_.operand(operand); }

  DType ByteDType(int operand) {
    const int producer = rewriter_.ProducerOf(operand);
    if (producer >= 0 && QuantizeOf(Op(producer))) return QuantizedDTypeOf(Op(producer));
    return IsByte(At(operand).dtype) ? At(operand).dtype : DType::kNull;
  }

  /// The Dequantize with one scale that makes an operand: its place, or -1.
  int DequantizeAt(int operand) {
    const int producer = rewriter_.ProducerOf(operand);
    return producer >= 0 && DequantizeOf(Op(producer)) ? producer : -1;
  }

  /// Conversions that do the same to the same operand become one.
  void MergeTwins() {
    std::map<std::tuple<std::string, int, double, int64_t, std::string>, int> seen;
    for (int index : graph_.TopologicalOrder()) {
      const Operator& op = Op(index);
      auto numbers = QuantizeOf(op);
      if (!numbers) numbers = DequantizeOf(op);
      if (!numbers) continue;
      if (op.type == "oort.Quantize") At(op.outputs[0]).dtype = QuantizedDTypeOf(op);
      const auto key = std::tuple(op.type, op.inputs[0], numbers->scale, numbers->zero_point,
                                  ParameterText(op, "dtype"));
      const auto [first, is_new] = seen.emplace(key, index);
      if (is_new) continue;
      graph_.ReplaceUses(op.outputs[0], Op(first->second).outputs[0]);
      rewriter_.Kill(index);
    }
  }

  /// Operands that an operator moves the elements of: all of a join, else the first.
  size_t MovedInputs(const Operator& op) {
    if (IsJoin(op)) return op.inputs.size();
    return MovesElements(op) || RepeatsElements(op) || PadsZeros(op) ? 1 : 0;
  }

  /// A mover of dequantized bytes becomes one of bytes with a Dequantize behind it.
  void MoveDequantizeDown() {
    for (int index : graph_.TopologicalOrder()) {
      if (rewriter_.dead(index)) continue;
      const size_t moved = MovedInputs(Op(index));
      if (moved == 0) continue;
      std::optional<ByteQuantizer> numbers;
      DType dtype = DType::kNull;
      bool alike = true;
      for (size_t i = 0; i < moved && alike; ++i) {
        const int from = DequantizeAt(Op(index).inputs[i]);
        const DType each = from < 0 ? DType::kNull : ByteDType(Op(from).inputs[0]);
        alike = each != DType::kNull &&
                (i == 0 || (numbers == DequantizeOf(Op(from)) && each == dtype));
        if (!alike) break;
        numbers = DequantizeOf(Op(from));
        dtype = each;
      }
      if (!alike) continue;
      for (size_t i = 0; i < moved; ++i) {
        const int from = DequantizeAt(Op(index).inputs[i]);
        rewriter_.ReplaceInput(index, i, Op(from).inputs[0]);
      }
      if (PadsZeros(Op(index))) PadZeroPoints(Op(index), numbers->zero_point);
      const int floats = Op(index).outputs[0];
      const int bytes = graph_.AddOperandLike(floats, At(floats).name + ".bytes");
      At(bytes).dtype = dtype;
      graph_.ReplaceOutput(index, 0, bytes);
      Operator dequantize;
      dequantize.type = "oort.Dequantize";
      dequantize.name = "dequantize_" + At(floats).name;
      dequantize.inputs = {bytes};
      dequantize.outputs = {floats};
      SetQuantizer(dequantize, "", *numbers);
      graph_.AddOperator(std::move(dequantize));
    }
    // What is quantized as it was before stays as it was.
    for (int index : graph_.TopologicalOrder()) {
      if (rewriter_.dead(index)) continue;
      const auto numbers = QuantizeOf(Op(index));
      const int from = numbers ? DequantizeAt(Op(index).inputs[0]) : -1;
      if (from < 0 || !Undoes(*numbers, QuantizedDTypeOf(Op(index)), from)) continue;
      graph_.ReplaceUses(Op(index).outputs[0], Op(from).inputs[0]);
      rewriter_.Kill(index);
    }
  }

  bool Undoes(const ByteQuantizer& numbers, DType dtype, int dequantize) {
    return numbers == DequantizeOf(Op(dequantize)) && dtype == ByteDType(Op(dequantize).inputs[0]);
  }

  /// The one Quantize that all who read an operand are; -1 where they differ. Twins are merged.
  int OnlyQuantize(int operand) {
    const std::vector<int>& readers = At(operand).consumers;
    return readers.size() == 1 && QuantizeOf(Op(readers[0])) ? readers[0] : -1;
  }

  /// A mover whose result is quantized moves bytes, if what it reads comes from an operator that
  /// can give them.
  void MoveQuantizeUp() {
    std::vector<int> order = graph_.TopologicalOrder();
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const int index = *at;
      if (rewriter_.dead(index)) continue;
      const size_t moved = MovedInputs(Op(index));
      if (moved == 0) continue;
      const int quantize = OnlyQuantize(Op(index).outputs[0]);
      if (quantize < 0) continue;
      bool computed = true;
      for (size_t i = 0; i < moved; ++i) {
        const int producer = rewriter_.ProducerOf(Op(index).inputs[i]);
        computed = computed && producer >= 0 && !Op(producer).IsPort();
      }
      if (!computed) continue;
      const ByteQuantizer numbers = *QuantizeOf(Op(quantize));
      const DType dtype = QuantizedDTypeOf(Op(quantize));
      for (size_t i = 0; i < moved; ++i) {
        const int bytes = QuantizedOperand(Op(index).inputs[i], numbers, dtype);
        rewriter_.ReplaceInput(index, i, bytes);
      }
      if (PadsZeros(Op(index))) PadZeroPoints(Op(index), numbers.zero_point);
      rewriter_.GiveOutput(quantize, index);
    }
  }

  /// The bytes of an operand, by a Quantize that is there or a new one.
  int QuantizedOperand(int operand, const ByteQuantizer& numbers, DType dtype) {
    const int from = DequantizeAt(operand);
    if (from >= 0 && Undoes(numbers, dtype, from)) return Op(from).inputs[0];
    for (int reader : At(operand).consumers) {
      if (QuantizeOf(Op(reader)) == numbers && QuantizedDTypeOf(Op(reader)) == dtype) {
        return Op(reader).outputs[0];
      }
    }
    Operator quantize;
    quantize.type = "oort.Quantize";
    quantize.name = "quantize_" + At(operand).name;
    quantize.params["dtype"] = Parameter(std::string(Name(dtype)));
    SetQuantizer(quantize, "", numbers);
    const int bytes =
        graph_.AddOperatorOn(operand, std::move(quantize), At(operand).name + ".bytes");
    At(bytes).dtype = dtype;
    return bytes;
  }

  /// The activation in front of an operand, if nobody else reads its input.
  Tail TailOf(int operand) {
    Tail tail{{}, {}, operand};
    const int producer = rewriter_.ProducerOf(operand);
    if (producer < 0 || Op(producer).IsPort() || Op(producer).inputs.size() != 1) return tail;
    const auto activation = ActivationOf(Op(producer));
    if (!activation || !rewriter_.HasOneUse(Op(producer).inputs[0])) return tail;
    return {{producer}, *activation, Op(producer).inputs[0]};
  }

  void AbsorbQuantize(int quantize) {
    const int operand = Op(quantize).inputs[0];
    if (rewriter_.HasOneUse(operand)) {
      const Tail tail = TailOf(operand);
      if (MakeProduct(quantize, tail) || MakePair(quantize, tail) || MakePool(quantize)) return;
    }
    MakeTable(quantize);
  }

  /// Whether the traces of both show one shape.
  bool SameShape(int a, int b) {
    return At(a).has_shape && At(b).has_shape && At(a).shape == At(b).shape;
  }

  std::optional<Product> ProductAt(int operand) {
    const int producer = rewriter_.ProducerOf(operand);
    if (producer < 0 || rewriter_.dead(producer)) return {};
    const Operator& op = Op(producer);
    const bool convolution = op.type == "F.conv2d";
    if ((!convolution && op.type != "F.linear") || op.outputs.size() != 1) return {};
    if (!context_.HasLayer(convolution ? "oort.IntegerConv2d" : "oort.IntegerLinear")) return {};
    const auto [x, weight, bias] = ProductInputsOf(op, context_);
    if (x < 0 || weight < 0) return {};
    // Its parameters are constants: no other input is left.
    if (op.inputs.size() != (bias < 0 ? 2u : 3u)) return {};
    const int from = DequantizeAt(x);
    if (from < 0 || ByteDType(Op(from).inputs[0]) == DType::kNull) return {};
    Product product{producer, convolution, Op(from).inputs[0], *DequantizeOf(Op(from)), {}, {}, {}};
    if (!ReadWeight(weight, product) || (bias >= 0 && !ReadBias(bias, product))) return {};
    return product;
  }

  bool ReadWeight(int operand, Product& product) {
    auto weight = ReadByteWeight(rewriter_, operand, product.convolution ? 4 : 2);
    if (!weight) return false;
    product.weight = std::move(weight->integers);
    product.scales = std::move(weight->scales);
    return true;
  }

  bool ReadBias(int operand, Product& product) {
    const Tensor* bias = rewriter_.ConstantOf(operand);
    if (bias == nullptr || !IsFloatOrAbsent(bias)) return false;
    if (bias->shape() != Shape{product.weight.dim(0)}) return false;
    product.bias = *bias;
    return true;
  }

  /// The product in front of an operand, alone or as one side of a sum whose other side is bytes.
  struct Source {
    Product product;
    int addend = -1;  // operand of bytes
    ByteQuantizer addend_numbers;
    int sum = -1;  // the operator
  };
  std::optional<Source> SourceOf(int operand) {
    if (auto product = ProductAt(operand)) return Source{std::move(*product), -1, {}, -1};
    const int sum = rewriter_.ProducerOf(operand);
    if (sum < 0 || !IsAddition(Op(sum))) return {};
    for (size_t side = 0; side < 2; ++side) {
      const int made = Op(sum).inputs[side], other = Op(sum).inputs[1 - side];
      const int from = DequantizeAt(other);
      if (from < 0 || ByteDType(Op(from).inputs[0]) == DType::kNull) continue;
      if (!rewriter_.HasOneUse(made) || !SameShape(made, other)) continue;
      auto product = ProductAt(made);
      if (!product) continue;
      return Source{std::move(*product), Op(from).inputs[0], *DequantizeOf(Op(from)), sum};
    }
    return {};
  }

  bool MakeProduct(int quantize, const Tail& tail) {
    const auto source = SourceOf(tail.source);
    if (!source) return false;
    const ByteQuantizer numbers = *QuantizeOf(Op(quantize));
    const DType dtype = QuantizedDTypeOf(Op(quantize));
    Rewrite(*source, tail, quantize, dtype, numbers);
    return true;
  }

  /// A product whose result nobody quantizes gives f32.
  void MakeProductOfNumbers(int index) {
    const Operator& op = Op(index);
    if ((op.type != "F.conv2d" && op.type != "F.linear") || op.outputs.size() != 1) return;
    auto product = ProductAt(op.outputs[0]);
    if (!product) return;
    Tail tail{{}, {}, op.outputs[0]};
    int last = -1;
    const std::vector<int>& readers = At(op.outputs[0]).consumers;
    if (readers.size() == 1 && Op(readers[0]).inputs.size() == 1) {
      if (const auto activation = ActivationOf(Op(readers[0]))) {
        tail.activation = *activation;
        last = readers[0];
      }
    }
    Rewrite({std::move(*product), -1, {}, -1}, tail, last, DType::kF32, {});
  }

  /// Makes the operator of the product the integer one, which gives what `last` gave.
  void Rewrite(const Source& source, const Tail& tail, int last, DType dtype,
               const ByteQuantizer& numbers) {
    const Product& product = source.product;
    const int index = product.index;
    std::vector<int> inputs{product.input};
    if (source.addend >= 0) inputs.push_back(source.addend);
    rewriter_.SetInputs(index, std::move(inputs));
    if (source.sum >= 0) rewriter_.Kill(source.sum);
    for (int absorbed : tail.absorbed) rewriter_.Kill(absorbed);
    if (last >= 0) rewriter_.GiveOutput(last, index);
    Operator& op = Op(index);
    op.type = product.convolution ? "oort.IntegerConv2d" : "oort.IntegerLinear";
    op.attributes.clear();
    op.attributes.emplace("weight", product.weight);
    op.attributes.emplace("scales", product.scales);
    if (product.bias.defined()) op.attributes.emplace("bias", product.bias);
    const OperatorSchema* schema = context_.Schema(op.type);
    std::erase_if(op.params, [&](const auto& param) {
      return schema != nullptr && schema->Find(param.first) < 0;
    });
    SetQuantizer(op, "input_", product.input_numbers);
    if (source.addend >= 0) SetQuantizer(op, "addend_", source.addend_numbers);
    op.params["dtype"] = Parameter(std::string(Name(dtype)));
    if (dtype != DType::kF32) SetQuantizer(op, "", numbers);
    if (tail.activation.kind != Activation::kNone) SetActivation(op, tail.activation);
    At(op.outputs[0]).dtype = dtype;
  }

  /// A sum or a product of two tensors of bytes. A GPU has no kernel for products.
  bool MakePair(int quantize, const Tail& tail) {
    const int pair = rewriter_.ProducerOf(tail.source);
    if (pair < 0) return false;
    const bool sum = IsAddition(Op(pair));
    if (!sum && (!IsMultiplication(Op(pair)) || context_.on_gpu)) return false;
    const char* type = sum ? "oort.IntegerAdd" : "oort.IntegerMul";
    const Activation kind = tail.activation.kind;
    if (kind != Activation::kNone && kind != Activation::kRelu && kind != Activation::kClamp) {
      return false;
    }
    if (!context_.HasLayer(type)) return false;
    std::vector<int> floats = Op(pair).inputs;
    if (!sum && Repeats(floats[1], floats[0])) std::swap(floats[0], floats[1]);
    if (!SameShape(floats[0], floats[1]) && (sum || !Repeats(floats[0], floats[1]))) return false;
    std::vector<int> inputs;
    for (const int operand : floats) {
      const int from = DequantizeAt(operand);
      if (from < 0 || ByteDType(Op(from).inputs[0]) == DType::kNull) return false;
      inputs.push_back(Op(from).inputs[0]);
    }
    Operator& op = Op(pair);
    op.type = type;
    op.params.clear();
    SetQuantizer(op, "a_", *DequantizeOf(Op(DequantizeAt(floats[0]))));
    SetQuantizer(op, "b_", *DequantizeOf(Op(DequantizeAt(floats[1]))));
    if (kind != Activation::kNone) SetActivation(op, tail.activation);
    rewriter_.SetInputs(pair, std::move(inputs));
    for (int absorbed : tail.absorbed) rewriter_.Kill(absorbed);
    TakeResult(pair, quantize);
    return true;
  }

  /// Whether `part` has a number for each channel of the image `whole`.
  bool Repeats(int whole, int part) {
    const Operand &image = At(whole), &factors = At(part);
    if (!image.has_shape || !factors.has_shape) return false;
    return ScalesChannels(image.shape, factors.shape);
  }

  /// Operator `index` gives the bytes that `quantize` gave.
  void TakeResult(int index, int quantize) {
    const ByteQuantizer numbers = *QuantizeOf(Op(quantize));
    const DType dtype = QuantizedDTypeOf(Op(quantize));
    rewriter_.GiveOutput(quantize, index);
    SetQuantizer(Op(index), "", numbers);
    Op(index).params["dtype"] = Parameter(std::string(Name(dtype)));
    At(Op(index).outputs[0]).dtype = dtype;
  }

  bool MakePool(int quantize) {
    const int pool = rewriter_.ProducerOf(Op(quantize).inputs[0]);
    if (pool < 0 || !SumBytes(pool)) return false;
    TakeResult(pool, quantize);
    return true;
  }

  /// A mean that nobody quantizes gives f32. A GPU has no kernel for that.
  void MakePoolOfNumbers(int pool) {
    if (!context_.on_gpu && SumBytes(pool)) Op(pool).params["dtype"] = Parameter("f32");
  }

  /// Makes an average pooling of what bytes mean the one of bytes; the caller says what it gives.
  bool SumBytes(int pool) {
    if (Op(pool).inputs.size() != 1 || Op(pool).outputs.size() != 1) return false;
    if (!context_.HasLayer("oort.IntegerAvgPool2d")) return false;
    Operator& op = Op(pool);
    const bool windows = op.type == "nn.AvgPool2d" || op.type == "F.avg_pool2d";
    const bool adaptive = op.type == "nn.AdaptiveAvgPool2d" || op.type == "F.adaptive_avg_pool2d";
    const bool mean = op.type == "torch.mean" && IsMeanOfPixels(op);
    if (!windows && !adaptive && !mean) return false;
    const int from = DequantizeAt(op.inputs[0]);
    if (from < 0 || ByteDType(Op(from).inputs[0]) == DType::kNull) return false;
    op.type = "oort.IntegerAvgPool2d";
    if (mean) op.params = {{"output_size", Parameter("(1,1)")}};
    SetQuantizer(op, "input_", *DequantizeOf(Op(from)));
    rewriter_.SetInputs(pool, {Op(from).inputs[0]});
    return true;
  }

  /// torch.mean over the pixels of images, which keeps their axes.
  bool IsMeanOfPixels(const Operator& op) {
    const Value dims = ParameterValue(op, "dim"), keeps = ParameterValue(op, "keepdim");
    const Operand& input = At(op.inputs[0]);
    if (!keeps.IsBool() || !keeps.AsBool() || !dims.IsList() || dims.AsList().size() != 2) {
      return false;
    }
    if (!input.has_shape || input.shape.rank() != 4 || !ParameterValue(op, "dtype").IsNone()) {
      return false;
    }
    bool rows = false, columns = false;
    for (const Value& dim : dims.AsList()) {
      if (!dim.IsInt()) return false;
      rows = rows || dim.AsInt() == 2 || dim.AsInt() == -2;
      columns = columns || dim.AsInt() == 3 || dim.AsInt() == -1;
    }
    return rows && columns;
  }

  /// Functions of single elements between a Dequantize and a Quantize become a table of 256 bytes.
  void MakeTable(int quantize) {
    if (!context_.HasLayer("oort.ByteTable") || !context_.evaluate) return;
    std::vector<int> functions;  // the last first
    int operand = Op(quantize).inputs[0];
    constexpr size_t kMostFunctions = 8;
    while (DequantizeAt(operand) < 0) {
      const int producer = rewriter_.ProducerOf(operand);
      if (producer < 0 || Op(producer).IsPort() || functions.size() == kMostFunctions) return;
      const Operator& op = Op(producer);
      if (op.inputs.size() != 1 || op.outputs.size() != 1 || !rewriter_.HasOneUse(operand) ||
          !context_.Has(Trait::kElementwise, op) || context_.Has(Trait::kRandom, op)) {
        return;
      }
      functions.push_back(producer);
      operand = op.inputs[0];
    }
    const int from = DequantizeAt(operand);
    const DType dtype = ByteDType(Op(from).inputs[0]);
    if (dtype == DType::kNull) return;
    Tensor bits(dtype, {256});
    for (int i = 0; i < 256; ++i) bits.raw()[i] = static_cast<std::byte>(i);
    std::vector<int> chain{from};
    chain.insert(chain.end(), functions.rbegin(), functions.rend());
    chain.push_back(quantize);
    Value value(bits);
    for (int index : chain) {
      const auto results = context_.evaluate(Op(index), std::span<const Value>(&value, 1));
      if (!results || results->size() != 1 || !(*results)[0].IsTensor()) return;
      value = (*results)[0];
    }
    const Tensor& table = value.AsTensor();
    if (table.dtype() != QuantizedDTypeOf(Op(quantize)) || table.shape() != Shape{256}) return;
    const int bytes = Op(from).inputs[0];
    for (int index : functions) rewriter_.Kill(index);
    Operator& op = Op(quantize);
    op.type = "oort.ByteTable";
    op.params.clear();
    op.attributes.clear();
    op.attributes.emplace("table", table);
    rewriter_.SetInputs(quantize, {bytes});
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
};

}  // namespace

void IntegerRegions(Graph& graph, const PassContext& context) {
  bool any = false;
  for (const Operator& op : graph.operators) any = any || DequantizeOf(op);
  if (any) IntegerRegionsPass(graph, context).Run();
}

}  // namespace oort
