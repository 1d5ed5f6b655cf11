// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/convolution/window_taps.h"
#include "layers/pad/pad_copy.h"
#include "layers/shape/strided_copy.h"
#include "layers/window_bounds.h"

namespace oort {
namespace {

constexpr DTypeSet kFoldDTypes = kFloats | DType::kBool | DType::kC64 | DType::kC128;

[[noreturn]] void UnfoldFail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// An image (N,C,H,W) and its windows (N, C * taps, windows); both also without the batch.
struct UnfoldGeometry {
  std::array<ConvAxis, 3> axes;  ///< as window_taps.h has them; the outermost stays empty
  int64_t planes = 0;            ///< batch times channels
  Shape output;
  int64_t taps() const { return axes[1].kernel * axes[2].kernel; }
  int64_t windows() const { return axes[1].in * axes[2].in; }
  int64_t plane() const { return axes[1].out * axes[2].out; }
};

class UnfoldParams {
 public:
  explicit UnfoldParams(const LayerInit& init)
      : kernel_(init.Ints("kernel_size")),
        dilation_(init.Ints("dilation")),
        padding_(init.Ints("padding")),
        stride_(init.Ints("stride")) {
    for (size_t i = 0; i < 2; ++i) {
      CheckWindowNumber("kernel_size", kernel_[i], 1);
      CheckWindowNumber("dilation", dilation_[i], 1);
      CheckWindowNumber("padding", padding_[i], 0);
      CheckWindowNumber("stride", stride_[i], 1);
    }
  }

  /// How windows slide over an image of this height and width.
  UnfoldGeometry Slide(std::span<const int64_t> image) const {
    UnfoldGeometry g;
    for (size_t i = 0; i < 2; ++i) {
      ConvAxis& axis = g.axes[i + 1];
      axis = {0, image[i], kernel_[i], stride_[i], dilation_[i], padding_[i], padding_[i]};
      const int64_t reach = dilation_[i] * (kernel_[i] - 1) + 1;
      const int64_t padded = CheckedAdd(image[i], 2 * padding_[i]);
      CheckWindowExtent(padded);
      if (image[i] < 1) UnfoldFail("expected an image of at least 1x1, got " + Text(image));
      if (padded < reach) {
        UnfoldFail("expected a padded image of at least " + std::to_string(reach) +
                   " (the kernel with its dilation) on each axis, got " + std::to_string(padded));
      }
      axis.in = (padded - reach) / stride_[i] + 1;
    }
    CheckedMultiply(image[0], image[1]);
    CheckedMultiply(kernel_[0], kernel_[1]);
    CheckedMultiply(g.axes[1].in, g.axes[2].in);
    return g;
  }

  static std::string Text(std::span<const int64_t> image) { return Shape(image).ToString(); }

 private:
  std::vector<int64_t> kernel_, dilation_, padding_, stride_;
};

class Unfold final : public Layer {
 public:
  explicit Unfold(const LayerInit& init)
      : params_(init), on_device_(init.device().type != DeviceType::kCpu) {}

  LayerTraits Traits() const override { return {.either_device = true}; }
  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), Geometry(args.shape(0)).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Tensor& input = args.tensor(0);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const UnfoldGeometry g = Geometry(input.shape());
    if (context.stream() != nullptr) return ForwardOnDevice(context, g, input, output);
    VisitItemSize(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* image = reinterpret_cast<const T*>(input.raw());
      T* columns = reinterpret_cast<T*>(output.raw());
      const int64_t grain = 16384 / g.windows() + 1;
      context.ParallelFor(g.planes * g.taps(), grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          GatherTap(g.axes, i % g.taps(), image + i / g.taps() * g.plane(),
                    columns + i * g.windows());
        }
      });
    });
  }

  size_t Workspace(const Args& args, int) const override {
    if (!on_device_) return 0;
    const auto elements = static_cast<size_t>(PaddedPlanes(Geometry(args.shape(0))).elements());
    return CheckedMultiply(elements, ItemSize(args.tensor(0).dtype()));
  }

 private:
  static Shape PaddedPlanes(const UnfoldGeometry& g) {
    const auto padded = [](const ConvAxis& axis) { return axis.out + axis.pad + axis.pad_after; };
    return {g.planes, padded(g.axes[1]), padded(g.axes[2])};
  }

  /// All windows are one view of the padded image.
  static void ForwardOnDevice(const Context& context, const UnfoldGeometry& g, const Tensor& input,
                              Tensor& output) {
    const ConvAxis &down = g.axes[1], &along = g.axes[2];
    const Shape shape = PaddedPlanes(g);
    Tensor padded = Tensor::Borrow(context.workspace(), input.dtype(), shape);
    Padding padding;
    padding.before = {0, down.pad, along.pad};
    padding.after = {0, down.pad_after, along.pad_after};
    PadCopy(context, input.Reshaped({g.planes, down.out, along.out}), padding, Value(0), padded);
    const std::array<Strided::Axis, 5> axes = {{{g.planes, shape[1] * shape[2]},
                                                {down.kernel, down.dilation * shape[2]},
                                                {along.kernel, along.dilation},
                                                {down.in, down.stride * shape[2]},
                                                {along.in, along.stride}}};
    CopyStrided(context, ItemSize(input.dtype()), padded.raw(), Strided::Of(axes, 0), output.raw());
  }

  UnfoldGeometry Geometry(const Shape& input) const {
    const int rank = input.rank();
    if (rank != 3 && rank != 4) {
      UnfoldFail("expected an input of rank 3 or 4, got " + input.ToString());
    }
    if (input[rank - 3] < 1) {
      UnfoldFail("expected at least one channel, got input " + input.ToString());
    }
    UnfoldGeometry g = params_.Slide(input.dims().last(2));
    g.planes = input.Product(0, rank - 2);
    g.output = Shape(input.dims().first(static_cast<size_t>(rank - 2)));
    g.output[rank - 3] = CheckedMultiply(input[rank - 3], g.taps());
    g.output.Append(g.windows());
    g.output.elements();
    return g;
  }

  UnfoldParams params_;
  bool on_device_;
};

