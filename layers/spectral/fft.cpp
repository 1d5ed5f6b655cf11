// SPDX-License-Identifier: MIT
// The torch.fft family.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/shape/strided_layer.h"
#include "layers/spectral/fft_lines.h"

namespace oort {
namespace {

constexpr DTypeSet kFftReals = DType::kF32 | DType::kF64 | kIntegers | DType::kBool;
constexpr DTypeSet kFftAny = kFftReals | DType::kC64 | DType::kC128;

enum class FftFamily { kComplex, kRealInput, kRealOutput };

/// What the last transformed axis of a family is to be.
struct FftForm {
  FftFamily family;
  bool inverse;
};

/// The axes to transform, each with its number of points, in the order given.
struct FftAxes {
  std::vector<int> axes;
  std::vector<int64_t> points;
  double scale = 1;
};

bool IsDouble(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128; }

/// An array and how its elements lie, in numbers.
template <typename T>
struct FftArray {
  T* data;
  Shape shape;
  bool real;

  int64_t Stride(int axis) const { return shape.Product(axis + 1, shape.rank()) * (real ? 1 : 2); }
};

/// The lines along `axis`; an axis that the source has shorter is filled up with zeros.
template <typename T>
FftJob<T> MakeFftJob(const FftArray<const T>& source, const FftArray<T>& target, int axis) {
  FftJob<T> job;
  job.source = source.data;
  job.source_real = source.real;
  job.source_step = source.Stride(axis);
  job.source_count = source.shape[axis];
  job.target = target.data;
  job.target_step = target.Stride(axis);
  for (int a = 0; a < source.shape.rank(); ++a) {
    if (a == axis) continue;
    job.axes[static_cast<size_t>(job.axis_count++)] = {target.shape[a], source.shape[a],
                                                       source.Stride(a), target.Stride(a)};
  }
  return job;
}

class FftLayer final : public Layer {
 public:
  FftLayer(const LayerInit& init, FftForm form)
      : form_(form),
        isa_(init.isa()),
        input_(init.Arg("input")),
        points_(std::max(init.Arg("n"), init.Arg("s"))),
        dim_(init.Arg("dim")),
        norm_(init.Arg("norm")) {}

