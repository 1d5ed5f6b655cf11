// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "cpu/gemm.h"
#include "layers/composite/float_dtypes.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/convolution/planar/conv_kernels.h"
#include "layers/convolution/planar/conv_plain.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

[[noreturn]] void DeformFail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// The planes of an image with zeros around them: one row and column before, two rows and one
/// column behind. So each sample has four neighbours, and one that lies outside finds only zeros.
struct DeformPlanes {
  explicit DeformPlanes(const ConvGeometry& g)
      : height(g.axes[1].in),
        width(g.axes[2].in),
        row(CheckedAdd<int64_t>(width, 2)),
        size(CheckedMultiply(CheckedAdd<int64_t>(height, 3), row)) {
    if (size <= std::numeric_limits<int32_t>::max()) return;
    throw Error(ErrorCode::kUnsupported, "no planes of 2^31 elements or more");
  }
  int64_t outside() const { return (height + 1) * row; }

  void Fill(const float* from, float* to) const {
    std::fill_n(to, row, 0.0f);
    for (int64_t y = 0; y < height; ++y) {
      float* line = to + (y + 1) * row;
      line[0] = 0;
      std::copy_n(from + y * width, width, line + 1);
      line[width + 1] = 0;
    }
    std::fill_n(to + (height + 1) * row, 2 * row, 0.0f);
  }

  int64_t height, width, row, size;
};

/// What a call works on. Samples are counted by offset group, tap and output pixel.
struct DeformGeometry {
  DeformGeometry(const ConvGeometry& geometry, int64_t groups)
      : g(geometry), planes(geometry), offset_groups(groups) {
    samples = CheckedMultiply(CheckedMultiply(groups, g.taps()), g.out_plane());
    plane_floats = Rounded(CheckedMultiply(g.in_channels, planes.size));
    // An index and four weights for each sample.
    table_floats = CheckedMultiply<int64_t>(5, Rounded(samples));
  }
  static int64_t Rounded(int64_t floats) { return CheckedAdd<int64_t>(floats, 15) / 16 * 16; }

  ConvGeometry g;
  DeformPlanes planes;
  int64_t offset_groups, samples, plane_floats, table_floats;
};

/// Where the samples of an image lie.
struct DeformTable {
  DeformTable(const DeformGeometry& d, float* memory) : index(reinterpret_cast<int32_t*>(memory)) {
    for (size_t i = 0; i < 4; ++i) {
      weights[i] = memory + static_cast<int64_t>(i + 1) * DeformGeometry::Rounded(d.samples);
    }
  }

  void Set(const DeformPlanes& planes, int64_t sample, float y, float x, float mask) {
    const float height = static_cast<float>(planes.height),
                width = static_cast<float>(planes.width);
    if (y <= -1 || y >= height || x <= -1 || x >= width) {
      return Put(sample, planes.outside(), 0, 0, 0, 0, mask);
    }
    if (y != y || x != x) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      return Put(sample, planes.outside(), nan, nan, nan, nan, mask);
    }
    const float top = std::floor(y), left = std::floor(x);
    const float bottom_part = y - top, right_part = x - left;
    const float top_part = 1 - bottom_part, left_part = 1 - right_part;
    // The extents as floats may have been rounded up.
    const int64_t line = std::min(static_cast<int64_t>(top), planes.height - 1) + 1;
    const int64_t column = std::min(static_cast<int64_t>(left), planes.width - 1) + 1;
    Put(sample, line * planes.row + column, top_part * left_part, top_part * right_part,
        bottom_part * left_part, bottom_part * right_part, mask);
  }

  int32_t* index;
  std::array<float*, 4> weights;

 private:
  void Put(int64_t sample, int64_t at, float a, float b, float c, float d, float mask) {
    index[sample] = static_cast<int32_t>(at);
    weights[0][sample] = a * mask;
    weights[1][sample] = b * mask;
    weights[2][sample] = c * mask;
    weights[3][sample] = d * mask;
  }
};

