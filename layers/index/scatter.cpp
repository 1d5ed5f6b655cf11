// SPDX-License-Identifier: MIT
// Operators that write into a copy of a tensor at places that an index names: scatter, scatter_add,
// scatter_reduce, index_add, index_copy, index_fill, index_reduce and put.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/dispatch.h"
#include "layers/index/device_scatter.h"
#include "layers/index/index_plan.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_copy.h"
#include "layers/shape/strided_layer.h"

namespace oort {
namespace {

Combine ParseCombine(const Value& reduce) {
  if (reduce.IsNone()) return Combine::kReplace;
  const std::string& name = reduce.AsString();
  if (name == "add" || name == "sum") return Combine::kSum;
  if (name == "multiply" || name == "prod") return Combine::kProduct;
  if (name == "mean") return Combine::kMean;
  if (name == "amax") return Combine::kLargest;
  if (name == "amin") return Combine::kSmallest;
  throw Error(ErrorCode::kInvalidModel, "reduce=" + name + " is no reduction");
}

/// a op b for one element; NaN wins.
template <typename T>
T CombineElements(Combine combine, T a, T b) {
  if constexpr (kIsHalf<T>) {
    return T(CombineElements(combine, static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (kIsComplex<T>) {
    return combine == Combine::kProduct ? a * b : combine == Combine::kReplace ? b : a + b;
  } else {
    const bool a_nan = a != a, b_nan = b != b;
    switch (combine) {
      case Combine::kReplace: return b;
      case Combine::kLargest: return a_nan || (!b_nan && a > b) ? a : b;
      case Combine::kSmallest: return a_nan || (!b_nan && a < b) ? a : b;
      default: break;
    }
    const bool product = combine == Combine::kProduct;
    if constexpr (std::is_same_v<T, bool>) {
      return product ? a && b : a || b;
    } else if constexpr (std::is_integral_v<T>) {
      const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
      return static_cast<T>(product ? x * y : x + y);
    } else {
      return product ? a * b : a + b;
    }
  }
}

/// a / count, rounded down for integers.
template <typename T>
T MeanOf(T sum, int64_t count) {
  if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(sum) / static_cast<float>(count));
  } else if constexpr (kIsComplex<T>) {
    return sum / static_cast<typename T::value_type>(count);
  } else if constexpr (std::is_same_v<T, bool>) {
    return sum;
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t a = static_cast<int64_t>(sum);
    return static_cast<T>(a / count - (a % count < 0 ? 1 : 0));
  } else {
    return sum / static_cast<T>(count);
  }
}

/// x[offsets[i]] = x[offsets[i]] op values[i], one after another. Without `include_self` what was
/// in x at those places does not count.
void CombineAt(std::span<const int64_t> offsets, const Tensor& values, Combine combine,
               bool include_self, Tensor& x) {
  if (combine == Combine::kSum && include_self) return AddAt(offsets, values, x);
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* source = values.data<T>();
    T* target = x.data<T>();
    std::vector<int64_t> counts;
    if (!include_self || combine == Combine::kMean) {
      counts.assign(static_cast<size_t>(x.elements()), include_self ? 1 : 0);
    }
    for (size_t i = 0; i < offsets.size(); ++i) {
      T& element = target[offsets[i]];
      const size_t at = static_cast<size_t>(offsets[i]);
      const bool first = !counts.empty() && counts[at] == 0;
      element = first ? source[i] : CombineElements(combine, element, source[i]);
      if (!counts.empty()) ++counts[at];
    }
    if (combine != Combine::kMean) return;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 1) target[i] = MeanOf(target[i], counts[i]);
    }
  });
}

Shape ScatterVector(const Shape& shape) { return shape.rank() == 0 ? Shape{1} : shape; }

/// What all of them share: x, and the values that come to the places of an index.
class ScatterBase : public Layer {
 public:
  explicit ScatterBase(const LayerInit& init)
      : input_(init.Arg("input")),
        dim_(init.Arg("dim")),
        index_(init.Arg("index")),
        combine_(ParseCombine(init.Constant("reduce"))),
        include_self_(init.Arg("include_self") < 0 || init.Bool("include_self")),
        on_device_(init.device().type != DeviceType::kCpu) {
    if (!init.inputs().empty()) RequireReal(init.inputs()[0]->dtype);
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    if (dim_ >= 0 && !args[dim_].IsConcrete()) return {Value::Deferred()};
    Check(args);
    const Tensor& x = args.tensor(input_);
    RequireReal(x.dtype());
    return {Tensor::Meta(x.dtype(), x.shape())};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& x = args.tensor(input_);
    if (context.stream() != nullptr) {
      Tensor& output = outputs[0].AsTensor();
      CopyBytes(context, x.raw(), output.raw(), x.bytes());
      return ScatterOnDevice(*context.stream(), OnDevice(args), index(args), output);
    }
    const std::vector<int64_t> offsets = Offsets(args);
    const Tensor values = Values(context, args);
    Tensor& output = OutputTensor(outputs[0], x.dtype(), x.shape());
    CopyBytes(context, x.raw(), output.raw(), x.bytes());
    CombineAt(offsets, values, combine_, include_self_, output);
  }

