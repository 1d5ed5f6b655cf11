// SPDX-License-Identifier: MIT
// Networks that torch quantized carry scales along with their tensors, and pnnx writes them as
// modules (nn.quantized.Conv2d), functions (quantized::add) and fake quantization. This pass says
// the same by oort.Quantize, oort.Dequantize and float operators between them, of which the pass
// integer-regions makes operators on bytes.
#include <map>

#include "graph/passes/byte_quantizer.h"
#include "graph/passes/grid_weight.h"
#include "graph/passes/passes.h"
#include "graph/passes/torch_quantized_types.h"

namespace oort {
namespace {

/// What torch keeps of a quantized tensor beside its integers.
struct TorchQuantizer {
  ByteQuantizer numbers;
  DType dtype = DType::kU8;
};

bool FitsBytes(const TorchQuantizer& by) {
  const int64_t least = by.dtype == DType::kI8 ? -128 : 0;
  return by.numbers.zero_point >= least && by.numbers.zero_point <= least + 255;
}

/// quint8 and qint8 as torch and pnnx write them; kNull for all else.
DType ByteNamed(const Value& value) {
  const std::string name = value.IsString() ? value.AsString() : value.ToString();
  if (name == "torch.quint8" || name == "quint8" || name == "13") return DType::kU8;
  if (name == "torch.qint8" || name == "qint8" || name == "12") return DType::kI8;
  return DType::kNull;
}

class TorchQuantizedPass {
 public:
  TorchQuantizedPass(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), rewriter_(graph) {}

  void Run() {
    for (int index : graph_.TopologicalOrder()) Visit(index);
    rewriter_.Finish();
  }

 private:
  Operator& Op(int index) { return rewriter_.op(index); }
  Operand& At(int operand) { return rewriter_.operand(operand); }

  /// The operands that a list was made of, or the operand itself.
  std::vector<int> Items(int operand) {
    const Operator* list = rewriter_.ProducerOf(operand, "prim::ListConstruct");
    return list != nullptr ? list->inputs : std::vector<int>{operand};
  }
  std::vector<int> AllItems(const Operator& op) {
    std::vector<int> items;
    for (int input : op.inputs) {
      for (int item : Items(input)) items.push_back(item);
    }
    return items;
  }
  const TorchQuantizer* Of(int operand) const {
    const auto found = quantized_.find(operand);
    return found == quantized_.end() ? nullptr : &found->second;
  }

  /// A number that the file holds as an operand: an expression without inputs, or a tensor of one
  /// element. None where it is neither.
  Value ConstantAt(int operand) {
    if (const Tensor* tensor = rewriter_.ConstantOf(operand)) {
      if (tensor->elements() != 1) return {};
      if (IsFloat(tensor->dtype())) return tensor->Item();
      return static_cast<int64_t>(tensor->Item());
    }
    const Operator* literal = rewriter_.ProducerOf(operand, "pnnx.Expression");
    if (literal == nullptr || !literal->inputs.empty()) return {};
    return ParameterValue(*literal, "expr");
  }

  /// An argument by its name in the schema, wherever the file has it; None where it is computed.
  Value Argument(const Operator& op, const char* name) {
    const OperatorSchema* schema = context_.Schema(op.type);
    const int at = schema == nullptr ? -1 : schema->Find(name);
    if (at < 0) return ParameterValue(op, name);
    std::vector<Problem> problems;
    const BoundArg bound = BindArguments(*schema, op, problems).args[static_cast<size_t>(at)];
    if (!problems.empty()) return {};
    if (bound.input < 0) return bound.value;
    return ConstantAt(op.inputs[static_cast<size_t>(bound.input)]);
  }

  /// Scale and zero point among the arguments of an operator, for bytes of this dtype.
  std::optional<TorchQuantizer> ArgumentsOf(const Operator& op, DType dtype) {
    const Value scale = Argument(op, "scale"), zero_point = Argument(op, "zero_point");
    if ((!scale.IsFloat() && !scale.IsInt()) || !zero_point.IsInt() || !IsByte(dtype)) return {};
    return Checked({{scale.AsFloat(), zero_point.AsInt()}, dtype});
  }
  static std::optional<TorchQuantizer> Checked(const TorchQuantizer& by) {
    const float narrow = static_cast<float>(by.numbers.scale);
    const bool usable = narrow > 0 && std::isfinite(narrow) && std::isfinite(1.0f / narrow);
    if (!usable || !FitsBytes(by)) return {};
    return by;
  }