/// The columns that the weights of one group are multiplied with.
class DeformedColumns final : public PanelSource {
 public:
  DeformedColumns(const DeformKernels& kernels, const DeformGeometry& d, const DeformTable& table,
                  const float* planes, int64_t first_channel)
      : kernels_(kernels), d_(d), table_(table), planes_(planes), first_channel_(first_channel) {}

  void Pack(int64_t k0, int64_t k1, int64_t i0, int64_t i1, int width,
            float* panel) const override {
    const int64_t taps = d_.g.taps(), count = i1 - i0;
    const int64_t channels = d_.g.in_channels / d_.offset_groups;  // that share their offsets
    for (int64_t k = k0; k < k1; ++k, panel += width) {
      const int64_t channel = first_channel_ + k / taps;
      const int64_t sample = (channel / channels * taps + k % taps) * d_.g.out_plane() + i0;
      DeformedTap tap;
      tap.index = table_.index + sample;
      for (size_t i = 0; i < 4; ++i) tap.weights[i] = table_.weights[i] + sample;
      kernels_.gather(planes_ + channel * d_.planes.size, d_.planes.row, tap, count, panel);
      std::fill(panel + count, panel + width, 0.0f);
    }
  }

 private:
  const DeformKernels& kernels_;
  const DeformGeometry& d_;
  const DeformTable& table_;
  const float* planes_;
  int64_t first_channel_;
};

/// Names of the arguments of one of the two forms.
struct DeformNames {
  const char *input, *offset, *mask, *weight, *bias;
};

/// The arguments, and what must be true of them; computes in T.
template <typename T>
class DeformLayer : public Layer {
 public:
  /// `offset_groups` is 0 where the shape of the offsets tells.
  DeformLayer(const LayerInit& init, const DeformNames& names, const ConvParams& params,
              int64_t offset_groups, bool use_mask)
      : params_(params),
        input_(init.Arg(names.input)),
        offset_(init.Arg(names.offset)),
        mask_(use_mask ? init.Arg(names.mask) : -1),
        offset_groups_(offset_groups),
        weight_(init, names.weight),
        bias_(init, names.bias) {
    CheckBiasFlag(init);
    if (weight_.constant().defined()) params_.CheckWeight(init, weight_.constant().shape());
  }

  std::vector<Value> Infer(const Args& args) const override {
    const DeformGeometry d = Geometry(args);
    bias_.CheckShape(args, {d.g.out_channels});
    return {Tensor::Meta(kDTypeOf<T>, d.g.output)};
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    cost.flops = 2 * Geometry(args).g.multiplications();
    return cost;
  }

 protected:
  DeformGeometry Geometry(const Args& args) const {
    const Shape &input = args.shape(input_), &offset = args.shape(offset_);
    if (input.rank() != 4) DeformFail("expected an input of rank 4, got " + input.ToString());
    const ConvGeometry g = params_.Geometry(input, weight_.shape(args));
    const int64_t taps = CheckedMultiply(g.axes[1].kernel, g.axes[2].kernel);
    const int64_t pair = CheckedMultiply<int64_t>(2, taps);
    const int64_t groups =
        offset_groups_ > 0 || offset.rank() != 4 ? offset_groups_ : offset[1] / pair;
    if (groups < 1 || g.in_channels % groups != 0) {
      DeformFail("expected offsets (N, 2 * groups * " + std::to_string(taps) +
                 ", H, W) in groups that divide " + std::to_string(g.in_channels) +
                 " channels, got " + offset.ToString());
    }
    CheckField("offset", offset, g, CheckedMultiply(groups, pair));
    if (args.Has(mask_)) CheckField("mask", args.shape(mask_), g, CheckedMultiply(groups, taps));
    return {g, groups};
  }

  static void CheckField(const char* name, const Shape& shape, const ConvGeometry& g,
                         int64_t channels) {
    const Shape expected{g.batch, channels, g.axes[1].out, g.axes[2].out};
    if (shape == expected) return;
    DeformFail("expected '" + std::string(name) + "' of shape " + expected.ToString() + ", got " +
               shape.ToString());
  }

