// SPDX-License-Identifier: MIT
// Operators along axes: those for any tensor, with the axes converted by the rank that comes.
#include <algorithm>
#include <array>

#include "layers/layout/axes.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// The layer of another operator whose schema has the same arguments in the same order, made for
/// one rank of the input.
class RankedLayer {
 public:
  RankedLayer(const LayerInit& init, const std::string& type, const std::string& dim) {
    Operator op = init.op();
    op.type = type;
    op.params["dim"] = Parameter(dim);
    const LayerRegistry& registry = LayerRegistry::Global();
    const OperatorSchema* schema = registry.Schema(type);
    if (schema == nullptr) throw Error(ErrorCode::kInternal, "no operator " + type);
    std::vector<Problem> problems;
    bound_ = BindArguments(*schema, op, problems);
    if (!problems.empty()) throw Error(problems.front().code, problems.front().message);
    const std::vector<Value> unknown(op.inputs.size(), Value::Deferred());
    layer_ = registry.Make(LayerInit(op, *schema, bound_, unknown, init.isa(), init.outputs(),
                                     init.inputs(), init.device()));
  }

  /// Calls body(layer, the arguments with its own parameters).
  template <typename Body>
  auto Call(const Args& args, const Body& body) const {
    std::array<const Value*, 8> values;
    for (size_t i = 0; i < bound_.args.size(); ++i) {
      const BoundArg& arg = bound_.args[i];
      values[i] = arg.input >= 0 ? &args[static_cast<int>(i)] : &arg.value;
    }
    return body(*layer_, Args({values.data(), bound_.args.size()}, args.variadic(), args.inputs()));
  }

 private:
  BoundArgs bound_;
  std::unique_ptr<Layer> layer_;
};

class AxisOperator : public Layer {
 public:
  AxisOperator(const LayerInit& init, const std::string& type) : dim_(init.Constant("dim")) {
    for (int rank = kLeast; rank <= kMost; ++rank) {
      if (IsInRange(rank)) ranked_[Place(rank)] = Make(init, type, rank);
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return LayerFor(args).Call(
        args, [](const Layer& layer, const Args& own) { return layer.Infer(own); });
  }
  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    LayerFor(args).Call(
        args, [&](const Layer& layer, const Args& own) { layer.Forward(context, own, outputs); });
  }
  std::vector<Reuse> Reuses(const Args& args) const override {
    return LayerFor(args).Call(
        args, [](const Layer& layer, const Args& own) { return layer.Reuses(own); });
  }
  size_t Workspace(const Args& args, int threads) const override {
    return LayerFor(args).Call(
        args, [&](const Layer& layer, const Args& own) { return layer.Workspace(own, threads); });
  }
  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    return LayerFor(args).Call(
        args, [&](const Layer& layer, const Args& own) { return layer.Work(own, outputs); });
  }

 protected:
  static int RankOf(const Args& args) {
    const Value* first = args.variadic().empty() ? &args[0] : args.variadic()[0];
    return first->AsTensor().rank();
  }
  std::vector<int64_t> Dims() const {
    return dim_.IsNone() ? std::vector<int64_t>{} : dim_.AsInts();
  }

 private:
  // Images, and what some networks make of them by stacking or by dropping an axis.
  static constexpr int kLeast = 1, kMost = 5;
  static size_t Place(int rank) { return static_cast<size_t>(rank - kLeast); }

  bool IsInRange(int rank) const {
    const std::vector<int64_t> dims = Dims();
    return std::all_of(dims.begin(), dims.end(),
                       [&](int64_t dim) { return dim >= -rank && dim < rank; });
  }

  std::unique_ptr<RankedLayer> Make(const LayerInit& init, const std::string& type,
                                    int rank) const {
    if (dim_.IsNone()) return std::make_unique<RankedLayer>(init, type, "None");
    std::vector<int64_t> dims;
    for (int64_t dim : Dims()) dims.push_back(NhwcAxis(dim, rank));
    const Value converted = dim_.IsList() ? Value::Ints(dims) : Value(dims[0]);
    return std::make_unique<RankedLayer>(init, type, converted.ToString());
  }

  const RankedLayer& LayerFor(const Args& args) const {
    const int rank = RankOf(args);
    if (rank >= kLeast && rank <= kMost && ranked_[Place(rank)] != nullptr) {
      return *ranked_[Place(rank)];
    }
    if (!dim_.IsNone()) {
      for (int64_t dim : Dims()) NormalizeAxis(dim, rank);  // says which one is not there
    }
    throw Error(ErrorCode::kInvalidArgument,
                "expected an input of a rank up to 5, got rank " + std::to_string(rank));
  }

  Value dim_;
  std::array<std::unique_ptr<RankedLayer>, kMost - kLeast + 1> ranked_;
};