  void Visit(int index) {
    const Operator& op = Op(index);
    if (op.type == "prim::ListConstruct" || op.inputs.empty()) return;
    if (IsTorchQuantize(op)) return Quantize(index);
    if (IsFakeQuantize(op)) return FakeQuantize(index);
    if (IsAnyOf(op, {"nn.Conv2d", "nn.Linear"}) && ReadsBytes(op)) return FoldedModule(index);
    bool reads = false, all = true;
    for (int item : AllItems(op)) {
      reads = reads || Of(item) != nullptr;
      all = all && Of(item) != nullptr;
    }
    if (!reads) return;
    if (!op.IsPort() && op.outputs.size() == 1 && Rewrite(index, all)) return;
    LeaveToTorch(index);
  }

  /// Makes floats between bytes of an operator; false where it is none that is known here.
  bool Rewrite(int index, bool all) {
    const Operator& op = Op(index);
    if (const auto module = TorchModuleOf(op.type)) return Module(index, *module);
    if (const auto function = TorchFunctionOf(op.type)) return Function(index, *function);
    if (IsJoinOfQuantized(op)) return all && Join(index);
    const int first = op.inputs[0];
    if (Of(first) == nullptr || CountQuantized(op) != 1) return false;
    if (IsTorchDequantize(op)) return Become(index, Floats(first));
    if (op.type == "aten::int_repr") return GiveIntegers(index, first);
    const TorchQuantizer by = *Of(first);
    if (const auto fixed = FixedScaleOf(op.type)) {
      const int64_t least = by.dtype == DType::kI8 ? -128 : 0;
      Apply(index, {{fixed->scale, least + fixed->zero_point}, by.dtype});
      return true;
    }
    if (!KeepsTorchScale(op)) return false;
    // Limits commute with rounding, so what was rounded only for them need not be.
    const auto made = made_of_.find(first);
    if (IsLimit(op) && made != made_of_.end() && rewriter_.HasOneUse(first)) {
      rewriter_.ReplaceInput(index, 0, made->second);
      Requantize(index, by);
    } else {
      Apply(index, by);
    }
    return true;
  }

  size_t CountQuantized(const Operator& op) {
    size_t count = 0;
    for (int item : AllItems(op)) count += Of(item) != nullptr ? 1 : 0;
    return count;
  }

  /// Who reads the result of `index` reads `operand`.
  bool Become(int index, int operand) {
    graph_.ReplaceUses(Op(index).outputs[0], operand);
    rewriter_.Kill(index);
    return true;
  }

  /// An operand of its own, since that of the bytes stands for numbers.
  bool GiveIntegers(int index, int bytes) {
    rewriter_.SetInputs(index, {bytes});
    Op(index).type = "torch.clone";
    Op(index).params.clear();
    At(Op(index).outputs[0]).dtype = Of(bytes)->dtype;
    return true;
  }

  /// The numbers that bytes mean.
  int Floats(int bytes) {
    const auto [found, is_new] = floats_.emplace(bytes, -1);
    if (!is_new) return found->second;
    Operator op = Named("oort.Dequantize", At(bytes).name);
    SetQuantizer(op, "", Of(bytes)->numbers);
    const int floats = graph_.AddOperatorOn(bytes, std::move(op), At(bytes).name + ".numbers");
    At(floats).dtype = DType::kF32;
    return found->second = floats;
  }

  /// An operator that this pass adds; names of the file have no such end.
  Operator Named(const char* type, const std::string& name) {
    Operator op;
    op.type = type;
    op.name = name + "/" + std::to_string(added_++);
    return op;
  }

  /// The operator reads numbers where it read bytes, and its result becomes bytes.
  void Apply(int index, const TorchQuantizer& by) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      if (Of(input) != nullptr) rewriter_.ReplaceInput(index, i, Floats(input));
    }
    Requantize(index, by);
  }