  ConvParams params_;
  int input_, offset_, mask_;
  int64_t offset_groups_;
  WeightArgOf<T> weight_, bias_;
};

class DeformConv final : public DeformLayer<float> {
 public:
  DeformConv(const LayerInit& init, const DeformNames& names, const ConvParams& params,
             int64_t offset_groups, bool use_mask)
      : DeformLayer(init, names, params, offset_groups, use_mask),
        gemm_(GemmKernelsFor(init.isa())),
        kernels_(DeformKernelsFor(init.isa())) {
    const Tensor& weight = weight_.constant();
    if (!weight.defined()) return;
    const int64_t groups = params_.groups(), rows = weight.shape()[0] / groups;
    const int64_t k = weight.shape().Product(1, weight.rank());
    for (int64_t g = 0; g < groups; ++g) {
      packed_.emplace_back(gemm_, GemmSide::kA, rows, k,
                           MatrixSource(gemm_, {weight.data<float>() + g * rows * k, 1, k}));
    }
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const DeformGeometry d = Geometry(args);
    float* planes = context.workspace<float>();
    DeformTable table(d, planes + d.plane_floats);
    float* scratch = planes + d.plane_floats + d.table_floats;
    for (int64_t image = 0; image < d.g.batch; ++image) {
      FillPlanes(context, d, args.tensor(input_).data<float>(), image, planes);
      FillTable(context, args, d, image, table);
      for (int64_t group = 0; group < d.g.groups; ++group) {
        const DeformedColumns columns(kernels_, d, table, planes, group * d.g.group_in());
        Multiply(context, args, d.g, group, columns, scratch,
                 output.data<float>() +
                     (image * d.g.groups + group) * d.g.group_out() * d.g.out_plane());
      }
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const DeformGeometry d = Geometry(args);
    const int64_t floats = CheckedAdd(CheckedAdd(d.plane_floats, d.table_floats),
                                      GemmWorkspace(gemm_, SizeOf(d.g), threads));
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(float));
  }

 private:
  GemmSize SizeOf(const ConvGeometry& g) const {
    return {g.group_out(), g.out_plane(), CheckedMultiply(g.group_in(), g.taps()), !packed_.empty(),
            false};
  }

  static void FillPlanes(const Context& context, const DeformGeometry& d, const float* input,
                         int64_t image, float* planes) {
    const float* channels = input + image * d.g.in_channels * d.g.in_plane();
    context.ParallelFor(
        d.g.in_channels, 16384 / d.planes.size + 1, [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            d.planes.Fill(channels + c * d.g.in_plane(), planes + c * d.planes.size);
          }
        });
  }

  void FillTable(const Context& context, const Args& args, const DeformGeometry& d, int64_t image,
                 DeformTable& table) const {
    const ConvAxis &h = d.g.axes[1], &w = d.g.axes[2];
    const int64_t pixels = d.g.out_plane(), rows = d.offset_groups * d.g.taps() * h.out;
    const float* offsets = args.tensor(offset_).data<float>() + image * 2 * d.samples;
    const float* mask =
        args.Has(mask_) ? args.tensor(mask_).data<float>() + image * d.samples : nullptr;
    context.ParallelFor(rows, 2048 / w.out + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t tap = r / h.out, line = r % h.out;  // the tap counts offset groups, too
        const int64_t kernel_row = tap / w.kernel % h.kernel, kernel_column = tap % w.kernel;
        const float* down = offsets + 2 * tap * pixels + line * w.out;
        const float* right = down + pixels;
        const float y = static_cast<float>(line * h.stride - h.pad + kernel_row * h.dilation);
        const int64_t x = kernel_column * w.dilation - w.pad;
        for (int64_t i = 0; i < w.out; ++i) {
          const int64_t sample = r * w.out + i;
          table.Set(d.planes, sample, y + down[i], static_cast<float>(i * w.stride + x) + right[i],
                    mask != nullptr ? mask[sample] : 1.0f);
        }
      }
    });
  }

  void Multiply(const Context& context, const Args& args, const ConvGeometry& g, int64_t group,
                const PanelSource& columns, float* scratch, float* output) const {
    const GemmSize size = SizeOf(g);
    const MatrixSource rows(gemm_, {weight_.data(args) + group * size.m * size.k, 1, size.k});
    GemmProblem problem;
    problem.size = size;
    if (size.a_packed) problem.packed = packed_[static_cast<size_t>(group)].panels();
    problem.a = &rows;
    problem.b = &columns;
    problem.c = output;
    problem.ldc = size.n;
    const float* bias = bias_.data(args);
    if (bias != nullptr) problem.row_bias = bias + group * size.m;
    Gemm(gemm_, problem, context.threads(), scratch);
  }

  const GemmKernels& gemm_;
  const DeformKernels& kernels_;
  std::vector<PackedMatrix> packed_;  // one a group
};