  std::vector<Reuse> Reuses(const Args&) const override {
    return {{Reuse::kInPlace, input_, 0, 0}};
  }

 protected:
  virtual void Check(const Args& args) const = 0;
  /// Places in x, and for each the value that comes there (dense, of the dtype of x).
  virtual std::vector<int64_t> Offsets(const Args& args) const = 0;
  virtual Tensor Values(const Context& context, const Args& args) const = 0;
  /// The same for the GPU: lines along the axis.
  virtual DeviceScatter OnDevice(const Args& args) const = 0;

  /// Everything but the source: `index` steps through the index, 0 along axes that it lacks.
  DeviceScatter Lines(const Args& args, const Shape& covered, const Strided& index_view,
                      const Strided* source) const {
    const Strided x(ScatterVector(input(args).shape()));
    DeviceScatter call;
    call.combine = combine_;
    call.include_self = include_self_;
    const int axis = Axis(args);
    for (int i = 0; i < covered.rank(); ++i) {
      const DeviceScatter::Axis steps = {covered[i], x[i].stride, index_view[i].stride,
                                         source != nullptr ? (*source)[i].stride : 0};
      if (i == axis) {
        call.along = steps;
      } else {
        call.axes[static_cast<size_t>(call.rank++)] = steps;
      }
    }
    call.length = covered[axis];
    call.extent = x[axis].extent;
    return call;
  }
  static void SetNumber(DeviceScatter& call, const Value& number) {
    call.number = number.AsFloat();
    if (!number.IsFloat()) call.integer = number.AsInt();
  }
  void RequireReal(DType dtype) const {
    if (!on_device_ || !IsComplex(dtype)) return;
    throw Error(ErrorCode::kUnsupported, "is of complex numbers");
  }

  const Tensor& input(const Args& args) const { return args.tensor(input_); }
  const Tensor& index(const Args& args) const { return args.tensor(index_); }
  int Axis(const Args& args) const { return NormalizeAxis(args[dim_].AsInt(), input(args).rank()); }
  [[noreturn]] static void Misfit(const char* what, const Tensor& tensor, const Shape& x) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + " " + tensor.ToString() +
                                                 " does not fit shape " + x.ToString());
  }
  void CheckDType(const Args& args, const Tensor& values) const {
    if (values.dtype() == input(args).dtype()) return;
    throw Error(ErrorCode::kInvalidArgument, "expected a source of dtype " +
                                                 std::string(Name(input(args).dtype())) + ", got " +
                                                 values.ToString());
  }
  /// `count` copies of one number.
  static Tensor Filled(const Value& number, DType dtype, int64_t count) {
    Tensor values(dtype, {count});
    FillItems(values.raw(), ScalarBytes(number, dtype).data(), ItemSize(dtype), count);
    return values;
  }

  int input_, dim_, index_;
  Combine combine_;
  bool include_self_, on_device_;
};

/// scatter, scatter_add and scatter_reduce: the index has the rank of x and names one place an
/// element.
class ScatterLayer final : public ScatterBase {
 public:
  explicit ScatterLayer(const LayerInit& init) : ScatterBase(init), src_(init.Arg("src")) {}
  ScatterLayer(const LayerInit& init, Combine combine) : ScatterLayer(init) { combine_ = combine; }

 protected:
  void Check(const Args& args) const override {
    const Shape x = ScatterVector(input(args).shape());
    const Shape shape = ScatterVector(index(args).shape());
    const bool tensor = args[src_].IsTensor();
    const Shape source = tensor ? ScatterVector(args.shape(src_)) : shape;
    const int axis = Axis(args);
    const auto fits = [&](const Shape& other, int free_axis) {
      bool all = shape.rank() == other.rank();
      for (int i = 0; all && i < other.rank() && shape.elements() > 0; ++i) {
        all = i == free_axis || shape[i] <= other[i];
      }
      return all;
    };
    if (!fits(x, axis)) Misfit("an index", index(args), input(args).shape());
    if (!fits(source, -1)) Misfit("an index", index(args), source);
    if (tensor) CheckDType(args, args.tensor(src_));
  }