  /// What `index` gives, now numbers, is quantized for all who read it.
  void Requantize(int index, const TorchQuantizer& by) {
    const int bytes = Op(index).outputs[0];
    const int numbers = graph_.AddOperandLike(bytes, At(bytes).name + ".f32");
    At(numbers).dtype = DType::kF32;
    graph_.ReplaceOutput(index, 0, numbers);
    Operator op = Named("oort.Quantize", At(bytes).name);
    op.params["dtype"] = Parameter(std::string(Name(by.dtype)));
    SetQuantizer(op, "", by.numbers);
    op.inputs = {numbers};
    op.outputs = {bytes};
    graph_.AddOperator(std::move(op));
    Enter(bytes, by);
    made_of_[bytes] = numbers;
  }
  void Enter(int bytes, const TorchQuantizer& by) {
    At(bytes).dtype = by.dtype;
    quantized_[bytes] = by;
  }

  void Quantize(int index) {
    const Operator& op = Op(index);
    if (op.outputs.size() != 1 || op.inputs.empty()) return;
    const DType from = At(op.inputs[0]).dtype;
    if (from != DType::kF32 && from != DType::kNull) return;
    DType dtype = ByteNamed(Argument(op, "dtype"));
    // pnnx calls the dtype of every such module qint8; the trace has the true one.
    const DType traced = At(op.outputs[0]).dtype;
    if (op.type == "nn.quantized.Quantize" && dtype != DType::kNull && IsByte(traced)) {
      dtype = traced;
    }
    const auto by = ArgumentsOf(op, dtype);
    if (!by) return;
    BecomeQuantize(index, *by);
    Enter(Op(index).outputs[0], *by);
  }

  void BecomeQuantize(int index, const TorchQuantizer& by) {
    const int input = Op(index).inputs[0];
    rewriter_.SetInputs(index, {input});
    Operator& op = Op(index);
    op.type = "oort.Quantize";
    op.params.clear();
    op.params["dtype"] = Parameter(std::string(Name(by.dtype)));
    SetQuantizer(op, "", by.numbers);
  }

  /// Fake quantization is quantizing and back, if its range lies in that of bytes.
  void FakeQuantize(int index) {
    const Operator& op = Op(index);
    const Value least = Argument(op, "quant_min"), most = Argument(op, "quant_max");
    if (!least.IsInt() || !most.IsInt() || op.outputs.size() != 1 || op.inputs.empty()) return;
    const int64_t low = least.AsInt(), high = most.AsInt();
    const DType dtype = low >= 0 && high <= 255      ? DType::kU8
                        : low >= -128 && high <= 127 ? DType::kI8
                                                     : DType::kNull;
    if (dtype == DType::kNull || low > high) return;
    if (op.type == "aten::fake_quantize_per_channel_affine") return FakeWeights(index, low, high);
    const DType from = At(op.inputs[0]).dtype;
    if (from != DType::kF32 && from != DType::kNull) return;
    const auto by = ArgumentsOf(op, dtype);
    if (!by) return;
    const int64_t first = dtype == DType::kI8 ? -128 : 0;
    if (low > first || high < first + 255) Limit(index, *by, low, high);
    BecomeQuantize(index, *by);
    const int numbers = Op(index).outputs[0];
    const int bytes = graph_.AddOperandLike(numbers, At(numbers).name + ".bytes");
    At(bytes).dtype = dtype;
    graph_.ReplaceOutput(index, 0, bytes);
    Operator back = Named("oort.Dequantize", At(numbers).name);
    SetQuantizer(back, "", by->numbers);
    back.inputs = {bytes};
    back.outputs = {numbers};
    graph_.AddOperator(std::move(back));
  }

