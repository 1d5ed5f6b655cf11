// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "layers/pooling/adaptive.h"
#include "layers/resize/antialias.h"
#include "layers/resize/resize_kernels.h"

namespace oort {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Copies elements of any type that has the size of T.
template <typename T>
void CopyNearest(const Context& context, const ResizeGeometry& geometry,
                 const std::array<std::vector<int64_t>, 3>& from, const T* in, T* out) {
  const int64_t rows = geometry.out_rows(), width = geometry.axes[2].out;
  const int64_t* columns = from[2].data();
  context.ParallelFor(geometry.planes * rows, 8192 / width + 1, [&](int64_t begin, int64_t end) {
    const T* previous = nullptr;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t d = r % rows / geometry.axes[1].out, h = r % geometry.axes[1].out;
      const T* row = in + r / rows * geometry.in_plane() +
                     (from[0][static_cast<size_t>(d)] * geometry.axes[1].in +
                      from[1][static_cast<size_t>(h)]) *
                         geometry.axes[2].in;
      T* to = out + r * width;
      if (row == previous) {
        std::copy(to - width, to, to);
      } else {
        for (int64_t i = 0; i < width; ++i) to[i] = row[columns[i]];
      }
      previous = row;
    }
  });
}

/// Weighted sums: first along the input rows around an output row, then of these rows. Output rows
/// that follow each other share most input rows, so the sums along them are kept.
template <typename T>
class Blender {
 public:
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  Blender(const ResizeGeometry& geometry, ResizeMode mode, bool align_corners,
          const ResizeKernels& kernels)
      : geometry_(geometry),
        depth_(geometry.axes[0], mode, align_corners),
        height_(geometry.axes[1], mode, align_corners),
        width_(geometry.axes[2], mode, align_corners),
        kernels_(kernels) {}

  void Run(const Context& context, const T* in, T* out) const {
    const int64_t rows = geometry_.out_rows(), width = geometry_.axes[2].out;
    context.ParallelFor(geometry_.planes * rows, 4096 / width + 1, [&](int64_t begin, int64_t end) {
      RowCache cache(depth_.taps * height_.taps, width);
      for (int64_t r = begin; r < end; ++r) {
        BlendRow(in + r / rows * geometry_.in_plane(), r % rows, cache, out + r * width);
      }
    });
  }

 private:
  static constexpr size_t kMaxTaps = 16;

  /// Rows that are resized along the width already, by the input rows that they come from.
  class RowCache {
   public:
    RowCache(int slots, int64_t width)
        : width_(static_cast<size_t>(width)),
          keys_(static_cast<size_t>(slots), nullptr),
          rows_(keys_.size() * width_) {}
    /// The row for `key`, and whether it must be filled; `needed` rows are not given away.
    std::pair<Real*, bool> Get(const T* key, std::span<const T* const> needed) {
      const auto found = std::find(keys_.begin(), keys_.end(), key);
      if (found != keys_.end()) return {Row(found), false};
      const auto free = std::find_if(keys_.begin(), keys_.end(), [&](const T* held) {
        return std::find(needed.begin(), needed.end(), held) == needed.end();
      });
      *free = key;
      return {Row(free), true};
    }

   private:
    Real* Row(typename std::vector<const T*>::iterator slot) {
      return rows_.data() + static_cast<size_t>(slot - keys_.begin()) * width_;
    }
    size_t width_;
    std::vector<const T*> keys_;
    std::vector<Real> rows_;
  };

