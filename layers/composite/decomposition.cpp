// SPDX-License-Identifier: MIT
#include "layers/composite/decomposition.h"

#include <algorithm>
#include <sstream>

#include "cuda/memory.h"
#include "cuda/stream.h"
#include "layers/composite/inner_operator.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

/// Never of a tensor without elements, which has no buffer.
bool SharesBuffer(const Value& value, const Tensor& tensor) {
  if (tensor.buffer() == nullptr) return false;
  if (!value.IsList()) return value.IsTensor() && value.AsTensor().buffer() == tensor.buffer();
  return std::any_of(value.AsList().begin(), value.AsList().end(),
                     [&](const Value& item) { return SharesBuffer(item, tensor); });
}

/// Where a tensor lies and what it is, as text.
std::string AddressOf(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor.buffer().get() << '+' << tensor.offset() << tensor.ToString();
  return text.str();
}

/// What tells a part from the others of one layer. A name stands for the weights.
std::string KeyOf(const Operator& part, const std::vector<Value>& constants, int outputs) {
  std::string key = part.type + '\n' + std::to_string(outputs);
  for (size_t i = 0; i < constants.size(); ++i) {
    key += '\n' + part.input_names[i];
    if (!constants[i].IsDeferred()) key += '=' + AddressOf(constants[i].AsTensor());
  }
  for (const auto& [name, parameter] : part.params) key += '\n' + name + '=' + parameter.text();
  if (!part.name.empty()) return key + "\n@" + part.name;
  for (const auto& [name, tensor] : part.attributes) key += "\n@" + name + '=' + AddressOf(tensor);
  return key;
}

}  // namespace

/// The parts that were made so far. Which there are may depend on shapes, so they are counted.
class DecompositionLayer::Parts {
 public:
  explicit Parts(const LayerInit& init) : isa_(init.isa()), device_(init.device()) {
    whole_.name = init.op().name;
    whole_.line = init.op().line;
    whole_.whole_name = init.op().FileName();
    whole_.whole_type = init.op().FileType();
    whole_.outputs.resize(init.outputs().size());
  }

  int outputs() const { return static_cast<int>(whole_.outputs.size()); }
  bool on_device() const { return device_.type != DeviceType::kCpu; }

  /// Null where it was not made yet and its weights are not there. Tells whether it is `made` now.
  std::shared_ptr<const InnerOperator> Get(Operator op, InnerOperator::Known known, bool keep,
                                           bool& made) {
    const bool named = !op.name.empty();
    auto& kept = named ? modules_ : others_;
    const std::string key = KeyOf(op, known.constants, known.outputs);
    if (keep) {
      const std::lock_guard lock(mutex_);
      if (const auto found = kept.find(key); found != kept.end()) return found->second;
    }
    const bool has_weights =
        std::all_of(op.attributes.begin(), op.attributes.end(),
                    [](const auto& attribute) { return attribute.second.has_data(); });
    if (!has_weights) return nullptr;
    op.name = whole_.name;
    op.line = whole_.line;
    op.whole_name = whole_.whole_name;
    op.whole_type = whole_.whole_type;
    known.weights_stay = !named;
    made = true;
    auto part =
        std::make_shared<const InnerOperator>(std::move(op), std::move(known), isa_, device_);
    if (!keep) return part;
    const std::lock_guard lock(mutex_);
    if (others_.size() >= kMostParts) others_.clear();
    return kept.emplace(key, std::move(part)).first->second;
  }

 private:
  static constexpr size_t kMostParts = 64;
  Operator whole_;
  Isa isa_;
  Device device_;
  std::mutex mutex_;
  // Those of modules stay: their weights may be gone.
  std::map<std::string, std::shared_ptr<const InnerOperator>> modules_, others_;
};

/// The arguments of a call, those that are constant as the layer got them when it was made:
/// meanwhile their elements may be on a GPU, or gone because a part has packed them.
class DecompositionLayer::KnownArgs {
 public:
  KnownArgs(const std::vector<Value>& constants, const Args& args)
      : constants_(constants), given_(args) {
    for (int i = 0; i < args.size(); ++i) {
      const Value& constant = constants[static_cast<size_t>(i)];
      args_.push_back(IsSame(constant, args[i]) ? &constant : &args[i]);
    }
  }
  Args args() const { return Args(args_, given_.variadic(), given_.inputs()); }

