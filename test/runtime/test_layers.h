// SPDX-License-Identifier: MIT
// Operators that let a test see what the runtime does with them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "graph/graph_builder.h"
#include "oort/oort.h"

namespace oort {

/// test.add_one: y = x + 1, in place where it may be. Tells `seen` the pointers it works on.
class AddOne final : public Layer {
 public:
  using Probe = std::function<void(const float* input, const float* output)>;
  explicit AddOne(Probe probe = {}) : probe_(std::move(probe)) {}
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(0);
    Tensor& y = outputs[0].AsTensor();
    if (probe_) probe_(x.data<float>(), y.data<float>());
    for (int64_t i = 0; i < x.elements(); ++i) y.data<float>()[i] = x.data<float>()[i] + 1;
  }
  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kInPlace, 0, 0, 0}}; }
  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = static_cast<double>(args.tensor(0).elements());
    return cost;
  }

 private:
  Probe probe_;
};

/// test.flat: a view of x with one axis.
class Flat final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, {args.tensor(0).elements()})};
  }
  void Forward(const Context&, const Args&, std::span<Value>) const override {
    ADD_FAILURE() << "Forward of a view was called";
  }
  std::vector<Reuse> Reuses(const Args&) const override { return {{Reuse::kView, 0, 0, 0}}; }
};

/// test.sum2: x + y, elementwise, never in place. Two outputs: the sum and the difference.
class SumAndDifference final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    if (!(args.shape(0) == args.shape(1))) {
      throw Error(ErrorCode::kInvalidArgument, "expected equal shapes, got " +
                                                   args.shape(0).ToString() + " and " +
                                                   args.shape(1).ToString());
    }
    return {Tensor::Meta(DType::kF32, args.shape(0)), Tensor::Meta(DType::kF32, args.shape(0))};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    for (int64_t i = 0; i < args.tensor(0).elements(); ++i) {
      const float x = args.tensor(0).data<float>()[i], y = args.tensor(1).data<float>()[i];
      outputs[0].AsTensor().data<float>()[i] = x + y;
      outputs[1].AsTensor().data<float>()[i] = x - y;
    }
  }
};

/// test.positive: the elements that are > 0. Its size depends on the data.
class Positive final : public Layer {
 public:
  std::vector<Value> Infer(const Args&) const override { return {Value::Deferred()}; }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    std::vector<float> kept;
    for (float value : args.tensor(0).span<float>()) {
      if (value > 0) kept.push_back(value);
    }
    outputs[0] = Tensor::From<float>(kept, {static_cast<int64_t>(kept.size())});
  }
};

/// test.size: the number of elements, as an int that is known before anything runs.
class Size final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    return {Value(args.tensor(0).elements())};
  }
  void Forward(const Context&, const Args&, std::span<Value>) const override {
    ADD_FAILURE() << "Forward was called for a number";
  }
};

/// test.ones: `count` ones; the count may be a parameter or come from another operator.
class Ones final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(DType::kF32, {args[0].AsInt()})};
  }
  void Forward(const Context&, const Args&, std::span<Value> outputs) const override {
    Tensor& y = outputs[0].AsTensor();
    std::fill_n(y.data<float>(), y.elements(), 1.0f);
  }
};

/// test.pair: one output that is a tuple (x, x + 1).
class Pair final : public Layer {
 public:
  std::vector<Value> Infer(const Args& args) const override {
    const Tensor meta = Tensor::Meta(DType::kF32, args.shape(0));
    return {Value(Value::List{meta, meta})};
  }
  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    Tensor next = args.tensor(0).Clone();
    for (int64_t i = 0; i < next.elements(); ++i) next.data<float>()[i] += 1;
    outputs[0] = Value::List{args.tensor(0), next};
  }
};

/// The global registry with the operators above.
inline LayerRegistry TestRegistry(AddOne::Probe probe = {}) {
  LayerRegistry registry = LayerRegistry::Global();
  const auto unary = [](const char* type) {
    OperatorSchema schema({type}, "for tests");
    schema.Tensor("input", kF32Only);
    return schema;
  };
  registry.Add(unary("test.add_one"),
               [probe](const LayerInit&) { return std::make_unique<AddOne>(probe); });
  const auto make = []<typename L>(L*) {
    return [](const LayerInit&) { return std::make_unique<L>(); };
  };
  registry.Add(unary("test.flat"), make(static_cast<Flat*>(nullptr)));
  registry.Add(unary("test.positive"), make(static_cast<Positive*>(nullptr)));
  registry.Add(unary("test.size"), make(static_cast<Size*>(nullptr)));
  registry.Add(unary("test.pair"), make(static_cast<Pair*>(nullptr)));
  OperatorSchema binary({"test.sum2"}, "for tests");
  binary.Tensor("input", kF32Only).Tensor("other", kF32Only).Outputs(2);
  registry.Add(binary, make(static_cast<SumAndDifference*>(nullptr)));
  OperatorSchema ones({"test.ones"}, "for tests");
  ones.Int("count").Dynamic().AtLeast(0);
  registry.Add(ones, make(static_cast<Ones*>(nullptr)));
  return registry;
}

/// Builds `lines` with the test operators.
inline std::shared_ptr<const RuntimeGraph> BuildText(const std::string& lines,
                                                     AddOne::Probe probe = {}) {
  const LayerRegistry registry = TestRegistry(std::move(probe));
  LoadOptions options;
  options.registry = &registry;
  return RuntimeGraph::Build(GraphFromText(lines), options);
}

inline std::vector<float> Floats(const Tensor& tensor) {
  const std::span<const float> values = tensor.span<float>();
  return {values.begin(), values.end()};
}

}  // namespace oort
