// SPDX-License-Identifier: MIT
#include <limits>

#include "layers/composite/float_dtypes.h"
#include "layers/vision/device_grid.h"

namespace oort {
namespace {

/// Elements and weights of some samples, found once for all channels: entry t * kSamples + i is
/// tap t of sample i. Enough of them that what is read of a plane is read more than once while it
/// is in the cache.
template <typename Real, int taps>
struct GridChunk {
  static constexpr int64_t kSamples = 4096 / taps;
  static constexpr size_t kEntries = static_cast<size_t>(taps * kSamples);
  std::array<int32_t, kEntries> index;
  std::array<Real, kEntries> weight;
  bool inside = true;  ///< no index is -1

  void Set(int tap, int64_t sample, int64_t from, Real value) {
    const size_t entry = static_cast<size_t>(tap * kSamples + sample);
    index[entry] = static_cast<int32_t>(from);
    weight[entry] = value;
    inside = inside && from >= 0;
  }

  void Blend(const Real* plane, Real* out, int64_t count) const {
    if (inside) {
      BlendWith([plane](int32_t at) { return plane[at]; }, out, count);
    } else {
      // Always loads, so that there is nothing to predict.
      BlendWith(
          [plane](int32_t at) {
            const Real value = plane[at < 0 ? 0 : at];
            return at < 0 ? Real(0) : value;
          },
          out, count);
    }
  }

 private:
  template <typename Read>
  void BlendWith(Read read, Real* out, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      Real sum = 0;
      for (int t = 0; t < taps; ++t) {
        const size_t entry = static_cast<size_t>(t * kSamples + i);
        sum += read(index[entry]) * weight[entry];
      }
      out[i] = sum;
    }
  }
};

/// Samples of one input with one grid.
template <typename Real, GridMode mode, bool volume>
class GridSampler {
 public:
  GridSampler(const GridGeometry& geometry, bool align_corners, GridPadding padding)
      : geometry_(geometry),
        depth_(geometry.extents[0], align_corners, padding, volume),
        height_(geometry.extents[1], align_corners, padding, volume),
        width_(geometry.extents[2], align_corners, padding, volume) {}

  void Run(const Context& context, const Real* input, const Real* grid, Real* output) const {
    const int64_t chunks = (geometry_.samples + Chunk::kSamples - 1) / Chunk::kSamples;
    const int64_t grain = 8 / geometry_.channels + 1;
    context.ParallelFor(geometry_.batch * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t image = i / chunks, first = i % chunks * Chunk::kSamples;
        const int64_t count = std::min(Chunk::kSamples, geometry_.samples - first);
        Chunk chunk;
        FindTaps(grid + (image * geometry_.samples + first) * kAxes, count, chunk);
        for (int64_t c = image * geometry_.channels; c < (image + 1) * geometry_.channels; ++c) {
          chunk.Blend(input + c * geometry_.plane(), output + c * geometry_.samples + first, count);
        }
      }
    });
  }

 private:
  static constexpr int kAxes = volume ? 3 : 2;
  static constexpr int kAxisTaps = mode == GridMode::kNearest  ? 1
                                   : mode == GridMode::kLinear ? 2
                                                               : 4;
  using Chunk = GridChunk<Real, kAxisTaps * kAxisTaps*(volume ? kAxisTaps : 1)>;

  void FindTaps(const Real* grid, int64_t count, Chunk& chunk) const {
    for (int64_t i = 0; i < count; ++i, grid += kAxes) {
      const auto columns = width_.template Taps<mode>(grid[0]);
      const auto rows = height_.template Taps<mode>(grid[1]);
      int tap = 0;
      if constexpr (volume) {
        for (const GridTap<Real>& z : depth_.template Taps<mode>(grid[2])) {
          for (const GridTap<Real>& y : rows) {
            for (const GridTap<Real>& x : columns) SetVoxel(chunk, tap++, i, z, y, x);
          }
        }
      } else {
        for (const GridTap<Real>& y : rows) {
          for (const GridTap<Real>& x : columns) {
            const bool outside = y.index < 0 || x.index < 0;
            const int64_t from = outside ? -1 : y.index * geometry_.extents[2] + x.index;
            chunk.Set(tap++, i, from, y.weight * x.weight);
          }
        }
      }
    }
  }

  /// In a volume, what lies outside adds nothing, even where its weight is NaN.
  void SetVoxel(Chunk& chunk, int tap, int64_t sample, const GridTap<Real>& z,
                const GridTap<Real>& y, const GridTap<Real>& x) const {
    if (z.index < 0 || y.index < 0 || x.index < 0) return chunk.Set(tap, sample, -1, 0);
    chunk.Set(tap, sample,
              (z.index * geometry_.extents[1] + y.index) * geometry_.extents[2] + x.index,
              z.weight * y.weight * x.weight);
  }

  GridGeometry geometry_;
  GridAxis<Real> depth_, height_, width_;
};