/// The same in f64, sample by sample.
class DeformConvF64 final : public DeformLayer<double> {
 public:
  using DeformLayer::DeformLayer;

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    Tensor& output = outputs[0].AsTensor();
    if (output.elements() == 0) return;
    const DeformGeometry d = Geometry(args);
    double* columns = context.workspace<double>();
    for (int64_t i = 0; i < d.g.batch * d.g.groups; ++i) {
      Gather(context, args, d, i, columns);
      WeightedRows<double> sum;
      sum.rows = d.g.group_out();
      sum.k = sum.row_step = d.g.group_in() * d.g.taps();
      sum.n = d.g.out_plane();
      sum.weight = weight_.data(args) + i % d.g.groups * sum.rows * sum.k;
      const double* bias = bias_.data(args);
      if (bias != nullptr) sum.bias = bias + i % d.g.groups * sum.rows;
      SumRows(context, sum, columns, output.data<double>() + i * sum.rows * sum.n);
    }
  }

  size_t Workspace(const Args& args, int) const override {
    const ConvGeometry g = Geometry(args).g;
    const int64_t rows = CheckedMultiply(g.group_in(), g.taps());
    const int64_t count = CheckedMultiply(rows, g.out_plane());
    return CheckedMultiply(static_cast<size_t>(count), sizeof(double));
  }

 private:
  /// What each tap of group i (counting those of all images) reads for each output pixel.
  void Gather(const Context& context, const Args& args, const DeformGeometry& d, int64_t i,
              double* columns) const {
    const ConvAxis &h = d.g.axes[1], &w = d.g.axes[2];
    const int64_t image = i / d.g.groups, first = i % d.g.groups * d.g.group_in();
    const int64_t taps = d.g.taps(), pixels = d.g.out_plane();
    const int64_t sharing = d.g.in_channels / d.offset_groups;  // channels with the same offsets
    const double* input = args.tensor(input_).data<double>();
    const double* offsets = args.tensor(offset_).data<double>() + image * 2 * d.samples;
    const double* mask =
        args.Has(mask_) ? args.tensor(mask_).data<double>() + image * d.samples : nullptr;
    context.ParallelFor(d.g.group_in() * taps, 2048 / pixels + 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t channel = first + k / taps;
        const int64_t tap = channel / sharing * taps + k % taps;
        const double* plane = input + (image * d.g.in_channels + channel) * d.g.in_plane();
        const double *down = offsets + 2 * tap * pixels, *right = down + pixels;
        const int64_t top = k % taps / w.kernel * h.dilation - h.pad;
        const int64_t left = k % taps % w.kernel * w.dilation - w.pad;
        for (int64_t p = 0; p < pixels; ++p) {
          const double y = static_cast<double>(p / w.out * h.stride + top) + down[p];
          const double x = static_cast<double>(p % w.out * w.stride + left) + right[p];
          const double factor = mask != nullptr ? mask[tap * pixels + p] : 1.0;
          columns[k * pixels + p] = factor * Sample(plane, h.in, w.in, y, x);
        }
      }
    });
  }

  /// Between the four elements around a place; those outside of the plane are 0.
  static double Sample(const double* plane, int64_t height, int64_t width, double y, double x) {
    if (y <= -1 || y >= static_cast<double>(height) || x <= -1 || x >= static_cast<double>(width)) {
      return 0;
    }
    if (y != y || x != x) return std::numeric_limits<double>::quiet_NaN();
    const double top = std::floor(y), left = std::floor(x);
    const auto at = [&](int64_t row, int64_t column) {
      const bool inside = row >= 0 && row < height && column >= 0 && column < width;
      return inside ? plane[row * width + column] : 0.0;
    };
    const auto row = static_cast<int64_t>(top), column = static_cast<int64_t>(left);
    const double below = y - top, beside = x - left;
    return (1 - below) * ((1 - beside) * at(row, column) + beside * at(row, column + 1)) +
           below * ((1 - beside) * at(row + 1, column) + beside * at(row + 1, column + 1));
  }
};