class Fold final : public Layer {
 public:
  explicit Fold(const LayerInit& init) : params_(init), size_(init.Arg("output_size")) {}

  std::vector<Value> Infer(const Args& args) const override {
    return {Tensor::Meta(args.tensor(0).dtype(), Geometry(args).output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    if (outputs[0].AsTensor().elements() == 0) return;
    const UnfoldGeometry g = Geometry(args);
    VisitDType(args.tensor(0).dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
        Run<T>(context, g, args.tensor(0).data<T>(), outputs[0].AsTensor().data<T>());
      }
    });
  }

 private:
  template <typename T>
  static void Run(const Context& context, const UnfoldGeometry& g, const T* columns, T* image) {
    const int64_t grain = 8192 / (g.windows() * g.taps()) + 1;
    context.ParallelFor(g.planes, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        T* plane = image + p * g.plane();
        std::fill_n(plane, g.plane(), T{});
        const T* values = columns + p * g.taps() * g.windows();
        for (int64_t tap = 0; tap < g.taps(); ++tap) {
          ScatterTap(g.axes, tap, values + tap * g.windows(), plane);
        }
      }
    });
  }

  UnfoldGeometry Geometry(const Args& args) const {
    const Shape& input = args.shape(0);
    std::vector<int64_t> size = args[size_].AsInts();
    if (size.size() == 1) size.push_back(size[0]);
    if (size.size() != 2) {
      UnfoldFail("expected output_size of two numbers, got " + std::to_string(size.size()));
    }
    const int rank = input.rank();
    if (rank != 2 && rank != 3) {
      UnfoldFail("expected an input of rank 2 or 3, got " + input.ToString());
    }
    UnfoldGeometry g = params_.Slide(size);
    const int64_t rows = input[rank - 2];
    if (rows < 1 || rows % g.taps() != 0 || input[rank - 1] != g.windows()) {
      UnfoldFail("expected a multiple of " + std::to_string(g.taps()) +
                 " rows (the kernel's taps) and " + std::to_string(g.windows()) +
                 " columns (the windows in an image " + UnfoldParams::Text(size) + "), got input " +
                 input.ToString());
    }
    g.output = input;
    g.output[rank - 2] = rows / g.taps();
    g.output[rank - 1] = size[0];
    g.output.Append(size[1]);
    g.output.elements();
    g.planes = g.output.Product(0, rank - 1);
    return g;
  }

  UnfoldParams params_;
  int size_;
};

void AddWindow(OperatorSchema& schema) {
  schema.Ints("kernel_size", 2).AtLeast(1).Ints("dilation", 2, Value(1)).AtLeast(1);
  schema.Ints("padding", 2, Value(0)).AtLeast(0).Ints("stride", 2, Value(1)).AtLeast(1);
}

}  // namespace
}  // namespace oort

OORT_LAYERS(unfold) {
  using namespace oort;
  OperatorSchema unfold({"F.unfold", "nn.Unfold"},
                        "The windows that slide over an image, each as a column");
  unfold.Tensor("input", kFoldDTypes);
  AddWindow(unfold);
  registry.Add(unfold, Create<Unfold>());
  OperatorSchema fold({"F.fold", "nn.Fold"},
                      "Adds up columns into the windows of an image that they stand for");
  fold.Tensor("input", kFoldDTypes).Ints("output_size").Dynamic();
  AddWindow(fold);
  registry.Add(fold, Create<Fold>());
}