class GridSample final : public Layer {
 public:
  explicit GridSample(const LayerInit& init) : on_device_(init.device().type != DeviceType::kCpu) {
    const std::string &mode = init.String("mode"), &padding = init.String("padding_mode");
    mode_ = mode == "nearest"   ? GridMode::kNearest
            : mode == "bicubic" ? GridMode::kCubic
                                : GridMode::kLinear;
    padding_ = padding == "border"       ? GridPadding::kBorder
               : padding == "reflection" ? GridPadding::kReflection
                                         : GridPadding::kZeros;
    const Value& align = init.Constant("align_corners");
    align_corners_ = !align.IsNone() && align.AsBool();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape &input = args.shape(0), &grid = args.shape(1);
    const DType dtype = args.tensor(0).dtype();
    const auto fail = [](const std::string& message) {
      throw Error(ErrorCode::kInvalidArgument, message);
    };
    const int rank = input.rank();
    if (rank != 4 && rank != 5) {
      fail("expected an input of rank 4 or 5, got " + input.ToString());
    }
    if (mode_ == GridMode::kCubic && rank != 4) {
      fail("mode bicubic takes an input of rank 4, got " + input.ToString());
    }
    if (grid.rank() != rank || grid[0] != input[0] || grid[rank - 1] != rank - 2) {
      fail("expected a grid of rank " + std::to_string(rank) + " with batch " +
           std::to_string(input[0]) + " and " + std::to_string(rank - 2) +
           " coordinates a sample, got " + grid.ToString());
    }
    if (on_device_) RequireWideFloat(dtype);
    if (args.tensor(1).dtype() != dtype) {
      fail("expected input and grid of one dtype, got " + std::string(Name(dtype)) + " and " +
           std::string(Name(args.tensor(1).dtype())));
    }
    Shape output = input;
    for (int i = 2; i < rank; ++i) {
      if (input[i] < 1) fail("expected spatial extents above zero, got " + input.ToString());
      output[i] = grid[i - 1];
    }
    output.elements();
    if (input.Product(2, rank) > std::numeric_limits<int32_t>::max()) {
      throw Error(ErrorCode::kUnsupported, "no planes of 2^31 elements or more");
    }
    return {Tensor::Meta(dtype, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    if (context.stream() != nullptr) {
      const DeviceGrid call = {GeometryOf(args, output), mode_, padding_, align_corners_,
                               output.rank() == 5};
      return GridSampleOnDevice(*context.stream(), call, args.tensor(0), args.tensor(1), output);
    }
    if (output.dtype() == DType::kF64) {
      Run<double>(context, args, output);
    } else {
      Run<float>(context, args, output);
    }
  }

 private:
  static GridGeometry GeometryOf(const Args& args, const Tensor& output) {
    const Shape& input = args.shape(0);
    GridGeometry g;
    g.batch = input[0];
    g.channels = input[1];
    g.samples = output.shape().Product(2, output.rank());
    for (int i = 0; i < input.rank() - 2; ++i) {
      g.extents[static_cast<size_t>(5 - input.rank() + i)] = input[i + 2];
    }
    return g;
  }

  template <typename Real>
  void Run(const Context& context, const Args& args, Tensor& output) const {
    const bool volume = output.rank() == 5;
    switch (mode_) {
      case GridMode::kNearest:
        return volume ? Sample<Real, GridMode::kNearest, true>(context, args, output)
                      : Sample<Real, GridMode::kNearest, false>(context, args, output);
      case GridMode::kLinear:
        return volume ? Sample<Real, GridMode::kLinear, true>(context, args, output)
                      : Sample<Real, GridMode::kLinear, false>(context, args, output);
      case GridMode::kCubic: return Sample<Real, GridMode::kCubic, false>(context, args, output);
    }
  }

  template <typename Real, GridMode mode, bool volume>
  void Sample(const Context& context, const Args& args, Tensor& output) const {
    const GridGeometry g = GeometryOf(args, output);
    GridSampler<Real, mode, volume>(g, align_corners_, padding_)
        .Run(context, args.tensor(0).data<Real>(), args.tensor(1).data<Real>(),
             output.data<Real>());
  }

  GridMode mode_;
  GridPadding padding_;
  bool align_corners_, on_device_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(grid_sample) {
  using namespace oort;
  const OperatorSchema schema =
      OperatorSchema({"F.grid_sample"},
                     "Reads an image or a volume at the points that a grid gives")
          .Tensor("input", kFloats)
          .Tensor("grid", kFloats)
          .String("mode", "bilinear")
          .OneOf({"bilinear", "nearest", "bicubic"})
          .String("padding_mode", "zeros")
          .OneOf({"zeros", "border", "reflection"})
          .Bool("align_corners")
          .Nullable();
  registry.Add(schema, WithHalves(schema, Create<GridSample>()));
}

OORT_CUDA_LAYERS(grid_sample) {
  using namespace oort;
  registry.AddDevice({"F.grid_sample"}, DeviceType::kCuda, [](const LayerInit& init) {
    for (const Operand* input : init.inputs()) RequireWideFloat(input->dtype);
    return std::make_unique<GridSample>(init);
  });
}