  /// Whether a tensor is one of the constants.
  bool IsConstant(const Tensor& tensor) const {
    return Find(tensor, [](const Value&) { return true; }) >= 0;
  }
  /// Whether an operand that may be another at the next call has these elements.
  bool IsOperand(const Tensor& tensor) const {
    for (size_t i = 0; i < args_.size(); ++i) {
      if (constants_[i].IsDeferred() && SharesBuffer(*args_[i], tensor)) return true;
    }
    return std::any_of(given_.variadic().begin(), given_.variadic().end(),
                       [&](const Value* value) { return SharesBuffer(*value, tensor); });
  }
  /// A constant as this call has it, on the device of the call.
  Value AsGiven(const Value& value) const {
    if (!value.IsTensor()) return value;
    const int found = Find(value.AsTensor(), [](const Value& given) { return !IsOnHost(given); });
    return found < 0 ? value : given_[found];
  }

 private:
  static bool IsSame(const Value& constant, const Value& given) {
    if (constant.IsDeferred()) return false;
    return !constant.IsTensor() || !given.IsTensor() ||
           constant.AsTensor().dtype() == given.AsTensor().dtype();
  }
  template <typename Predicate>
  int Find(const Tensor& tensor, const Predicate& predicate) const {
    for (size_t i = 0; i < constants_.size(); ++i) {
      const Value& constant = constants_[i];
      const bool same = args_[i] == &constant && constant.IsTensor() && tensor.has_data() &&
                        constant.AsTensor().buffer() == tensor.buffer() &&
                        constant.AsTensor().offset() == tensor.offset() &&
                        constant.AsTensor().dtype() == tensor.dtype() &&
                        constant.AsTensor().shape() == tensor.shape();
      if (same && predicate(given_[static_cast<int>(i)])) return static_cast<int>(i);
    }
    return -1;
  }

  const std::vector<Value>& constants_;
  const Args& given_;
  std::vector<const Value*> args_;
};

/// Calls parts, infers what they would give, or only makes them.
class DecompositionLayer::Caller final : public Decomposer {
 public:
  enum Mode { kMake, kInfer, kMakeOnDevice, kRun };
  Caller(Mode mode, Parts& parts, const KnownArgs& args, const Context* context = nullptr)
      : mode_(mode), parts_(parts), args_(args), context_(context) {}

  Value Reshape(const Value& value, const Shape& shape) const override {
    if (value.IsDeferred()) return value;
    const Tensor& tensor = value.AsTensor();
    return tensor.has_data() ? tensor.Reshaped(shape) : Tensor::Meta(tensor.dtype(), shape);
  }

  int outputs() const override { return parts_.outputs(); }

  bool computes() const override {
    const bool on_device = context_ != nullptr && context_->stream() != nullptr;
    if (mode_ == kMake || mode_ == kMakeOnDevice || on_device) {
      throw Error(ErrorCode::kUnsupported, "looks at elements, which the GPU would have");
    }
    return mode_ == kRun;
  }

  /// Whether it was a part that could not be made.
  bool failed() const { return failed_; }

 protected:
  std::vector<Value> Call(Operator op, const std::vector<Value>& operands,
                          int outputs) const override {
    const std::vector<Value> unknown(static_cast<size_t>(outputs), Value::Deferred());
    const bool waits = std::any_of(operands.begin(), operands.end(), HoldsDeferred);
    // A layer of the GPU is made for what was traced, so it waits until that is known.
    if (mode_ == kMakeOnDevice && waits) return unknown;
    const auto part = PartOf(std::move(op), operands, outputs);
    if (part == nullptr) return unknown;
    if (mode_ == kRun) return part->Run(*context_, AsGiven(operands));
    return mode_ == kMake || waits ? unknown : part->Infer(operands);
  }

 private:
  std::shared_ptr<const InnerOperator> PartOf(Operator op, const std::vector<Value>& operands,
                                              int outputs) const {
    InnerOperator::Known known;
    known.outputs = outputs;
    for (const Value& operand : operands) {
      const bool constant = operand.IsTensor() && args_.IsConstant(operand.AsTensor());
      known.constants.push_back(constant ? operand : Value::Deferred());
    }
    if (mode_ == kMakeOnDevice) known.traced = operands;
    const bool keep =
        std::none_of(op.attributes.begin(), op.attributes.end(),
                     [&](const auto& attribute) { return args_.IsOperand(attribute.second); });
    try {
      bool made = false;
      auto part = parts_.Get(std::move(op), std::move(known), keep, made);
      if (mode_ == kMakeOnDevice && part != nullptr && !made) part->TryOnDevice(operands);
      return part;
    } catch (const Error&) {
      failed_ = true;
      throw;
    }
  }

