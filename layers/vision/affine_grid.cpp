// SPDX-License-Identifier: MIT
#include <array>

#include "layers/composite/float_dtypes.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// Where `count` elements of an axis lie in -1…1: the outermost at its ends, or their edges there.
template <typename Real>
std::vector<Real> AffineCoordinates(int64_t count, bool align_corners) {
  std::vector<Real> coordinates(static_cast<size_t>(count), Real(0));
  if (count < 2) return coordinates;
  const Real step = Real(2) / static_cast<Real>(count - 1);
  for (int64_t i = 0; i < count; ++i) {
    const Real at = i < count / 2 ? step * static_cast<Real>(i) - 1
                                  : 1 - step * static_cast<Real>(count - 1 - i);
    coordinates[static_cast<size_t>(i)] =
        align_corners ? at : at * static_cast<Real>(count - 1) / static_cast<Real>(count);
  }
  return coordinates;
}

class AffineGrid final : public Layer {
 public:
  explicit AffineGrid(const LayerInit& init) : size_(init.Arg("size")) {
    const Value& align = init.Constant("align_corners");
    align_corners_ = !align.IsNone() && align.AsBool();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& theta = args.shape(0);
    const std::vector<int64_t> size = args[size_].AsInts();
    const Shape wanted(size.size() <= Shape::kMaxRank ? size : std::vector<int64_t>{});
    const int rank = wanted.rank();
    if (rank != 4 && rank != 5) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a size of 4 or 5 numbers, got " + std::to_string(size.size()));
    }
    for (int64_t extent : size) {
      if (extent >= 1) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  "expected a size above zero, got " + wanted.ToString());
    }
    const Shape expected{size[0], rank - 2, rank - 1};
    if (!(theta == expected)) {
      throw Error(ErrorCode::kInvalidArgument, "expected theta of shape " + expected.ToString() +
                                                   " for size " + wanted.ToString() + ", got " +
                                                   theta.ToString());
    }
    Shape output = wanted;
    output.Erase(1);
    output.Append(rank - 2);
    output.elements();
    return {Tensor::Meta(args.tensor(0).dtype(), output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.dtype() == DType::kF64) {
      Run<double>(context, args.tensor(0), output);
    } else {
      Run<float>(context, args.tensor(0), output);
    }
  }

 private:
  template <typename Real>
  void Run(const Context& context, const Tensor& theta, Tensor& output) const {
    const Shape& shape = output.shape();
    const int axes = shape.rank() - 2;
    const int64_t depth = axes == 3 ? shape[1] : 1, height = shape[axes - 1], width = shape[axes];
    const std::vector<Real> z = AffineCoordinates<Real>(depth, align_corners_),
                            y = AffineCoordinates<Real>(height, align_corners_),
                            x = AffineCoordinates<Real>(width, align_corners_);
    const Real* matrices = theta.data<Real>();
    Real* points = output.data<Real>();
    context.ParallelFor(
        shape[0] * depth * height, 4096 / width + 1, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const Real* matrix = matrices + r / (depth * height) * axes * (axes + 1);
            // What a row adds to each coordinate is the same for all its points.
            std::array<Real, 3> shift{}, slope{};
            for (int a = 0; a < axes; ++a) {
              const Real* row = matrix + a * (axes + 1);
              const size_t i = static_cast<size_t>(a);
              slope[i] = row[0];
              shift[i] = row[1] * y[static_cast<size_t>(r % height)] + row[axes];
              if (axes == 3) shift[i] += row[2] * z[static_cast<size_t>(r / height % depth)];
            }
            Real* point = points + r * width * axes;
            for (int64_t column = 0; column < width; ++column) {
              for (size_t a = 0; a < static_cast<size_t>(axes); ++a) {
                *point++ = slope[a] * x[static_cast<size_t>(column)] + shift[a];
              }
            }
          }
        });
  }

  int size_;
  bool align_corners_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(affine_grid) {
  using namespace oort;
  const OperatorSchema schema =
      OperatorSchema({"F.affine_grid"},
                     "The grid of an affine map, for sampling with F.grid_sample")
          .Tensor("theta", kFloats)
          .Ints("size")
          .Dynamic()
          .Bool("align_corners")
          .Nullable();
  registry.Add(schema, WithHalves(schema, Create<AffineGrid>()));
}