  std::vector<Value> Infer(const Args& args) const override {
    if (!args[points_].IsConcrete()) return {Value::Deferred()};
    return {Tensor::Meta(ResultType(args), OutputShape(args, Resolve(args)))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const FftAxes axes = Resolve(args);
    Tensor& output = OutputTensor(outputs[0], ResultType(args), OutputShape(args, axes));
    if (output.elements() == 0) return;
    if (IsDouble(output.dtype())) {
      Transform<double>(context, args, axes, output);
    } else {
      Transform<float>(context, args, axes, output);
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    if (!args[points_].IsConcrete()) return 0;
    const FftAxes axes = Resolve(args);
    if (OutputShape(args, axes).elements() == 0) return 0;
    return IsDouble(args.tensor(input_).dtype()) ? WorkspaceOf<double>(args, axes, threads)
                                                 : WorkspaceOf<float>(args, axes, threads);
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (!args[points_].IsConcrete()) return cost;
    const FftAxes axes = Resolve(args);
    const int64_t elements = IntermediateShape(args, axes).elements();
    for (size_t i = 0; i < axes.points.size(); ++i) {
      cost.flops += FftFlops(axes.points[i], elements / Stored(axes, i));
    }
    return cost;
  }

 private:
  DType ResultType(const Args& args) const {
    const bool wide = IsDouble(args.tensor(input_).dtype());
    if (form_.family == FftFamily::kRealOutput) return wide ? DType::kF64 : DType::kF32;
    return wide ? DType::kC128 : DType::kC64;
  }

  FftAxes Resolve(const Args& args) const {
    const Shape& shape = args.shape(input_);
    FftAxes result;
    result.axes = ResolveAxes(args);
    if (result.axes.empty() && form_.family != FftFamily::kComplex) {
      throw Error(ErrorCode::kInvalidArgument, "expected at least one axis to transform");
    }
    std::vector<int64_t> wanted;
    if (args.Has(points_)) wanted = args[points_].AsInts();
    const bool several = !IsSingle(args);
    double all = 1;
    for (size_t i = 0; i < result.axes.size(); ++i) {
      const int64_t extent = shape[result.axes[i]];
      const bool last = i + 1 == result.axes.size();
      const bool given = i < wanted.size() && !(several && wanted[i] == -1);
      const bool half = last && form_.family == FftFamily::kRealOutput;
      const int64_t points = given ? wanted[i] : half ? 2 * (extent - 1) : extent;
      CheckFftLength(points);
      result.points.push_back(points);
      all *= static_cast<double>(points);
    }
    result.scale = Scale(args, all);
    return result;
  }

  /// torch.fft.fft and its like take one axis and a plain number.
  bool IsSingle(const Args& args) const { return args[dim_].IsInt(); }

  std::vector<int> ResolveAxes(const Args& args) const {
    const int rank = args.shape(input_).rank();
    const std::vector<int64_t> dims = args.Has(dim_) ? args[dim_].AsInts() : std::vector<int64_t>{};
    const auto wanted =
        args.Has(points_) ? static_cast<int64_t>(args[points_].AsInts().size()) : int64_t{-1};
    std::vector<int> axes;
    if (args.Has(dim_)) {
      if (rank == 0 && !dims.empty()) {
        throw Error(ErrorCode::kInvalidArgument, "expected an axis to transform, got rank 0");
      }
      if (wanted >= 0 && wanted != static_cast<int64_t>(dims.size())) {
        throw Error(ErrorCode::kInvalidArgument,
                    "expected as many numbers of points as axes, got " + std::to_string(wanted) +
                        " for " + std::to_string(dims.size()));
      }
      const ScratchVector<int> given = NormalizeAxes(args[dim_], rank);
      return {given.begin(), given.end()};
    }
    if (wanted > rank) {
      throw Error(ErrorCode::kInvalidArgument, "expected at most " + std::to_string(rank) +
                                                   " numbers of points, got " +
                                                   std::to_string(wanted));
    }
    for (int axis = wanted < 0 ? 0 : rank - static_cast<int>(wanted); axis < rank; ++axis) {
      axes.push_back(axis);
    }
    return axes;
  }

  double Scale(const Args& args, double points) const {
    const std::string norm = args.Has(norm_) ? args[norm_].AsString() : "backward";
    if (norm == "ortho") return 1 / std::sqrt(points);
    return (norm == "forward") != form_.inverse ? 1 / points : 1;
  }

  /// What is stored of axis i of `axes` while it is complex.
  int64_t Stored(const FftAxes& axes, size_t i) const {
    const bool last = i + 1 == axes.axes.size();
    return last && form_.family != FftFamily::kComplex ? axes.points[i] / 2 + 1 : axes.points[i];
  }

  Shape IntermediateShape(const Args& args, const FftAxes& axes) const {
    Shape shape = args.shape(input_);
    for (size_t i = 0; i < axes.axes.size(); ++i) shape[axes.axes[i]] = Stored(axes, i);
    return shape;
  }

  Shape OutputShape(const Args& args, const FftAxes& axes) const {
    Shape shape = IntermediateShape(args, axes);
    if (form_.family == FftFamily::kRealOutput) shape[axes.axes.back()] = axes.points.back();
    return shape;
  }

  // The axes are transformed one after another: the last one first, where that side is real (or may
  // be), and last, where the result is real.
  size_t Order(const FftAxes& axes, size_t pass) const {
    const size_t count = axes.axes.size();
    if (form_.family == FftFamily::kRealOutput) return pass;
    return pass == 0 ? count - 1 : pass - 1;
  }

  FftKind KindOf(const FftAxes& axes, size_t pass, bool real) const {
    const bool last = pass + 1 == axes.axes.size();
    if (form_.family == FftFamily::kRealOutput && last) return FftKind::kComplexToReal;
    if (form_.family == FftFamily::kRealInput && pass == 0) return FftKind::kRealToComplex;
    return real ? FftKind::kRealToFull : FftKind::kComplex;
  }

  bool NeedsIntermediate(const FftAxes& axes) const {
    return form_.family == FftFamily::kRealOutput && axes.axes.size() > 1;
  }

  /// The memory of one call: the input as floats, the complex array before the last axis of a
  /// real result, and that of the transforms.
  template <typename T>
  struct Memory {
    size_t converted = 0, intermediate = 0, runner = 0;
  };

  template <typename T>
  Memory<T> MemoryOf(const Args& args, const FftAxes& axes, int threads) const {
    const Tensor& input = args.tensor(input_);
    Memory<T> memory;
    if (IsInteger(input.dtype()) || input.dtype() == DType::kBool) {
      memory.converted = Bytes<T>(input.elements());
    }
    const Shape middle = IntermediateShape(args, axes);
    if (NeedsIntermediate(axes)) {
      memory.intermediate = Bytes<T>(CheckedMultiply<int64_t>(2, middle.elements()));
    }
    bool real = !IsComplex(input.dtype());
    for (size_t pass = 0; pass < axes.axes.size(); ++pass) {
      const size_t i = Order(axes, pass);
      const int64_t lines = middle.elements() / Stored(axes, i);
      const FftRunner<T> runner(isa_, KindOf(axes, pass, real), axes.points[i], lines, threads);
      memory.runner = std::max(memory.runner, runner.workspace());
      real = false;
    }
    return memory;
  }

  template <typename T>
  static size_t Bytes(int64_t count) {
    return AlignUp(CheckedMultiply(static_cast<size_t>(count), sizeof(T)), 64);
  }

  template <typename T>
  size_t WorkspaceOf(const Args& args, const FftAxes& axes, int threads) const {
    const Memory<T> memory = MemoryOf<T>(args, axes, threads);
    return CheckedAdd(CheckedAdd(memory.converted, memory.intermediate), memory.runner);
  }

  template <typename T>
  void Transform(const Context& context, const Args& args, const FftAxes& axes,
                 Tensor& output) const {
    const Tensor& input = args.tensor(input_);
    if (axes.axes.empty()) return CopyElements(input, output);
    const Memory<T> memory = MemoryOf<T>(args, axes, context.threads());
    std::byte* const workspace = context.workspace();
    const auto source = reinterpret_cast<const T*>(input.raw());
    FftArray<const T> from{source, input.shape(), !IsComplex(input.dtype())};
    if (memory.converted > 0) {
      Tensor floats = Tensor::Borrow(workspace, kDTypeOf<T>, input.shape());
      CopyElements(input, floats);
      from.data = floats.data<T>();
    }
    const auto result = reinterpret_cast<T*>(output.raw());
    FftArray<T> to{result, IntermediateShape(args, axes), false};
    if (NeedsIntermediate(axes)) to.data = reinterpret_cast<T*>(workspace + memory.converted);
    T* const scratch = reinterpret_cast<T*>(workspace + memory.converted + memory.intermediate);
    for (size_t pass = 0; pass < axes.axes.size(); ++pass) {
      const size_t i = Order(axes, pass);
      const FftKind kind = KindOf(axes, pass, from.real);
      if (kind == FftKind::kComplexToReal) to = {result, output.shape(), true};
      FftJob<T> job = MakeFftJob(from, to, axes.axes[i]);
      job.kind = kind;
      job.n = axes.points[i];
      job.inverse = form_.inverse;
      if (pass + 1 == axes.axes.size()) job.scale = axes.scale;
      const FftRunner<T> runner(isa_, kind, job.n, job.lines(), context.threads());
      runner.Run(job, scratch);
      from = {to.data, to.shape, to.real};
    }
  }

  FftForm form_;
  Isa isa_;
  int input_, points_, dim_, norm_;
};

void AddFft(LayerRegistry& registry, const std::string& name, FftForm form,
            const std::string& doc) {
  const DTypeSet dtypes = form.family == FftFamily::kRealInput ? kFftReals : kFftAny;
  const LayerCreator creator = [form](const LayerInit& init) {
    return std::make_unique<FftLayer>(init, form);
  };
  const std::vector<std::string> norms = {"backward", "forward", "ortho"};
  const std::string pads = "; `n` points: the axis is cut or filled up with zeros";
  registry.Add(
      OperatorSchema({"torch.fft." + name, "aten::fft_" + name}, doc + " along an axis" + pads)
          .Tensor("input", dtypes)
          .Int("n")
          .Nullable()
          .Dynamic()
          .Int("dim", -1)
          .String("norm")
          .Nullable()
          .OneOf(norms),
      creator);
  for (const std::string suffix : {"2", "n"}) {
    OperatorSchema schema({"torch.fft." + name + suffix, "aten::fft_" + name + suffix},
                          doc + " along several axes; `s` points, -1: as many as there are");
    schema.Tensor("input", dtypes).Ints("s").Nullable().Dynamic();
    if (suffix == "2") {
      schema.Ints("dim", -1, Value(Value::List{-2, -1}));
    } else {
      schema.Ints("dim").Nullable();
    }
    schema.String("norm").Nullable().OneOf(norms);
    registry.Add(schema, creator);
  }
}

}  // namespace
}  // namespace oort

OORT_LAYERS(fft) {
  using namespace oort;
  using enum FftFamily;
  AddFft(registry, "fft", {kComplex, false}, "Fourier transform");
  AddFft(registry, "ifft", {kComplex, true}, "Inverse Fourier transform");
  AddFft(registry, "rfft", {kRealInput, false}, "Fourier transform of real numbers, first half,");
  AddFft(registry, "irfft", {kRealOutput, true},
         "Inverse Fourier transform to real numbers from the first half");
  AddFft(registry, "hfft", {kRealOutput, false},
         "Fourier transform to real numbers from the first half of symmetric ones");
  AddFft(registry, "ihfft", {kRealInput, true},
         "Inverse Fourier transform of real numbers, first half,");
}