  std::vector<Value> AsGiven(const std::vector<Value>& operands) const {
    if (context_->stream() == nullptr) return operands;
    std::vector<Value> given;
    for (const Value& operand : operands) given.push_back(args_.AsGiven(operand));
    return given;
  }

  Mode mode_;
  Parts& parts_;
  const KnownArgs& args_;
  const Context* context_;
  mutable bool failed_ = false;
};

DecompositionLayer::DecompositionLayer(const LayerInit& init, Decomposition decomposition,
                                       std::vector<int> packed)
    : decomposition_(std::move(decomposition)),
      packed_(std::move(packed)),
      free_inputs_(init.schema().free_inputs()),
      parts_(std::make_unique<Parts>(init)) {
  for (const ArgSpec& spec : init.schema().args()) {
    const std::string name = spec.attribute ? "@" + spec.name : spec.name;
    // What is ignored need not be known.
    const bool known = !spec.ignored && !spec.variadic && init.IsConstant(name);
    Value value = known ? init.Constant(name) : spec.ignored ? Value() : Value::Deferred();
    // Of what the decomposition has read by now, no elements are kept here.
    if (known && Packs(static_cast<int>(constants_.size()))) value = WithoutElements(value);
    constants_.push_back(std::move(value));
  }
  if (parts_->on_device()) {
    PrepareOnDevice(init);
  } else {
    Prepare(init);
  }
}

DecompositionLayer::~DecompositionLayer() = default;

bool DecompositionLayer::Packs(int argument) const {
  return std::find(packed_.begin(), packed_.end(), argument) != packed_.end();
}

/// Where tensors alone are left to come, the parts are made now: what is wrong with them is told
/// when the model is loaded, and constants are packed once.
void DecompositionLayer::Prepare(const LayerInit& init) const {
  if (free_inputs_ || !init.bound().variadic.empty()) return;
  std::vector<const Value*> args, inputs(init.op().inputs.size());
  for (size_t i = 0; i < constants_.size(); ++i) {
    const bool tensor = init.schema().args()[i].type == ArgType::kTensor;
    if (constants_[i].IsDeferred() && !tensor) return;
    args.push_back(&constants_[i]);
  }
  static const Value kUnknown = Value::Deferred();
  std::fill(inputs.begin(), inputs.end(), &kUnknown);
  const Args given(args, {}, inputs);
  const KnownArgs known(constants_, given);
  const Caller caller(Caller::kMake, *parts_, known);
  try {
    decomposition_(caller, known.args());
  } catch (const Error&) {
    // It asks for what is not known yet, unless it is a part that is wrong.
    if (caller.failed()) throw;
  }
}

/// Makes the parts for what was traced. Throws kUnsupported unless all of them run on the GPU.
void DecompositionLayer::PrepareOnDevice(const LayerInit& init) const {
  if (init.inputs().size() != init.op().inputs.size()) return;  // a part, tried with the whole
  std::vector<Value> inputs;
  for (const Operand* hint : init.inputs()) {
    const bool known = hint->has_shape && hint->dtype != DType::kNull;
    inputs.push_back(known ? Value(Tensor::Meta(hint->dtype, hint->shape)) : Value::Deferred());
  }
  for (size_t i = 0; i < constants_.size(); ++i) {
    const int input = init.bound().args[i].input;
    if (input < 0 || constants_[i].IsDeferred()) continue;
    inputs[static_cast<size_t>(input)] = WithoutElements(constants_[i]);
  }
  const CallArgs call(init.bound(), inputs);
  const Args given = call.args();
  const KnownArgs known(constants_, given);
  std::vector<Value> results;
  try {
    results = decomposition_(Caller(Caller::kMakeOnDevice, *parts_, known), known.args());
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnsupported, error.what());
  }
  for (const Value& result : results) {
    if (result.IsTensor()) continue;
    throw Error(ErrorCode::kUnsupported, "is known only when it runs, or no tensor");
  }
}