/// What loses its axes is no image any more: the others must stand in torch's order.
class AxisReduction final : public AxisOperator {
 public:
  AxisReduction(const LayerInit& init, const std::string& type)
      : AxisOperator(init, type), keepdim_(init.Bool("keepdim")) {}

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<Value> metas = AxisOperator::Infer(args);
    if (!keepdim_) CheckOrder(RankOf(args));
    return metas;
  }

 private:
  void CheckOrder(int rank) const {
    std::vector<bool> reduced(static_cast<size_t>(rank), Dims().empty());
    for (int64_t dim : Dims()) reduced[static_cast<size_t>(NormalizeAxis(dim, rank))] = true;
    int last = -1;
    for (int i = 0; i < rank; ++i) {
      if (reduced[static_cast<size_t>(i)]) continue;
      if (NhwcAxis(i, rank) < last) {
        throw Error(ErrorCode::kUnsupported,
                    "expected keepdim=True where channels and pixels remain");
      }
      last = NhwcAxis(i, rank);
    }
  }
  bool keepdim_;
};

template <typename L>
LayerCreator CreateAxis(std::string type) {
  return
      [type = std::move(type)](const LayerInit& init) { return std::make_unique<L>(init, type); };
}

OperatorSchema AxisSchema(const std::string& name, const std::string& type) {
  return OperatorSchema({"nhwc." + name},
                        type +
                            " of (…, H, W, C), with the axes of (…, C, H, W). Made by the "
                            "NHWC pass")
      .KeepsDType();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(axis_operators) {
  using namespace oort;
  registry.Add(
      AxisSchema("cat", "torch.cat").Tensors("tensors", kAllDTypes).Int("dim", 0).F16OnCpu(),
      CreateAxis<AxisOperator>("torch.cat"));
  registry.Add(AxisSchema("chunk", "torch.chunk")
                   .Tensor("input", kAllDTypes)
                   .Int("chunks")
                   .Int("dim", 0)
                   .Outputs(1, -1)
                   .F16OnCpu(),
               CreateAxis<AxisOperator>("torch.chunk"));
  registry.Add(AxisSchema("split", "torch.split")
                   .Tensor("tensor", kAllDTypes)
                   .Any("split_size_or_sections")
                   .Int("dim", 0)
                   .Outputs(1, -1)
                   .F16OnCpu(),
               CreateAxis<AxisOperator>("torch.split"));
  for (const std::string name : {"softmax", "log_softmax"}) {
    registry.Add(AxisSchema(name, "F." + name)
                     .Tensor("input", kReals)
                     .Int("dim")
                     .DTypeName("dtype")
                     .Nullable(),
                 CreateAxis<AxisOperator>("F." + name));
  }
  for (const std::string name : {"mean", "sum"}) {
    registry.Add(AxisSchema(name, "torch." + name)
                     .Tensor("input", kReals)
                     .Ints("dim")
                     .Nullable()
                     .Bool("keepdim", false)
                     .DTypeName("dtype")
                     .Nullable(),
                 CreateAxis<AxisReduction>("torch." + name));
  }
}

OORT_CUDA_LAYERS(axis_operators) {
  registry.AddDevice({"nhwc.cat", "nhwc.chunk", "nhwc.split", "nhwc.softmax", "nhwc.log_softmax",
                      "nhwc.mean", "nhwc.sum"},
                     oort::DeviceType::kCuda);
}
