// SPDX-License-Identifier: MIT
#include "layers/convolution/conv_f64.h"

#include "core/checked.h"
#include "layers/convolution/conv_padding.h"
#include "layers/convolution/window_taps.h"
#include "layers/linear/weight_arg.h"

namespace oort {
namespace {

size_t DoubleBytes(int64_t count) {
  return AlignUp(CheckedMultiply(static_cast<size_t>(count), sizeof(double)), 64);
}

/// What convolutions and transposed ones share.
class ConvF64Base : public Layer {
 public:
  ConvF64Base(const LayerInit& init, int spatial_rank, bool transposed)
      : params_(init, spatial_rank, transposed),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias") {
    CheckBiasFlag(init);
    if (weight_.constant().defined()) params_.CheckWeight(init, weight_.constant().shape());
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    bias_.CheckShape(args, {g.out_channels});
    return {Tensor::Meta(DType::kF64, g.output)};
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
  const double* Bias(const Args& args, const ConvGeometry& g, int64_t group) const {
    const double* bias = bias_.data(args);
    return bias != nullptr ? bias + group * g.group_out() : nullptr;
  }

  ConvParams params_;
  int input_;
  WeightArgOf<double> weight_, bias_;
};

/// Gathers what each tap reads, then sums over channels and taps.
class ConvF64 final : public ConvF64Base {
 public:
  ConvF64(const LayerInit& init, int spatial_rank)
      : ConvF64Base(init, spatial_rank, false), mode_(ConvPadMode(init)) {}

  std::vector<Value> Infer(const Args& args) const override {
    std::vector<Value> results = ConvF64Base::Infer(args);
    if (mode_ != PadMode::kConstant) PaddingOf(args).Apply(args.shape(input_));
    return results;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const Tensor& input = args.tensor(input_);
    const double* image = input.data<double>();
    std::byte* workspace = context.workspace();
    if (mode_ != PadMode::kConstant) {
      const Padding padding = PaddingOf(args);
      Tensor padded =
          Tensor::Borrow(reinterpret_cast<double*>(workspace), padding.Apply(input.shape()));
      PadCopy(context, input, padding, Value(0), padded);
      image = padded.data<double>();
      workspace += DoubleBytes(padded.elements());
      g = Unpadded(g);
    }
    double* columns = reinterpret_cast<double*>(workspace);
    for (int64_t i = 0; i < g.batch * g.groups; ++i) {
      Gather(context, g, image + i * g.group_in() * g.in_plane(), columns);
      WeightedRows sum;
      sum.rows = g.group_out();
      sum.k = sum.row_step = g.group_in() * g.taps();
      sum.n = g.out_plane();
      sum.weight = weight_.data(args) + i % g.groups * sum.rows * sum.k;
      sum.bias = Bias(args, g, i % g.groups);
      SumRows(context, sum, columns, output.data<double>() + i * sum.rows * sum.n);
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    size_t bytes = 0;
    if (mode_ != PadMode::kConstant) {
      bytes = DoubleBytes(PaddingOf(args).Apply(args.shape(input_)).elements());
    }
    const int64_t rows = CheckedMultiply(g.group_in(), g.taps());
    return CheckedAdd(bytes, DoubleBytes(CheckedMultiply(rows, g.out_plane())));
  }

 private:
  Padding PaddingOf(const Args& args) const {
    return ConvPadding(Geometry(args), mode_, args.shape(input_).rank());
  }

  static void Gather(const Context& context, const ConvGeometry& g, const double* image,
                     double* columns) {
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
class ConvTransposeF64 final : public ConvF64Base {
 public:
  ConvTransposeF64(const LayerInit& init, int spatial_rank)
      : ConvF64Base(init, spatial_rank, true) {}

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    double* products = context.workspace<double>();
    for (int64_t i = 0; i < g.batch * g.groups; ++i) {
      WeightedRows sum;
      sum.rows = sum.step = g.group_out() * g.taps();
      sum.row_step = 1;
      sum.k = g.group_in();
      sum.n = g.in_plane();
      sum.weight = weight_.data(args) + i % g.groups * sum.rows * sum.k;
      SumRows(context, sum, args.tensor(input_).data<double>() + i * sum.k * sum.n, products);
      Scatter(context, g, Bias(args, g, i % g.groups), products,
              output.data<double>() + i * g.group_out() * g.out_plane());
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args);
    const int64_t rows = CheckedMultiply(g.group_out(), g.taps());
    return DoubleBytes(CheckedMultiply(rows, g.in_plane()));
  }

 private:
  static void Scatter(const Context& context, const ConvGeometry& g, const double* bias,
                      const double* products, double* output) {
    context.ParallelFor(
        g.group_out(), 16384 / (g.in_plane() * g.taps()) + 1, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            double* plane = output + c * g.out_plane();
            std::fill_n(plane, g.out_plane(), bias != nullptr ? bias[c] : 0.0);
            for (int64_t tap = 0; tap < g.taps(); ++tap) {
              ScatterTap(g.axes, tap, products + (c * g.taps() + tap) * g.in_plane(), plane);
            }
          }
        });
  }
};

}  // namespace

void SumRows(const Context& context, const WeightedRows& sum, const double* columns, double* out) {
  const int64_t work = std::max<int64_t>(1, sum.k * sum.n);
  context.ParallelFor(sum.rows, 16384 / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double* row = out + r * sum.n;
      std::fill_n(row, sum.n, sum.bias != nullptr ? sum.bias[r] : 0.0);
      for (int64_t k = 0; k < sum.k; ++k) {
        const double weight = sum.weight[r * sum.row_step + k * sum.step];
        const double* column = columns + k * sum.n;
        for (int64_t i = 0; i < sum.n; ++i) row[i] += weight * column[i];
      }
    }
  });
}

LayerCreator CreateConvF64(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) {
    return std::make_unique<ConvF64>(init, spatial_rank);
  };
}

LayerCreator CreateConvTransposeF64(int spatial_rank) {
  return [spatial_rank](const LayerInit& init) {
    return std::make_unique<ConvTransposeF64>(init, spatial_rank);
  };
}

}  // namespace oort
