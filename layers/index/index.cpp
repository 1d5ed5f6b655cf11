// SPDX-License-Identifier: MIT
#include <array>
#include <map>
#include <mutex>

#include "cuda/memory.h"
#include "layers/index/device_index.h"
#include "layers/index/index_list.h"
#include "layers/index/index_plan.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

/// The entries of an index: written in the model as text, or computed.
class IndexArg {
 public:
  IndexArg(const LayerInit& init, const char* name) : arg_(init.Arg(name)) {
    const Value& value = init.Constant(name);
    if (value.IsString()) parsed_ = ParseIndexList(value.AsString());
  }

  /// Whether the shape of what they name is known.
  bool IsKnown(const Args& args) const { return !DependsOnElements(Entries(args)); }

  Value::List Entries(const Args& args) const {
    const Value& value = args[arg_];
    if (value.IsString()) return parsed_;
    return value.IsList() ? value.AsList() : Value::List{value};
  }

 private:
  int arg_;
  Value::List parsed_;
};

class IndexLayer final : public Layer {
 public:
  explicit IndexLayer(const LayerInit& init)
      : input_(init.Arg("input")), index_(init, "expr"), device_(init.device()) {
    if (device_.type != DeviceType::kCpu && !init.Constant("expr").IsString()) {
      throw Error(ErrorCode::kUnsupported, "has an index that is computed");
    }
    if (!init.Constant("expr").IsString() || init.inputs().empty()) return;
    const Operand &input = *init.inputs()[0], &output = *init.outputs()[0];
    if (!input.has_shape || !output.has_shape) return;
    traced_input_rank_ = input.shape.rank();
    traced_rank_ = output.shape.rank();
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (!index_.IsKnown(args)) return {Value::Deferred()};
    const Tensor& input = args.tensor(input_);
    const Shape shape = IndexedShape(input.shape(), index_.Entries(args));
    CheckLoss(input.rank(), shape);
    return {Tensor::Meta(input.dtype(), shape)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const IndexPlan plan = PlanIndex(input.shape(), index_.Entries(args));
    Tensor& output = OutputTensor(outputs[0], input.dtype(), plan.result);
    if (context.stream() != nullptr) {
      return CopyIndexedOnDevice(*context.stream(), ItemSize(input.dtype()), input.raw(), plan,
                                 TableOnDevice(input.shape(), plan), output.raw());
    }
    CopyIndexed(context, ItemSize(input.dtype()), input.raw(), plan, output.raw());
  }

 private:
  /// Uploaded when an input of the shape comes for the first time, which is not recorded.
  const int64_t* TableOnDevice(const Shape& shape, const IndexPlan& plan) const {
    const std::lock_guard lock(mutex_);
    Tensor& table = tables_[shape.ToString()];
    if (!table.defined()) {
      const auto count = static_cast<int64_t>(plan.table.size());
      table = cuda::ToDevice(Tensor::From<int64_t>(plan.table, {count}), device_);
    }
    return table.data<int64_t>();
  }

  /// pnnx writes a constant index of several axes as a list of as many elements as its first axis
  /// has; only the rank of the traced result still tells.
  void CheckLoss(int input_rank, const Shape& shape) const {
    if (input_rank != traced_input_rank_ || shape.rank() == traced_rank_) return;
    throw Error(ErrorCode::kUnsupported,
                "the index has lost elements in conversion: expected a result of rank " +
                    std::to_string(traced_rank_) + " as traced, got " + shape.ToString() +
                    "; give the index to the model as an input");
  }

  int input_;
  IndexArg index_;
  int traced_input_rank_ = -1, traced_rank_ = -1;
  Device device_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Tensor> tables_;  // on the GPU, by the shape of the input
};

class IndexPutLayer final : public Layer {
 public:
  explicit IndexPutLayer(const LayerInit& init)
      : input_(init.Arg("input")),
        index_(init, "indices"),
        values_(init.Arg("values")),
        accumulate_(init.Bool("accumulate")) {}

  std::vector<Value> Infer(const Args& args) const override {
    const Tensor& input = args.tensor(input_);
    if (index_.IsKnown(args)) {
      CheckValues(args, IndexedShape(input.shape(), index_.Entries(args)));
    }
    return {Tensor::Meta(input.dtype(), input.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(input_);
    const IndexPlan plan = PlanIndex(input.shape(), index_.Entries(args));
    CheckValues(args, plan.result);
    const Tensor values = Values(context, args, plan.result);
    Tensor& output = OutputTensor(outputs[0], input.dtype(), input.shape());
    CopyBytes(context, input.raw(), output.raw(), input.bytes());
    if (accumulate_) {
      AddAt(plan.AllOffsets(), values, output);
    } else {
      ScatterIndexed(ItemSize(input.dtype()), values.raw(), plan, output.raw());
    }
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

 private:
  void CheckValues(const Args& args, const Shape& region) const {
    if (!args[values_].IsTensor()) return;
    const Shape& values = args.shape(values_);
    if (!BroadcastsTo(values, region)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "values " + values.ToString() + " do not broadcast to " + region.ToString());
    }
  }

  /// The values in the dtype of the input, repeated to the shape of the region.
  Tensor Values(const Context& context, const Args& args, const Shape& region) const {
    const DType dtype = args.tensor(input_).dtype();
    Tensor values(dtype, region);
    if (args[values_].IsTensor()) {
      const Tensor given = args.tensor(values_).To(dtype);
      CopyStrided(context, ItemSize(dtype), given.raw(), Strided(given.shape()).Broadcast(region),
                  values.raw());
    } else {
      const std::array<std::byte, 16> item = ScalarBytes(args[values_], dtype);
      FillItems(values.raw(), item.data(), ItemSize(dtype), values.elements());
    }
    return values;
  }

  int input_;
  IndexArg index_;
  int values_;
  bool accumulate_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(index) {
  using namespace oort;
  registry.Add(
      OperatorSchema({"Tensor.index"}, "input[expr]: integers, masks and None, one for each axis")
          .Tensor("input", kAllDTypes)
          .String("expr")
          .Dynamic(),
      Create<IndexLayer>());
  registry.Add(OperatorSchema({"Tensor.index_put"},
                              "input with input[indices] = values, or += values to accumulate")
                   .Tensor("input", kReals | DType::kC64 | DType::kC128)
                   .String("indices")
                   .Dynamic()
                   .Number("values")
                   .Dynamic()
                   .Bool("accumulate", false)
                   .Ignored("unsafe"),
               Create<IndexPutLayer>());
}