  std::vector<int64_t> Offsets(const Args& args) const override {
    return PlanGather(input(args).shape(), index(args), Axis(args));
  }

  DeviceScatter OnDevice(const Args& args) const override {
    const Shape covered = ScatterVector(index(args).shape());
    const bool tensor = args[src_].IsTensor();
    const Strided source(tensor ? ScatterVector(args.shape(src_)) : covered);
    DeviceScatter call = Lines(args, covered, Strided(covered), &source);
    if (tensor) {
      call.source = args.tensor(src_).raw();
    } else {
      SetNumber(call, args[src_]);
    }
    return call;
  }

  Tensor Values(const Context& context, const Args& args) const override {
    const Shape& shape = index(args).shape();
    if (!args[src_].IsTensor()) {
      return Filled(args[src_], input(args).dtype(), shape.elements());
    }
    // Of the source only the corner that the index covers counts.
    const Tensor& src = args.tensor(src_);
    const Shape extents = ScatterVector(shape);
    Strided corner(ScatterVector(src.shape()));
    for (int i = 0; i < corner.rank(); ++i) corner = corner.Sliced(i, 0, extents[i]);
    Tensor values(src.dtype(), shape);
    CopyStrided(context, ItemSize(src.dtype()), src.raw(), corner, values.raw());
    return values;
  }

 private:
  int src_;
};

/// index_add and its relatives: a vector of indices names whole slices of x.
class IndexWriteLayer final : public ScatterBase {
 public:
  IndexWriteLayer(const LayerInit& init, Combine combine)
      : ScatterBase(init), source_(init.Arg("source")), alpha_(init.Arg("alpha")) {
    if (combine != Combine::kReplace) combine_ = combine;
    if (on_device_ && alpha_ >= 0 && init.Constant("alpha").AsComplex() != 1.0) {
      throw Error(ErrorCode::kUnsupported, "has a factor");
    }
  }

 protected:
  void Check(const Args& args) const override {
    const Shape x = ScatterVector(input(args).shape());
    if (index(args).rank() > 1) Misfit("an index", index(args), input(args).shape());
    if (!args[source_].IsTensor() || args.tensor(source_).rank() == 0) return;
    Shape expected = x;
    expected[Axis(args)] = index(args).elements();
    CheckDType(args, args.tensor(source_));
    if (!(ScatterVector(args.shape(source_)) == expected)) {
      Misfit("a source", args.tensor(source_), input(args).shape());
    }
  }

  std::vector<int64_t> Offsets(const Args& args) const override {
    const Shape x = ScatterVector(input(args).shape());
    std::vector<int64_t> indices = ReadIndices(index(args));
    for (int64_t& i : indices) {
      if (i < 0 && i >= -x[Axis(args)]) i += x[Axis(args)];
    }
    return PlanSelect(x, Axis(args), std::move(indices)).AllOffsets();
  }

  DeviceScatter OnDevice(const Args& args) const override {
    Shape covered = ScatterVector(input(args).shape());
    const int axis = Axis(args);
    covered[axis] = index(args).elements();
    std::array<Strided::Axis, Shape::kMaxRank> steps{};
    for (int i = 0; i < covered.rank(); ++i) {
      steps[static_cast<size_t>(i)] = {covered[i], i == axis ? 1 : 0};
    }
    const Strided index_view =
        Strided::Of(std::span(steps).first(static_cast<size_t>(covered.rank())), 0);
    const Value& source = args[source_];
    const bool whole = source.IsTensor() && source.AsTensor().rank() > 0;
    const Strided dense(covered);
    DeviceScatter call = Lines(args, covered, index_view, whole ? &dense : nullptr);
    call.wraps = true;
    if (source.IsTensor()) {
      call.source = source.AsTensor().raw();
    } else {
      SetNumber(call, source);
    }
    return call;
  }

  Tensor Values(const Context&, const Args& args) const override {
    const DType dtype = input(args).dtype();
    const Value& source = args[source_];
    if (!source.IsTensor() || source.AsTensor().rank() == 0) {
      const Shape x = ScatterVector(input(args).shape());
      const int axis = Axis(args);
      const int64_t around = x.Product(0, axis) * x.Product(axis + 1, x.rank());
      return Filled(source, dtype, around * index(args).elements());
    }
    if (alpha_ < 0 || args[alpha_].AsComplex() == 1.0) return source.AsTensor();
    Tensor values = source.AsTensor().Clone();
    const Tensor factor = Filled(args[alpha_], dtype, 1);
    VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T scale = factor.data<T>()[0];
      for (int64_t i = 0; i < values.elements(); ++i) {
        values.data<T>()[i] = CombineElements(Combine::kProduct, values.data<T>()[i], scale);
      }
    });
    return values;
  }

 private:
  int source_, alpha_;
};

