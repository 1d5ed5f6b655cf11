// SPDX-License-Identifier: MIT
// Random tensors. See oort/random.h for where their numbers come from.
#include <algorithm>
#include <numeric>

#include "core/dispatch.h"
#include "core/random.h"
#include "graph/dtype_names.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

enum class Distribution { kUniform, kNormal, kIntegers };

/// The shape is that of `input`, or `size`.
class RandomLayer final : public Layer {
 public:
  RandomLayer(const LayerInit& init, Distribution distribution)
      : distribution_(distribution),
        input_(init.Arg("input")),
        size_(init.Arg("size")),
        dtype_(init.Arg("dtype")),
        low_(init.Arg(distribution == Distribution::kIntegers ? "low" : "mean")),
        high_(init.Arg(distribution == Distribution::kIntegers ? "high" : "std")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (size_ >= 0 && !args[size_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(ResultType(args), ResultShape(args))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = OutputTensor(outputs[0], ResultType(args), ResultShape(args));
    const RandomSeries series = NextRandomSeries();
    switch (distribution_) {
      case Distribution::kUniform:
        return Fill(context, output, [&](int64_t i) { return series.Uniform(i); });
      case Distribution::kNormal: {
        const double mean = args.Has(low_) ? args[low_].AsFloat() : 0;
        const double deviation = args.Has(high_) ? args[high_].AsFloat() : 1;
        return Fill(context, output,
                    [&](int64_t i) { return mean + deviation * series.Normal(i); });
      }
      case Distribution::kIntegers: return FillIntegers(context, args, output, series);
    }
  }

 private:
  template <typename Draw>
  static void Fill(const Context& context, Tensor& output, const Draw& draw) {
    VisitDType(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!kIsComplex<T>) {
        T* to = output.data<T>();
        context.ParallelFor(output.elements(), 4096, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) to[i] = ConvertElement<T>(draw(i));
        });
      }
    });
  }

  void FillIntegers(const Context& context, const Args& args, Tensor& output,
                    const RandomSeries& series) const {
    const int64_t low = args[low_].AsInt(), high = args[high_].AsInt();
    if (low >= high) {
      throw Error(ErrorCode::kInvalidArgument, "expected low < high, got " + std::to_string(low) +
                                                   " and " + std::to_string(high));
    }
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    Fill(context, output, [&](int64_t i) {
      return static_cast<int64_t>(static_cast<uint64_t>(low) + series.Bits(i) % span);
    });
  }

  DType ResultType(const Args& args) const {
    const bool integers = distribution_ == Distribution::kIntegers;
    const DType dtype = args.Has(dtype_) ? RequireTorchDType(args[dtype_])
                        : input_ >= 0    ? args.tensor(input_).dtype()
                        : integers       ? DType::kI64
                                         : DType::kF32;
    if (!IsFloat(dtype) && !(integers && IsInteger(dtype))) {
      throw Error(ErrorCode::kUnsupported,
                  "has no random numbers of dtype " + std::string(Name(dtype)));
    }
    return dtype;
  }

  Shape ResultShape(const Args& args) const {
    return size_ < 0 ? args.shape(input_) : Shape(args[size_].AsInts());
  }

  Distribution distribution_;
  int input_, size_, dtype_, low_, high_;
};

/// 1 with the probability that the input (or p) says, else 0.
class BernoulliLayer final : public Layer {
 public:
  explicit BernoulliLayer(const LayerInit& init) : p_(init.Arg("p")) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), args.shape(0))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const bool one_for_all = args.Has(p_);
    if (one_for_all) Check(args[p_].AsFloat());
    const RandomSeries series = NextRandomSeries();
    VisitDType(args.tensor(0).dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        const T* from = args.tensor(0).data<T>();
        T* to = outputs[0].AsTensor().data<T>();
        context.ParallelFor(args.tensor(0).elements(), 4096, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const double p = one_for_all ? args[p_].AsFloat() : ConvertElement<double>(from[i]);
            if (!one_for_all) Check(p);
            to[i] = ConvertElement<T>(series.Uniform(i) < p ? 1.0 : 0.0);
          }
        });
      }
    });
  }

 private:
  static void Check(double p) {
    if (!(p >= 0 && p <= 1)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a probability in [0, 1], got " + std::to_string(p));
    }
  }

  int p_;
};

/// 0 … n - 1 in any order.
class RandpermLayer final : public Layer {
 public:
  explicit RandpermLayer(const LayerInit&) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[0].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(DType::kI64, {args[0].AsInt()})};
  }

  void Forward(const Context&, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = OutputTensor(outputs[0], DType::kI64, {args[0].AsInt()});
    const RandomSeries series = NextRandomSeries();
    const std::span<int64_t> order(output.data<int64_t>(), static_cast<size_t>(output.elements()));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) {
      const uint64_t other = series.Bits(static_cast<int64_t>(i)) % i;
      std::swap(order[i - 1], order[other]);
    }
  }
};

LayerCreator CreateRandom(Distribution distribution) {
  return [distribution](const LayerInit& init) {
    return std::make_unique<RandomLayer>(init, distribution);
  };
}

OperatorSchema RandomSchema(const std::string& name, const char* doc) {
  return OperatorSchema({"torch." + name, "aten::" + name}, doc).Random();
}

/// What every creation operator of torch ends with.
OperatorSchema& WithOptions(OperatorSchema& schema) {
  return schema.DTypeName("dtype")
      .Nullable()
      .Ignored("layout")
      .Ignored("device")
      .Ignored("pin_memory")
      .Ignored("memory_format");
}

void AddRandom(LayerRegistry& registry, OperatorSchema schema, Distribution distribution) {
  registry.Add(std::move(WithOptions(schema)), CreateRandom(distribution));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(random) {
  using namespace oort;
  const char* uniform = "Numbers from [0, 1), all equally likely";
  const char* normal = "Numbers of mean 0 and variance 1, normally distributed";
  const char* integers = "Integers from [low, high), all equally likely";
  AddRandom(registry, RandomSchema("rand", uniform).Ints("size").Dynamic(), Distribution::kUniform);
  AddRandom(registry, RandomSchema("rand_like", uniform).Tensor("input", kAllDTypes),
            Distribution::kUniform);
  AddRandom(registry, RandomSchema("randn", normal).Ints("size").Dynamic(), Distribution::kNormal);
  AddRandom(registry, RandomSchema("randn_like", normal).Tensor("input", kAllDTypes),
            Distribution::kNormal);
  AddRandom(registry,
            RandomSchema("normal", "Normally distributed numbers")
                .Float("mean", 0)
                .Float("std", 1)
                .AtLeast(0)
                .Ints("size")
                .Dynamic()
                .Ignored("generator"),
            Distribution::kNormal);
  AddRandom(registry,
            RandomSchema("randint", integers).Int("low", 0).Int("high").Ints("size").Dynamic(),
            Distribution::kIntegers);
  AddRandom(
      registry,
      RandomSchema("randint_like", integers).Tensor("input", kAllDTypes).Int("low", 0).Int("high"),
      Distribution::kIntegers);
  registry.Add(RandomSchema("bernoulli", "1 with the probability that the input says, else 0")
                   .Tensor("input", kFloats)
                   .Float("p")
                   .Nullable()
                   .Ignored("generator"),
               Create<BernoulliLayer>());
  OperatorSchema randperm = RandomSchema("randperm", "The integers below n, in random order");
  randperm.Int("n").AtLeast(0).Dynamic();
  WithOptions(randperm);
  registry.Add(std::move(randperm), Create<RandpermLayer>());
}