  void BlendRow(const T* plane, int64_t row, RowCache& cache, T* out) const {
    const int64_t height = geometry_.axes[1].out, d = row / height, h = row % height;
    std::array<const T*, kMaxTaps> inputs;
    std::array<const Real*, kMaxTaps> resized;
    std::array<Real, kMaxTaps> weights;
    size_t taps = 0;
    for (int i = 0; i < depth_.taps; ++i) {
      const size_t a = static_cast<size_t>(i * geometry_.axes[0].out + d);
      for (int j = 0; j < height_.taps; ++j, ++taps) {
        const size_t b = static_cast<size_t>(j * height + h);
        inputs[taps] = plane + (depth_.index[a] * geometry_.axes[1].in + height_.index[b]) *
                                   geometry_.axes[2].in;
        weights[taps] = depth_.weight[a] * height_.weight[b];
      }
    }
    for (size_t t = 0; t < taps; ++t) {
      const auto [to, fill] = cache.Get(inputs[t], {inputs.data(), taps});
      if (fill) BlendColumns(inputs[t], to);
      resized[t] = to;
    }
    const int64_t count = geometry_.axes[2].out;
    if constexpr (std::is_same_v<T, float>) {
      kernels_.blend_rows(resized.data(), weights.data(), static_cast<int>(taps), out, count);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        Real sum = 0;
        for (size_t t = 0; t < taps; ++t) sum += resized[t][i] * weights[t];
        out[i] = static_cast<T>(sum);
      }
    }
  }

  void BlendColumns(const T* row, Real* to) const {
    const int64_t count = geometry_.axes[2].out;
    if constexpr (std::is_same_v<T, float>) {
      kernels_.blend_columns(row, width_.index.data(), width_.weight.data(), width_.taps, to,
                             count);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        Real sum = 0;
        for (int t = 0; t < width_.taps; ++t) {
          const size_t entry = static_cast<size_t>(t * count + i);
          sum += static_cast<Real>(row[width_.index[entry]]) * width_.weight[entry];
        }
        to[i] = sum;
      }
    }
  }

  const ResizeGeometry& geometry_;
  AxisTaps<Real> depth_, height_, width_;
  const ResizeKernels& kernels_;
};

class Interpolate : public Layer {
 public:
  /// `mode` overrides the parameter of that name.
  Interpolate(const LayerInit& init, const char* mode, bool align_corners, bool antialias)
      : size_(init.Arg("size")),
        scale_factor_(init.Arg("scale_factor")),
        axis_factors_{init.Arg("scales_d"), init.Arg("scales_h"), init.Arg("scales_w")},
        mode_name_(mode != nullptr ? mode : init.String("mode")),
        align_corners_(align_corners),
        align_corners_arg_(init.Arg("align_corners")),
        antialias_(antialias),
        isa_(init.isa()),
        kernels_(ResizeKernelsFor(init.isa())) {
    const auto flag = [&](const char* name) {
      const Value& value = init.Constant(name);
      return !value.IsNone() && value.AsBool();
    };
    recompute_ = flag("recompute_scale_factor");
    antialias_ = antialias_ || flag("antialias");
    mode_ = mode_name_ == "nearest"         ? ResizeMode::kNearest
            : mode_name_ == "nearest-exact" ? ResizeMode::kNearestExact
            : mode_name_ == "area"          ? ResizeMode::kArea
            : mode_name_ == "bicubic"       ? ResizeMode::kCubic
                                            : ResizeMode::kLinear;
    const bool copies = mode_ == ResizeMode::kNearest || mode_ == ResizeMode::kNearestExact ||
                        mode_ == ResizeMode::kArea;
    if (copies && (align_corners_ || flag("align_corners"))) {
      Fail("align_corners=True does not go with mode " + mode_name_);
    }
    if (antialias_ && mode_name_ != "bilinear" && mode_name_ != "bicubic") {
      Fail("antialias=True takes mode bilinear or bicubic, got " + mode_name_);
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    if (dtype == DType::kU8 && !Copies()) {
      throw Error(ErrorCode::kUnsupported, "mode " + mode_name_ + " does not take dtype u8");
    }
    return {Tensor::Meta(dtype, Geometry(args).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    const ResizeGeometry geometry = Geometry(args);
    if (output.elements() == 0) return;
    if (Copies()) return ForwardNearest(context, geometry, input, output);
    if (mode_ == ResizeMode::kArea) {
      const int rank = input.rank() - 2;
      const AdaptiveGeometry windows =
          AdaptTo(input.shape(), Value::Ints(output.shape().dims().subspan(2)), rank);
      return AdaptiveAverage(context, isa_, windows, input, output);
    }
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        if (antialias_) {
          ResizeAntialiased(context, geometry, mode_, AlignCorners(args), kernels_, input.data<T>(),
                            output.data<T>());
        } else {
          Blender<T>(geometry, mode_, AlignCorners(args), kernels_)
              .Run(context, input.data<T>(), output.data<T>());
        }
      }
    });
  }

