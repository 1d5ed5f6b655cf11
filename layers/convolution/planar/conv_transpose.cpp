// SPDX-License-Identifier: MIT
#include "core/checked.h"
#include "cpu/gemm.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/planar/conv_plain.h"
#include "layers/convolution/window_taps.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

/// Multiplies every input pixel by the kernel and adds the results up where they overlap.
class ConvTranspose final : public Layer {
 public:
  ConvTranspose(const LayerInit& init, int spatial_rank)
      : params_(init, spatial_rank, true),
        input_(init.Arg("input")),
        weight_(init, "weight"),
        bias_(init, "bias"),
        gemm_(GemmKernelsFor(init.isa())) {
    const Tensor& weight = weight_.constant();
    CheckBiasFlag(init);
    if (!weight.defined()) return;
    params_.CheckWeight(init, weight.shape());
    const int64_t groups = params_.groups(), k = weight.shape()[0] / groups;
    const int64_t rows = weight.shape().Product(1, weight.rank());
    for (int64_t g = 0; g < groups; ++g) {
      packed_.emplace_back(gemm_, GemmSide::kA, rows, k,
                           MatrixSource(gemm_, {weight.data<float>() + g * k * rows, rows, 1}));
    }
    if (!packed_.empty()) weight_.Forget();
  }

  std::vector<Value> Infer(const Args& args) const override {
    const ConvGeometry g = Geometry(args);
    bias_.CheckShape(args, {g.out_channels});
    return {Tensor::Meta(DType::kF32, g.output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const ConvGeometry g = Geometry(args);
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const float* input = args.tensor(input_).data<float>();
    float* products = context.workspace<float>();
    for (int64_t i = 0; i < g.batch * g.groups; ++i) {
      Multiply(context, args, g, i % g.groups, input + i * g.group_in() * g.in_plane(), products);
      Scatter(context, args, g, i % g.groups, products,
              output.data<float>() + i * g.group_out() * g.out_plane());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const ConvGeometry g = Geometry(args);
    const int64_t floats = CheckedAdd(ProductFloats(g), GemmWorkspace(gemm_, SizeOf(g), threads));
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

  bool Packs(int argument) const override { return weight_.Packed(argument); }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const ConvGeometry g = Geometry(args);
    const GemmSize size = SizeOf(g);
    cost.flops = 2.0 * static_cast<double>(g.batch * g.groups) * static_cast<double>(size.m) *
                 static_cast<double>(size.n) * static_cast<double>(size.k);
    return cost;
  }

 private:
  ConvGeometry Geometry(const Args& args) const {
    return params_.Geometry(args.shape(input_), weight_.shape(args));
  }

  GemmSize SizeOf(const ConvGeometry& g) const {
    return {CheckedMultiply(g.group_out(), g.taps()), g.in_plane(), g.group_in(), !packed_.empty(),
            false};
  }

  /// A value for each output channel of the group, tap and input pixel.
  int64_t ProductFloats(const ConvGeometry& g) const {
    const GemmSize size = SizeOf(g);
    return CheckedAdd<int64_t>(CheckedMultiply(size.m, size.n), 15) / 16 * 16;
  }

  void Multiply(const Context& context, const Args& args, const ConvGeometry& g, int64_t group,
                const float* input, float* products) const {
    const GemmSize size = SizeOf(g);
    const int64_t first = size.a_packed ? 0 : group * size.k * size.m;
    const float* weight = weight_.data(args) + first;
    const MatrixSource rows(gemm_, {weight, size.m, 1}), pixels(gemm_, {input, size.n, 1});
    GemmProblem problem;
    problem.size = size;
    if (size.a_packed) problem.packed = packed_[static_cast<size_t>(group)].panels();
    problem.a = &rows;
    problem.b = &pixels;
    problem.c = products;
    problem.ldc = size.n;
    Gemm(gemm_, problem, context.threads(), products + ProductFloats(g));
  }

  void Scatter(const Context& context, const Args& args, const ConvGeometry& g, int64_t group,
               const float* products, float* output) const {
    const float* bias = bias_.data(args);
    const int64_t grain =
        std::max<int64_t>(1, 16384 / std::max<int64_t>(1, g.in_plane() * g.taps()));
    context.ParallelFor(g.group_out(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        float* plane = output + c * g.out_plane();
        std::fill_n(plane, g.out_plane(), bias ? bias[group * g.group_out() + c] : 0.0f);
        for (int64_t tap = 0; tap < g.taps(); ++tap) {
          ScatterTap(g.axes, tap, products + (c * g.taps() + tap) * g.in_plane(), plane);
        }
      }
    });
  }

  ConvParams params_;
  int input_;
  WeightArg weight_, bias_;
  const GemmKernels& gemm_;
  std::vector<PackedMatrix> packed_;  // one a group
};

}  // namespace
}  // namespace oort

OORT_LAYERS(conv_transpose) {
  for (int rank = 1; rank <= 3; ++rank) {
    const auto create = [rank](const LayerInit& init) {
      return std::make_unique<ConvTranspose>(init, rank);
    };
    for (const OperatorSchema& schema :
         {ConvModuleSchema(rank, true), ConvFunctionSchema(rank, true)}) {
      registry.Add(schema, WithFloats(schema, create, CreateConvTransposePlain(rank)));
    }
  }
}
