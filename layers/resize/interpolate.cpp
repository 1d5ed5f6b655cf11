// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/dispatch.h"
#include "layers/nhwc_role.h"
#include "layers/pooling/adaptive.h"
#include "layers/resize/antialias.h"
#include "layers/resize/device_resize.h"
#include "layers/resize/resize_bytes.h"
#include "layers/resize/resize_kernels.h"
#include "layers/resize/resize_params.h"

namespace oort {
namespace {

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

/// Separable interpolation: first along the input rows around an output row, then between these
/// rows. Consecutive output rows share most input rows, so the horizontal results are kept.
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
      : params_(init, mode, align_corners, antialias),
        isa_(init.isa()),
        kernels_(ResizeKernelsFor(init.isa())) {
    if (!params_.Copies()) RequireFloatsOnDevice(init);
    if (params_.antialias() && init.device().type != DeviceType::kCpu) {
      throw Error(ErrorCode::kUnsupported, "is antialiased");
    }
  }

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    const DType dtype = args.tensor(0).dtype();
    const std::string& mode = params_.mode_name();
    const bool blends_u8 = mode == "bilinear" || mode == "bicubic";
    const bool takes = IsFloat(dtype) || params_.Copies() || (dtype == DType::kU8 && blends_u8);
    if (!takes) {
      throw Error(ErrorCode::kUnsupported,
                  "mode " + mode + " does not take dtype " + std::string(Name(dtype)));
    }
    return {Tensor::Meta(dtype, Geometry(args).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    const ResizeGeometry geometry = Geometry(args);
    if (output.elements() == 0) return;
    if (context.stream() != nullptr && params_.mode() != ResizeMode::kArea) {
      const bool align = !params_.Copies() && params_.AlignCorners(args);
      return ResizeOnDevice(*context.stream(), geometry, params_.mode(), align, input, output);
    }
    if (params_.Copies()) return ForwardNearest(context, geometry, input, output);
    if (params_.mode() == ResizeMode::kArea) {
      const int rank = input.rank() - 2;
      const AdaptiveGeometry windows =
          AdaptTo(input.shape(), Value::Ints(output.shape().dims().subspan(2)), rank);
      return AdaptiveAverage(context, isa_, windows, input, output);
    }
    if (input.dtype() == DType::kU8) {
      return ResizeBytes(context, geometry, params_.mode(), params_.AlignCorners(args),
                         params_.antialias(), input.data<uint8_t>(), output.data<uint8_t>());
    }
    VisitDType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (kIsHalf<T> || std::is_floating_point_v<T>) {
        if (params_.antialias()) {
          ResizeAntialiased(context, geometry, params_.mode(), params_.AlignCorners(args), kernels_,
                            input.data<T>(), output.data<T>());
        } else {
          Blender<T>(geometry, params_.mode(), params_.AlignCorners(args), kernels_)
              .Run(context, input.data<T>(), output.data<T>());
        }
      }
    });
  }

  size_t Workspace(const Args& args, int) const override {
    if (!IsFloat(args.tensor(0).dtype())) {
      return params_.Copies() ? 0 : static_cast<size_t>(ResizeBytesWorkspace(Geometry(args)));
    }
    return params_.antialias() ? AntialiasWorkspace(Geometry(args), args.tensor(0).dtype()) : 0;
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    if (params_.Copies()) return cost;
    // One axis after the other: a product and a sum for each tap.
    const Tensor &input = args.tensor(0), &output = outputs[0].AsTensor();
    cost.flops = params_.mode() == ResizeMode::kArea
                     ? static_cast<double>(input.elements())
                     : static_cast<double>(output.elements()) * (input.rank() - 2) *
                           (params_.mode() == ResizeMode::kCubic ? 8 : 4);
    return cost;
  }

 private:
  ResizeGeometry Geometry(const Args& args) const { return params_.Geometry(args.shape(0), args); }

  void ForwardNearest(const Context& context, const ResizeGeometry& geometry, const Tensor& input,
                      Tensor& output) const {
    const bool exact = params_.mode() == ResizeMode::kNearestExact;
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

  ResizeParams params_;
  Isa isa_;
  const ResizeKernels& kernels_;
};

LayerCreator CreateInterpolate(const char* mode, bool align_corners, bool antialias = false) {
  return [=](const LayerInit& init) {
    return std::make_unique<Interpolate>(init, mode, align_corners, antialias);
  };
}

/// The NHWC form resizes images of a batch, by sizes or factors that are known at load.
NhwcRole ResizeNhwcRole(const Operator& op, int rank) {
  constexpr std::string_view kModes[] = {"nearest", "nearest-exact", "bilinear", "bicubic"};
  const std::string_view mode = ParamText(op, "mode", "nearest");
  const bool images = rank == 4 && op.inputs.size() == 1 &&
                      ParamText(op, "antialias", "False") == "False" &&
                      std::find(std::begin(kModes), std::end(kModes), mode) != std::end(kModes);
  return images ? NhwcRole::kFollows : NhwcRole::kNone;
}

OperatorSchema ResizeSchema(std::vector<std::string> types, std::string doc) {
  return OperatorSchema(std::move(types), std::move(doc))
      .Tensor("input", kFloats | DType::kU8 | DType::kI8)
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
      .Tensor("input", kFloats | DType::kU8)
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
          .Bool("antialias", false)
          .KeepsDType()
          .HasNhwcForm("nhwc.Upsample", ResizeNhwcRole),
      CreateInterpolate(nullptr, false));
  registry.Add(ResizeSchema({"F.upsample_nearest", "nn.UpsamplingNearest2d"},
                            "Resizes an input by repeating its nearest elements.")
                   .HasNhwcForm("nhwc.Upsample", ResizeNhwcRole),
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