  size_t Workspace(const Args& args, int) const override {
    return antialias_ ? AntialiasWorkspace(Geometry(args), args.tensor(0).dtype()) : 0;
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (Copies()) return cost;
    // One axis after the other: a product and a sum for each tap.
    const Tensor &input = args.tensor(0), &output = outputs[0].AsTensor();
    cost.flops = mode_ == ResizeMode::kArea
                     ? static_cast<double>(input.elements())
                     : static_cast<double>(output.elements()) * (input.rank() - 2) *
                           (mode_ == ResizeMode::kCubic ? 8 : 4);
    return cost;
  }

 private:
  bool AlignCorners(const Args& args) const {
    return align_corners_ || (args.Has(align_corners_arg_) && args[align_corners_arg_].AsBool());
  }

  bool Copies() const {
    return mode_ == ResizeMode::kNearest || mode_ == ResizeMode::kNearestExact;
  }

  void CheckRank(const Shape& input) const {
    const int wanted = mode_name_ == "linear"                                ? 3
                       : mode_name_ == "bilinear" || mode_name_ == "bicubic" ? 4
                       : mode_name_ == "trilinear"                           ? 5
                                                                             : 0;
    if (wanted != 0 ? input.rank() != wanted : input.rank() < 3 || input.rank() > 5) {
      Fail("mode " + mode_name_ + " takes an input of rank " +
           (wanted != 0 ? std::to_string(wanted) : "3 to 5") + ", got " + input.ToString());
    }
  }

  /// One value for each of `count` axes, from a number or a list.
  template <typename Number>
  static std::vector<Number> Spread(std::vector<Number> values, int count, const char* what) {
    if (values.size() == 1) values.resize(static_cast<size_t>(count), values[0]);
    if (values.size() != static_cast<size_t>(count)) {
      Fail(std::string(what) + " has " + std::to_string(values.size()) + " values for " +
           std::to_string(count) + " spatial axes");
    }
    return values;
  }

  static int64_t Scaled(int64_t extent, double factor) {
    if (!(factor > 0)) Fail("scale_factor " + Value(factor).ToString() + " is not above zero");
    const double scaled = std::floor(static_cast<double>(extent) * factor);
    if (!(scaled < 0x1p53)) Fail("scale_factor " + Value(factor).ToString() + " is too large");
    return static_cast<int64_t>(scaled);
  }

  ResizeGeometry Geometry(const Args& args) const {
    const Shape& input = args.shape(0);
    CheckRank(input);
    const int rank = input.rank() - 2;
    std::vector<int64_t> sizes;
    std::vector<double> factors;
    if (args.Has(size_)) {
      sizes = Spread(args[size_].AsInts(), rank, "size");
    } else if (args.Has(scale_factor_)) {
      factors = Spread(args[scale_factor_].AsFloats(), rank, "scale_factor");
    } else if (args.Has(axis_factors_[1])) {  // an ATen form with all factors in one list
      factors = Spread(args[axis_factors_[1]].AsFloats(), rank, "scale_factors");
    } else {
      Fail("expected size or scale_factor");
    }
    ResizeGeometry geometry;
    geometry.planes = input.Product(0, 2);
    geometry.output = input;
    for (int i = 0; i < rank; ++i) {
      const size_t a = static_cast<size_t>(i);
      ResizeAxis& axis = geometry.axes[static_cast<size_t>(3 - rank + i)];
      axis.in = input[i + 2];
      axis.out = sizes.empty() ? Scaled(axis.in, factors[a]) : sizes[a];
      if (!factors.empty() && !recompute_) axis.factor = factors[a];
      // The ATen form gives the size and, beside it, the factor that it came from.
      if (const int arg = axis_factors_[static_cast<size_t>(3 - rank + i)];
          factors.empty() && args.Has(arg)) {
        axis.factor = args[arg].AsFloat();
        Scaled(axis.in, axis.factor);
      }
      if (axis.in <= 0 || axis.out <= 0) {
        Fail("spatial extents must be above zero: input " + input.ToString() + ", axis " +
             std::to_string(i + 2) + " to " + std::to_string(axis.out));
      }
      geometry.output[i + 2] = axis.out;
    }
    geometry.output.elements();  // throws where the output is too large to exist
    return geometry;
  }

