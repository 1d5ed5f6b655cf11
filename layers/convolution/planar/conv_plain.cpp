// SPDX-License-Identifier: MIT
#include "layers/convolution/planar/conv_plain.h"

#include "core/checked.h"
#include "layers/convolution/conv_algorithm.h"
#include "layers/convolution/conv_padding.h"
#include "layers/convolution/window_taps.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

size_t PlainBytes(int64_t count, DType dtype) {
  return AlignUp(CheckedMultiply(static_cast<size_t>(count), ItemSize(dtype)), 64);
}

/// What convolutions and transposed ones share.
class ConvPlainBase : public Layer {
 public:
  ConvPlainBase(const LayerInit& init, int spatial_rank, bool transposed)
      : params_(init, spatial_rank, transposed),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias") {
    CheckBiasFlag(init);
    const Value& weight = init.Constant(init.Arg("@weight") >= 0 ? "@weight" : "weight");
    if (weight.IsTensor()) params_.CheckWeight(init, weight.AsTensor().shape());
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    bias_.CheckShape(args, {g.out_channels});
    return {Tensor::Meta(args.tensor(input_).dtype(), g.output)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).multiplications();
    return cost;
  }

 protected:
  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(args.shape(input_), weight_.shape(args));
  }
  /// Where the biases of a group begin; null without any.
  template <typename T>
  const T* Bias(const Args& args, const ConvGeometry& g, int64_t group) const {
    const T* bias = bias_.given<T>(args);
    return bias != nullptr ? bias + group * g.group_out() : nullptr;
  }

  ConvParams params_;
  int input_;
  AnyWeightArg weight_, bias_;
};

/// Gathers what each tap reads, then sums over channels and taps.
class ConvPlain final : public ConvPlainBase {
 public:
  ConvPlain(const LayerInit& init, int spatial_rank)
      : ConvPlainBase(init, spatial_rank, false), mode_(ConvPadMode(init)) {}

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<Value> results = ConvPlainBase::Infer(args);
    if (mode_ != PadMode::kConstant) PaddingOf(args).Apply(args.shape(input_));
    return results;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    VisitPlain(output.dtype(),
               [&](auto tag) { Run<typename decltype(tag)::Type>(context, args, output); });
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    size_t bytes = 0;
    if (mode_ != PadMode::kConstant) {
      bytes = PlainBytes(PaddingOf(args).Apply(args.shape(input_)).elements(),
                         args.tensor(input_).dtype());
    }
    const int64_t rows = CheckedMultiply(g.group_in(), g.taps());
    return CheckedAdd(
        bytes, PlainBytes(CheckedMultiply(rows, g.out_plane()), args.tensor(input_).dtype()));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = ConvPlainBase::Work(args, outputs);
    cost.algorithm = kConvIm2col;
    return cost;
  }

 private:
  template <typename T>
  void Run(const Context& context, const Args& args, Tensor& output) const {
    ConvGeometry g = Geometry(args);
    const Tensor& input = args.tensor(input_);
    const T* image = input.data<T>();
    std::byte* workspace = context.workspace();
    if (mode_ != PadMode::kConstant) {
      const Padding padding = PaddingOf(args);
      Tensor padded = Tensor::Borrow(reinterpret_cast<T*>(workspace), padding.Apply(input.shape()));
      PadCopy(context, input, padding, Value(0), padded);
      image = padded.data<T>();
      workspace += PlainBytes(padded.elements(), input.dtype());
      g = Unpadded(g);
    }
    T* columns = reinterpret_cast<T*>(workspace);
    for (int64_t i = 0; i < g.batch * g.groups; ++i) {
      Gather(context, g, image + i * g.group_in() * g.in_plane(), columns);
      WeightedRows<T> sum;
      sum.rows = g.group_out();
      sum.k = sum.row_step = g.group_in() * g.taps();
      sum.n = g.out_plane();
      sum.weight = weight_.given<T>(args) + i % g.groups * sum.rows * sum.k;
      sum.bias = Bias<T>(args, g, i % g.groups);
      SumRows(context, sum, columns, output.data<T>() + i * sum.rows * sum.n);
    }
  }

  Padding PaddingOf(const Args& args) const {
    return ConvPadding(Geometry(args), mode_, args.shape(input_).rank());
  }

  template <typename T>
  static void Gather(const Context& context, const ConvGeometry& g, const T* image, T* columns) {
    std::array<ConvAxis, 3> axes = g.axes;
    for (ConvAxis& axis : axes) std::swap(axis.in, axis.out);  // windows, and what they slide over
    const int64_t taps = g.taps(), plane = g.out_plane();
    context.ParallelFor(g.group_in() * taps, 16384 / plane + 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        GatherTap(axes, k % taps, image + k / taps * g.in_plane(), columns + k * plane);
      }
    });
  }

  PadMode mode_;
};

/// A value for each output channel, tap and input pixel, added up where they fall together.
class ConvTransposePlain final : public ConvPlainBase {
 public:
  ConvTransposePlain(const LayerInit& init, int spatial_rank)
      : ConvPlainBase(init, spatial_rank, true) {}

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    VisitPlain(output.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (!std::is_integral_v<T> || std::is_same_v<T, int64_t>) {
        Run<T>(context, args, output);
      }
    });
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    const int64_t rows = CheckedMultiply(g.group_out(), g.taps());
    return PlainBytes(CheckedMultiply(rows, g.in_plane()), args.tensor(input_).dtype());
  }

 private:
  template <typename T>
  void Run(const Context& context, const Args& args, Tensor& output) const {
    const ConvGeometry g = Geometry(args);
    T* products = context.workspace<T>();
    for (int64_t i = 0; i < g.batch * g.groups; ++i) {
      WeightedRows<T> sum;
      sum.rows = sum.step = g.group_out() * g.taps();
      sum.row_step = 1;
      sum.k = g.group_in();
      sum.n = g.in_plane();
      sum.weight = weight_.given<T>(args) + i % g.groups * sum.rows * sum.k;
      SumRows(context, sum, args.tensor(input_).data<T>() + i * sum.k * sum.n, products);
      Scatter(context, g, Bias<T>(args, g, i % g.groups), products,
              output.data<T>() + i * g.group_out() * g.out_plane());
    }
  }

  template <typename T>
  static void Scatter(const Context& context, const ConvGeometry& g, const T* bias,
                      const T* products, T* output) {
    context.ParallelFor(
        g.group_out(), 16384 / (g.in_plane() * g.taps()) + 1, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            T* plane = output + c * g.out_plane();
            std::fill_n(plane, g.out_plane(), bias != nullptr ? bias[c] : T{0});
            for (int64_t tap = 0; tap < g.taps(); ++tap) {
              ScatterTap(g.axes, tap, products + (c * g.taps() + tap) * g.in_plane(), plane);
            }
          }
        });
  }
};

}  // namespace

LayerCreator CreateConvPlain(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) {
    return std::make_unique<ConvPlain>(init, spatial_rank);
  };
}

LayerCreator CreateConvTransposePlain(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) {
    return std::make_unique<ConvTransposePlain>(init, spatial_rank);
  };
}

}  // namespace oort