  /// What `index` reads is limited to what integers from `low` to `high` mean.
  void Limit(int index, const TorchQuantizer& by, int64_t low, int64_t high) {
    const auto meaning = [&](int64_t q) {
      const auto steps = static_cast<double>(q - by.numbers.zero_point);
      return Parameter::FromValue(Value(by.numbers.scale * steps));
    };
    Operator limit = Named("F.hardtanh", Op(index).name);
    limit.params["min_val"] = meaning(low);
    limit.params["max_val"] = meaning(high);
    const int input = Op(index).inputs[0];
    const int limited = graph_.AddOperatorOn(input, std::move(limit), At(input).name + ".limited");
    rewriter_.ReplaceInput(index, 0, limited);
  }

  /// Constant weights become integers with a scale for each slice of the first axis.
  void FakeWeights(int index, int64_t low, int64_t high) {
    const Operator& op = Op(index);
    const Value axis = Argument(op, "axis");
    if (!axis.IsInt() || axis.AsInt() != 0 || low < -128 || high > 127) return;
    const Tensor* weight = rewriter_.ConstantOf(op.inputs[0]);
    const Tensor* scales = op.inputs.size() > 1 ? rewriter_.ConstantOf(op.inputs[1]) : nullptr;
    const Tensor* zeros = op.inputs.size() > 2 ? rewriter_.ConstantOf(op.inputs[2]) : nullptr;
    if (weight == nullptr || weight->dtype() != DType::kF32 || weight->rank() < 1) return;
    const auto by = ReadChannels(scales, zeros, weight->dim(0));
    if (!by || weight->elements() == 0) return;
    Tensor integers(DType::kI8, weight->shape());
    const int64_t each = weight->elements() / weight->dim(0);
    for (int64_t i = 0; i < weight->elements(); ++i) {
      const float scale = by->scales.data<float>()[i / each];
      const int32_t zero = by->zeros.data<int32_t>()[i / each];
      const float steps = std::nearbyint(weight->data<float>()[i] * (1.0f / scale));
      const double q = std::isnan(steps) ? zero : static_cast<double>(steps) + zero;
      integers.data<int8_t>()[i] = static_cast<int8_t>(
          std::min(std::max(q, static_cast<double>(low)), static_cast<double>(high)));
    }
    Become(index, Weight(Op(index).name, integers, *by));
  }

  bool ReadsBytes(const Operator& op) {
    const Operator* from = rewriter_.ProducerOf(op.inputs[0], "oort.Dequantize");
    return from != nullptr && DequantizeOf(*from) && IsByte(At(from->inputs[0]).dtype);
  }

  /// pnnx folds fake quantization of weights, which leaves multiples of a scale in f32.
  void FoldedModule(int index) {
    const Operator& op = Op(index);
    const bool convolution = op.type == "nn.Conv2d";
    const Tensor* stored = FindAttribute(op, "weight");
    const Tensor* added = FindAttribute(op, "bias");
    const std::string mode = ParameterText(op, "padding_mode");
    if (op.inputs.size() != 1 || op.outputs.size() != 1 || stored == nullptr ||
        stored->rank() != (convolution ? 4 : 2) || !IsFloatOrAbsent(added) ||
        !(mode.empty() || mode == "zeros")) {
      return;
    }
    const auto grid = ReadGridWeight(*stored);
    if (!grid) return;
    const Tensor bias = added != nullptr ? *added : Tensor();
    const std::string name = op.name;
    const int input = op.inputs[0];
    const int filters = Weight(name, grid->integers, {grid->scales, {}, true});
    const int constant = bias.defined() ? Constant(name + ".bias", bias) : -1;
    BecomeFloat(index, convolution, input, filters, constant);
  }

  /// A scale and a zero point for each channel.
  struct Channels {
    Tensor scales, zeros;  // f32 and i32
    bool centred = true;   // all zero points are 0
  };
  static std::optional<Channels> ReadChannels(const Tensor* scales, const Tensor* zeros,
                                              int64_t count) {
    if (scales == nullptr || zeros == nullptr || !scales->has_data() || !zeros->has_data()) {
      return {};
    }
    if (scales->elements() != count || zeros->elements() != count) return {};
    Channels by{scales->To(DType::kF32).Reshaped({count}), Tensor(DType::kI32, {count})};
    const Tensor exact = zeros->To(DType::kF64);
    for (int64_t i = 0; i < count; ++i) {
      const double zero = exact.data<double>()[i];
      if (!(zero >= -128 && zero <= 127)) return {};
      const float scale = by.scales.data<float>()[i];
      if (!(scale > 0) || !std::isfinite(scale) || !std::isfinite(1.0f / scale)) return {};
      by.zeros.data<int32_t>()[i] = static_cast<int32_t>(zero);
      by.centred = by.centred && zero == 0;
    }
    return by;
  }