std::vector<Value> DecompositionLayer::Infer(const Args& given) const {
  const KnownArgs known(constants_, given);
  const Args args = known.args();
  bool waits = false;
  for (int i = 0; i < args.size(); ++i) waits = waits || HoldsDeferred(args[i]);
  for (const Value* input : free_inputs_ ? args.inputs() : args.variadic()) {
    waits = waits || HoldsDeferred(*input);
  }
  if (waits) return std::vector<Value>(static_cast<size_t>(parts_->outputs()), Value::Deferred());
  return decomposition_(Caller(Caller::kInfer, *parts_, known), args);
}

void DecompositionLayer::Forward(const Context& context, const Args& given,
                                 std::span<Value> outputs) const {
  const KnownArgs known(constants_, given);
  std::vector<Value> results =
      decomposition_(Caller(Caller::kRun, *parts_, known, &context), known.args());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool allocated = outputs[i].IsTensor() && outputs[i].AsTensor().has_data();
    if (!allocated) {
      outputs[i] = std::move(results[i]);
      continue;
    }
    if (context.stream() != nullptr && IsOnHost(results[i])) {
      results[i] = cuda::ToDevice(results[i].AsTensor(), outputs[i].AsTensor().device());
    }
    const Tensor& result = results[i].AsTensor();
    CopyBytes(context, result.raw(), outputs[i].AsTensor().raw(), result.bytes());
  }
}

Fallback::Fallback(const LayerInit& init, Decomposition decomposition)
    : op_(init.op()),
      schema_(init.schema()),
      isa_(init.isa()),
      decomposition_(std::move(decomposition)) {
  op_.attributes.clear();
}

const Layer& Fallback::Get(FunctionRef<std::map<std::string, Tensor>()> attributes) const {
  std::call_once(made_, [&] {
    Operator op = op_;
    op.attributes = attributes();
    std::vector<Problem> problems;
    const BoundArgs bound = BindArguments(schema_, op, problems);
    if (!problems.empty()) throw Error(problems.front().code, problems.front().message);
    const std::vector<Value> unknown(op.inputs.size(), Value::Deferred());
    const Operand output;
    const std::vector<const Operand*> outputs(op.outputs.size(), &output);
    const LayerInit init(op, schema_, bound, unknown, isa_, outputs);
    layer_ = std::make_unique<DecompositionLayer>(init, decomposition_);
  });
  return *layer_;
}

OperatorSchema DecompositionSchema(std::vector<std::string> types, std::string doc,
                                   const std::string& arguments, DTypeSet dtypes) {
  OperatorSchema schema(std::move(types), std::move(doc));
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (word[0] == '*') {
      schema.Tensor(word.substr(1), dtypes);
    } else if (word[0] == '?') {
      schema.OptionalTensor(word.substr(1), dtypes);
    } else {
      schema.Any(word).Nullable().Dynamic();
    }
  }
  return schema;
}

LayerCreator CreateDecomposed(Decomposition decomposition) {
  return [decomposition = std::move(decomposition)](const LayerInit& init) {
    return std::make_unique<DecompositionLayer>(init, decomposition);
  };
}

void AddDecomposition(LayerRegistry& registry, OperatorSchema schema, Decomposition decomposition) {
  const std::vector<std::string> types = schema.types();
  registry.Add(std::move(schema), CreateDecomposed(decomposition));
  registry.SetDecomposition(types, std::move(decomposition));
}

Value ParameterOf(const Value& value) {
  if (value.IsList()) {
    Value::List items;
    for (const Value& item : value.AsList()) {
      items.push_back(ParameterOf(item));
      if (items.back().IsDeferred()) return Value::Deferred();
    }
    return Value(std::move(items));
  }
  if (!value.IsTensor()) return value;
  const Tensor& tensor = value.AsTensor();
  if (tensor.elements() != 1) {
    throw Error(ErrorCode::kInvalidArgument, "expected a number, got " + tensor.ToString());
  }
  if (!tensor.has_data()) return Value::Deferred();
  if (tensor.dtype() == DType::kBool) return Value(tensor.Item() != 0);
  if (IsInteger(tensor.dtype())) return Value(tensor.To(DType::kI64).data<int64_t>()[0]);
  return Value(tensor.Item());
}

}  // namespace oort