  void ForwardNearest(const Context& context, const ResizeGeometry& geometry, const Tensor& input,
                      Tensor& output) const {
    const bool exact = mode_ == ResizeMode::kNearestExact;
    std::array<std::vector<int64_t>, 3> from;
    for (size_t i = 0; i < 3; ++i) {
      from[i] = input.dtype() == DType::kF64 ? NearestIndices<double>(geometry.axes[i], exact)
                                             : NearestIndices<float>(geometry.axes[i], exact);
    }
    VisitItemSize(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      CopyNearest(context, geometry, from, reinterpret_cast<const T*>(input.raw()),
                  reinterpret_cast<T*>(output.raw()));
    });
  }

  int size_, scale_factor_;
  std::array<int, 3> axis_factors_;  // of the ATen form; -1 where there is none
  std::string mode_name_;
  ResizeMode mode_;
  bool align_corners_;
  int align_corners_arg_;
  bool antialias_;
  bool recompute_ = false;
  Isa isa_;
  const ResizeKernels& kernels_;
};

LayerCreator CreateInterpolate(const char* mode, bool align_corners, bool antialias = false) {
  return [=](const LayerInit& init) {
    return std::make_unique<Interpolate>(init, mode, align_corners, antialias);
  };
}

OperatorSchema ResizeSchema(std::vector<std::string> types, std::string doc) {
  return OperatorSchema(std::move(types), std::move(doc))
      .Tensor("input", kFloats | DType::kU8)
      .Ints("size")
      .Nullable()
      .Dynamic()
      .Floats("scale_factor")
      .Nullable()
      .Dynamic();
}

/// aten::upsample_nearest2d(input, output_size, scales_h, scales_w) and its relatives.
OperatorSchema AtenSchema(const std::string& prefix, int rank) {
  OperatorSchema schema({"aten::" + prefix + std::to_string(rank) + "d"},
                        "Resizes an input by repeating its nearest elements.");
  schema.Tensor("input", kFloats | DType::kU8).Ints("size").Dynamic();
  if (rank > 2) schema.Float("scales_d").Nullable().Dynamic();
  if (rank > 1) schema.Float("scales_h").Nullable().Dynamic();
  schema.Float("scales_w").Nullable().Dynamic();
  return schema;
}

/// aten::_upsample_bilinear2d_aa(input, output_size, align_corners, scales_h, scales_w), or
/// (input, output_size or None, align_corners, scale_factors).
OperatorSchema AntialiasSchema(const std::string& mode) {
  return OperatorSchema({"aten::_upsample_" + mode + "2d_aa"},
                        "Resizes an image, with a filter as wide as what becomes one element.")
      .Tensor("input", kFloats)
      .Ints("size")
      .Nullable()
      .Dynamic()
      .Bool("align_corners", false)
      .Dynamic()
      .Floats("scales_h")
      .Nullable()
      .Dynamic()
      .Float("scales_w")
      .Nullable()
      .Dynamic();
}

}  // namespace
}  // namespace oort

OORT_LAYERS(interpolate) {
  registry.Add(
      ResizeSchema({"F.interpolate", "F.upsample", "nn.Upsample"},
                   "Resizes the spatial axes of an input.")
          .String("mode", "nearest")
          .OneOf({"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"})
          .Bool("align_corners")
          .Nullable()
          .Bool("recompute_scale_factor")
          .Nullable()
          .Bool("antialias", false),
      CreateInterpolate(nullptr, false));
  registry.Add(ResizeSchema({"F.upsample_nearest", "nn.UpsamplingNearest2d"},
                            "Resizes an input by repeating its nearest elements."),
               CreateInterpolate("nearest", false));
  registry.Add(ResizeSchema({"F.upsample_bilinear", "nn.UpsamplingBilinear2d"},
                            "Resizes an image linearly, its corners staying in place."),
               CreateInterpolate("bilinear", true));
  for (int rank = 1; rank <= 3; ++rank) {
    registry.Add(AtenSchema("upsample_nearest", rank), CreateInterpolate("nearest", false));
    registry.Add(AtenSchema("_upsample_nearest_exact", rank),
                 CreateInterpolate("nearest-exact", false));
  }
  registry.Add(AntialiasSchema("bilinear"), CreateInterpolate("bilinear", false, true));
  registry.Add(AntialiasSchema("bicubic"), CreateInterpolate("bicubic", false, true));
}