  int Constant(const std::string& name, Tensor tensor) {
    Operator op = Named("pnnx.Attribute", name);
    const int operand = graph_.AddOperand(op.name);
    At(operand).dtype = tensor.dtype();
    At(operand).has_shape = true;
    At(operand).shape = tensor.shape();
    op.attributes.emplace("data", std::move(tensor));
    op.outputs = {operand};
    graph_.AddOperator(std::move(op));
    return operand;
  }

  int Weight(const std::string name, const Tensor& integers, const Channels& by) {
    const int bytes = Constant(name + ".weight", integers);
    Operator op = Named("oort.Dequantize", name + ".weight");
    op.params["axis"] = Parameter("0");
    op.attributes.emplace("scales", by.scales);
    if (!by.centred) op.attributes.emplace("zero_points", by.zeros);
    const int weight = graph_.AddOperatorOn(bytes, std::move(op), At(bytes).name + ".f32");
    At(weight).dtype = DType::kF32;
    return weight;
  }

  bool Module(int index, const TorchModule& module) {
    const Operator& op = Op(index);
    if (op.inputs.size() != 1 || Of(op.inputs[0]) == nullptr) return false;
    const TorchQuantizer input = *Of(op.inputs[0]);
    const DType traced = At(op.outputs[0]).dtype;
    const auto by = ArgumentsOf(op, IsByte(traced) ? traced : DType::kU8);
    const Tensor* stored = FindAttribute(op, "weight");
    if (!by || stored == nullptr || stored->dtype() != DType::kI8 || !stored->has_data() ||
        stored->rank() != (module.convolution ? 4 : 2) || stored->elements() == 0) {
      return false;
    }
    const Tensor weight = *stored;
    const auto channels =
        ReadChannels(FindAttribute(op, "weight.q_per_channel_scales"),
                     FindAttribute(op, "weight.q_per_channel_zero_points"), weight.dim(0));
    const Tensor* added = FindAttribute(op, "bias");
    if (!channels || (added != nullptr && (added->dtype() != DType::kF32 || !added->has_data() ||
                                           added->elements() != weight.dim(0)))) {
      return false;
    }
    const Tensor bias = added != nullptr ? RoundedBias(*added, input, *channels) : Tensor();
    const std::string name = op.name;
    const int numbers = Floats(op.inputs[0]);
    const int filters = Weight(name, weight, *channels);
    const int constant = bias.defined() ? Constant(name + ".bias", bias) : -1;
    BecomeFloat(index, module.convolution, numbers, filters, constant);
    Requantize(module.relu ? Append(index, "F.relu") : index, *by);
    return true;
  }

  /// torch adds biases as integers, so it rounds them to what the products are multiples of.
  static Tensor RoundedBias(const Tensor& bias, const TorchQuantizer& input, const Channels& by) {
    Tensor rounded(DType::kF32, {bias.elements()});
    for (int64_t i = 0; i < bias.elements(); ++i) {
      const float step = static_cast<float>(input.numbers.scale) * by.scales.data<float>()[i];
      const float steps = std::nearbyint(bias.data<float>()[i] / step);
      rounded.data<float>()[i] = std::isfinite(steps) ? steps * step : bias.data<float>()[i];
    }
    return rounded;
  }

  void BecomeFloat(int index, bool convolution, int input, int weight, int bias) {
    rewriter_.SetInputs(index, {});
    Operator& op = Op(index);
    op.type = convolution ? "F.conv2d" : "F.linear";
    op.attributes.clear();
    std::erase_if(op.params, [&](const auto& param) {
      const std::string& key = param.first;
      return !convolution ||
             (key != "stride" && key != "padding" && key != "dilation" && key != "groups");
    });
    op.input_names.clear();
    graph_.AddInput(index, input, "input");
    graph_.AddInput(index, weight, "weight");
    if (bias >= 0) graph_.AddInput(index, bias, "bias");
  }