/// put: x as if it were flat.
class PutLayer final : public ScatterBase {
 public:
  explicit PutLayer(const LayerInit& init) : ScatterBase(init), source_(init.Arg("source")) {
    if (init.Bool("accumulate")) combine_ = Combine::kSum;
    if (on_device_) throw Error(ErrorCode::kUnsupported, "writes one place after another");
  }

 protected:
  void Check(const Args& args) const override {
    CheckDType(args, args.tensor(source_));
    if (args.tensor(source_).elements() != index(args).elements()) {
      Misfit("a source", args.tensor(source_), index(args).shape());
    }
  }
  std::vector<int64_t> Offsets(const Args& args) const override {
    std::vector<int64_t> offsets = ReadIndices(index(args));
    const int64_t elements = input(args).elements();
    for (int64_t& offset : offsets) {
      if (offset < 0 && offset >= -elements) offset += elements;
      CheckIndex(offset, elements);
    }
    return offsets;
  }
  Tensor Values(const Context&, const Args& args) const override { return args.tensor(source_); }
  DeviceScatter OnDevice(const Args&) const override {
    throw Error(ErrorCode::kUnsupported, "has no lines");
  }

 private:
  int source_;
};

constexpr DTypeSet kScattered = kReals | DType::kC64 | DType::kC128;

std::unique_ptr<Layer> CreateScatterAdd(const LayerInit& init) {
  return std::make_unique<ScatterLayer>(init, Combine::kSum);
}

LayerCreator CreateIndexWrite(Combine combine) {
  return
      [combine](const LayerInit& init) { return std::make_unique<IndexWriteLayer>(init, combine); };
}

OperatorSchema IndexWriteSchema(const char* name, const char* doc) {
  return OperatorSchema({std::string("torch.") + name, std::string("aten::") + name}, doc)
      .Tensor("input", kScattered)
      .Int("dim")
      .Dynamic()
      .Tensor("index", kIndexTypes)
      .Tensor("source", kScattered);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(scatter) {
  using namespace oort;
  registry.Add(OperatorSchema({"torch.scatter", "aten::scatter"},
                              "input with output[index[i][j]][j] = src[i][j] for dim 0, and so on; "
                              "src may be a number; reduce=add or multiply combines with what is "
                              "there")
                   .Tensor("input", kScattered)
                   .Int("dim")
                   .Dynamic()
                   .Tensor("index", kIndexTypes)
                   .Tensor("src", kScattered)
                   .String("reduce")
                   .Nullable()
                   .OneOf({"add", "multiply"}),
               Create<ScatterLayer>());
  registry.Add(OperatorSchema({"torch.scatter_add"},
                              "input with output[index[i][j]][j] += src[i][j] for dim 0, and so on")
                   .Tensor("input", kScattered)
                   .Int("dim")
                   .Dynamic()
                   .Tensor("index", kIndexTypes)
                   .Tensor("src", kScattered),
               &CreateScatterAdd);
  registry.Add(OperatorSchema({"torch.scatter_reduce", "aten::scatter_reduce"},
                              "input with src combined into the places that the index names")
                   .Tensor("input", kScattered)
                   .Int("dim")
                   .Dynamic()
                   .Tensor("index", kIndexTypes)
                   .Tensor("src", kScattered)
                   .String("reduce")
                   .OneOf({"sum", "prod", "mean", "amax", "amin"})
                   .Bool("include_self", true),
               Create<ScatterLayer>());
  registry.Add(
      IndexWriteSchema("index_add", "input with alpha * source added to the slices that are named")
          .Number("alpha", Value(1)),
      CreateIndexWrite(Combine::kSum));
  registry.Add(IndexWriteSchema("index_copy", "input with the slices that are named replaced"),
               CreateIndexWrite(Combine::kReplace));
  registry.Add(
      IndexWriteSchema("index_fill", "input with the slices that are named set to a value"),
      CreateIndexWrite(Combine::kReplace));
  registry.Add(IndexWriteSchema("index_reduce",
                                "input with source combined into the slices that "
                                "are named")
                   .String("reduce")
                   .OneOf({"prod", "mean", "amax", "amin"})
                   .Bool("include_self", true),
               CreateIndexWrite(Combine::kReplace));
  registry.Add(OperatorSchema({"torch.put", "aten::put"},
                              "input, read as flat, with source written to the places of index")
                   .Tensor("input", kScattered)
                   .Tensor("index", kIndexTypes)
                   .Tensor("source", kScattered)
                   .Bool("accumulate", false),
               Create<PutLayer>());
}