const char* kDeformDoc =
    "Convolution whose taps read at places shifted by `offset` and weighted by `mask`";

OperatorSchema DeformModuleSchema() {
  OperatorSchema schema({"torchvision.ops.DeformConv2d"}, kDeformDoc);
  schema.Tensor("input", kFloats).Tensor("offset", kFloats).OptionalTensor("mask", kFloats);
  schema.Attribute("weight").OptionalAttribute("bias");
  schema.Ints("stride", 2, Value(1)).AtLeast(1).Ints("padding", 2, Value(0)).AtLeast(0);
  schema.Ints("dilation", 2, Value(1)).AtLeast(1).Int("groups", 1).AtLeast(1);
  schema.Ignored("in_channels").Ignored("out_channels").Ignored("kernel_size").Ignored("bias");
  return schema;
}

/// deform_conv2d(input, weight, offset, mask, bias, stride, padding, dilation (height and width of
/// each), groups, offset groups, whether there is a mask).
OperatorSchema DeformCustomSchema() {
  OperatorSchema schema({"pnnx.custom_op.torchvision.deform_conv2d"}, kDeformDoc);
  schema.Tensor("arg_0", kFloats).Tensor("arg_1", kFloats).Tensor("arg_2", kFloats);
  schema.Tensor("arg_3", kFloats).Tensor("arg_4", kFloats);
  for (int i = 5; i <= 12; ++i) {
    schema.Int("arg_" + std::to_string(i)).AtLeast(i == 7 || i == 8 ? 0 : 1);
  }
  schema.Bool("arg_13");
  return schema;
}

template <typename L>
std::unique_ptr<Layer> DeformModule(const LayerInit& init) {
  const DeformNames names{"input", "offset", "mask", "weight", "bias"};
  return std::make_unique<L>(init, names, ConvParams(init, 2, false), 0, true);
}

template <typename L>
std::unique_ptr<Layer> DeformCustom(const LayerInit& init) {
  const auto pair = [&](const char* height, const char* width) {
    return std::array<int64_t, 2>{init.Int(height), init.Int(width)};
  };
  const DeformNames names{"arg_0", "arg_2", "arg_3", "arg_1", "arg_4"};
  const ConvParams params(pair("arg_5", "arg_6"), pair("arg_7", "arg_8"), pair("arg_9", "arg_10"),
                          init.Int("arg_11"));
  return std::make_unique<L>(init, names, params, init.Int("arg_12"), init.Bool("arg_13"));
}

}  // namespace
}  // namespace oort

OORT_LAYERS(deform_conv) {
  using namespace oort;
  const OperatorSchema module = DeformModuleSchema(), custom = DeformCustomSchema();
  registry.Add(module, WithFloats(module, DeformModule<DeformConv>, DeformModule<DeformConvF64>));
  registry.Add(custom, WithFloats(custom, DeformCustom<DeformConv>, DeformCustom<DeformConvF64>));
}