  /// An operator of one operand behind `index`, which makes what that made; its place.
  int Append(int index, const char* type) {
    const int result = Op(index).outputs[0];
    const int between = graph_.AddOperandLike(result, At(result).name + ".sum");
    At(between).dtype = DType::kF32;
    graph_.ReplaceOutput(index, 0, between);
    Operator op = Named(type, Op(index).name);
    op.inputs = {between};
    op.outputs = {result};
    return graph_.AddOperator(std::move(op));
  }

  bool Function(int index, const TorchFunction& function) {
    const Operator& op = Op(index);
    std::vector<int> operands;
    for (int item : AllItems(op)) {
      if (Of(item) != nullptr) operands.push_back(item);
    }
    if (operands.empty() || (function.operands > 0 && operands.size() != function.operands)) {
      return false;
    }
    const auto by = ArgumentsOf(op, Of(operands[0])->dtype);
    if (!by) return false;
    std::map<std::string, Parameter> params;
    if (!function.expression.empty()) params["expr"] = Parameter(std::string(function.expression));
    for (std::string_view name : function.keeps) {
      const Value value = Argument(op, std::string(name).c_str());
      if (value.IsNone()) return false;
      params[std::string(name)] = Parameter::FromValue(value);
    }
    std::vector<int> numbers;
    for (int operand : operands) numbers.push_back(Floats(operand));
    rewriter_.SetInputs(index, std::move(numbers));
    Op(index).type = function.type;
    Op(index).params = std::move(params);
    Requantize(function.relu ? Append(index, "F.relu") : index, *by);
    return true;
  }

  /// torch gives what it joins the scale of the first.
  bool Join(int index) {
    const std::vector<int> items = AllItems(Op(index));
    const TorchQuantizer by = *Of(items[0]);
    std::vector<int> numbers;
    for (int item : items) numbers.push_back(Floats(item));
    rewriter_.SetInputs(index, std::move(numbers));
    Requantize(index, by);
    return true;
  }

  /// Who is not known here reads what torch's operator makes of the same numbers.
  void LeaveToTorch(int index) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int input = Op(index).inputs[i];
      if (Of(input) != nullptr) rewriter_.ReplaceInput(index, i, Packed(input));
      const int list = rewriter_.ProducerOf(input);
      if (rewriter_.ProducerOf(input, "prim::ListConstruct") == nullptr) continue;
      for (size_t k = 0; k < Op(list).inputs.size(); ++k) {
        const int item = Op(list).inputs[k];
        if (Of(item) != nullptr) rewriter_.ReplaceInput(list, k, Packed(item));
      }
    }
  }
  int Packed(int bytes) {
    const auto [found, is_new] = packed_.emplace(bytes, -1);
    if (!is_new) return found->second;
    const TorchQuantizer by = *Of(bytes);
    Operator op = Named("torch.quantize_per_tensor", At(bytes).name);
    SetQuantizer(op, "", by.numbers);
    op.params["dtype"] = Parameter(by.dtype == DType::kU8 ? "torch.quint8" : "torch.qint8");
    const int numbers = Floats(bytes);
    const int packed = graph_.AddOperatorOn(numbers, std::move(op), At(bytes).name + ".packed");
    At(packed).dtype = by.dtype;
    return found->second = packed;
  }

  Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  std::map<int, TorchQuantizer> quantized_;  // by operand of bytes
  std::map<int, int> floats_, packed_;       // by operand of bytes: the same as numbers, as a list
  std::map<int, int> made_of_;               // by operand of bytes: numbers before rounding
  int added_ = 0;
};

}  // namespace

void TorchQuantized(Graph& graph, const PassContext& context) {
  bool any = false;
  for (const Operator& op : graph.operators) any = any || IsTorchQuantize(op) || IsFakeQuantize(op);
  if (any) TorchQuantizedPass(graph, context).Run();
}

}  // namespace oort
