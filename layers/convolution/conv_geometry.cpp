// SPDX-License-Identifier: MIT
#include "layers/convolution/conv_geometry.h"

#include <algorithm>

#include "core/checked.h"
#include "layers/nhwc_role.h"
#include "layers/weight_arg.h"
#include "layers/window_bounds.h"

namespace oort {
namespace {

[[noreturn]] void Throw(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void Read(const LayerInit& init, const char* name, int rank, std::array<int64_t, 3>& values) {
  if (init.Arg(name) < 0) return;
  const std::vector<int64_t> list = init.Ints(name);
  for (int i = 0; i < rank; ++i) values[static_cast<size_t>(i)] = list[static_cast<size_t>(i)];
}

/// dilation * (kernel - 1) + 1, checked.
int64_t Reach(int64_t kernel, int64_t dilation) {
  return CheckedAdd<int64_t>(CheckedMultiply<int64_t>(dilation, kernel - 1), 1);
}

std::string AxisText(int axis, const Shape& input) {
  return "axis " + std::to_string(axis) + " of input " + input.ToString();
}

}  // namespace

bool ConvGeometry::IsEachPixel() const {
  return taps() == 1 && std::all_of(axes.begin(), axes.end(), [](const ConvAxis& axis) {
           return axis.out == axis.in && axis.stride == 1 && axis.pad == 0;
         });
}

double ConvGeometry::multiplications() const {
  return static_cast<double>(batch) * static_cast<double>(out_channels) *
         static_cast<double>(out_plane()) * static_cast<double>(group_in()) *
         static_cast<double>(taps());
}

ConvParams::ConvParams(const LayerInit& init, int spatial_rank, bool transposed)
    : rank_(spatial_rank), transposed_(transposed), groups_(init.Int("groups")) {
  Read(init, "stride", rank_, stride_);
  Read(init, "dilation", rank_, dilation_);
  Read(init, "output_padding", rank_, extra_);
  ReadPadding(init);
  CheckNumbers();
}

ConvParams::ConvParams(std::array<int64_t, 2> stride, std::array<int64_t, 2> pad,
                       std::array<int64_t, 2> dilation, int64_t groups)
    : rank_(2),
      transposed_(false),
      groups_(groups),
      stride_{stride[0], stride[1], 1},
      dilation_{dilation[0], dilation[1], 1},
      pad_{pad[0], pad[1], 0},
      pad_after_(pad_) {
  CheckNumbers();
}

void ConvParams::CheckNumbers() const {
  for (size_t i = 0; i < 3; ++i) {
    CheckWindowNumber("stride", stride_[i], 1);
    CheckWindowNumber("dilation", dilation_[i], 1);
    CheckWindowNumber("padding", pad_[i], 0);
    CheckWindowNumber("padding", pad_after_[i], 0);
    CheckWindowNumber("output_padding", extra_[i], 0);
  }
}

void ConvParams::ReadPadding(const LayerInit& init) {
  const Value& padding = init.Constant("padding");
  const bool mirrors = init.Arg("padding_mode") >= 0 && init.String("padding_mode") != "zeros";
  // pnnx writes () for the uneven sides of padding=same with another mode than zeros.
  const bool lost = mirrors && padding.IsList() && padding.AsList().empty();
  if (padding.IsString() || lost) {
    same_ = lost || padding.AsString() == "same";
    for (int64_t stride : stride_) {
      if (same_ && stride != 1) {
        Throw("padding=same needs stride 1, got " + std::to_string(stride));
      }
    }
    return;
  }
  std::vector<int64_t> list = padding.AsInts();
  const size_t rank = static_cast<size_t>(rank_);
  if (list.size() == 1) list.resize(rank, list[0]);
  // Where it cannot read the module's own, pnnx writes what torch pads with: both sides of each
  // axis, the last axis first.
  const bool both_sides = mirrors && list.size() == 2 * rank;
  if (list.size() != rank && !both_sides) {
    Throw("expected padding of " + std::to_string(rank) + " elements, got " + padding.ToString());
  }
  for (size_t i = 0; i < rank; ++i) {
    const size_t at = 2 * (rank - 1 - i);
    pad_[i] = both_sides ? list[at] : list[i];
    pad_after_[i] = both_sides ? list[at + 1] : list[i];
  }
}

void ConvParams::CheckWeight(const Shape& weight) const {
  if (weight.rank() != rank_ + 2) {
    Throw("expected a weight of rank " + std::to_string(rank_ + 2) + ", got " + weight.ToString());
  }
  // Output channels come first; a transposed convolution has its input channels there.
  if (weight[0] % groups_ != 0) {
    Throw("expected " + std::string(transposed_ ? "input" : "output") +
          " channels that divide into " + std::to_string(groups_) + " groups, got weight " +
          weight.ToString());
  }
  for (int i = 0; i < rank_; ++i) {
    if (weight[i + 2] < 1)
      Throw("expected a kernel of at least 1, got weight " + weight.ToString());
  }
}

void ConvParams::CheckWeight(const LayerInit& init, const Shape& weight) const {
  CheckWeight(weight);
  const int64_t others = CheckedMultiply(weight[1], groups_);
  CheckRepeated(init, "in_channels", {transposed_ ? weight[0] : others});
  CheckRepeated(init, "out_channels", {transposed_ ? others : weight[0]});
  CheckRepeated(init, "kernel_size", {weight.begin() + 2, weight.end()});
}

ConvAxis ConvParams::Axis(int axis, int64_t in, int64_t kernel) const {
  const size_t i = static_cast<size_t>(axis);
  ConvAxis result{in, 0, kernel, stride_[i], dilation_[i], pad_[i], pad_after_[i]};
  const int64_t reach = Reach(kernel, dilation_[i]);
  if (same_) {
    result.pad = (reach - 1) / 2;
    result.pad_after = reach - 1 - result.pad;
  }
  const int64_t padded = CheckedAdd(CheckedAdd(in, result.pad), result.pad_after);
  CheckWindowExtent(padded);
  if (padded < reach) {
    Throw("expected a padded input of at least " + std::to_string(reach) +
          " (the kernel with its dilation), got " + std::to_string(padded));
  }
  result.out = (padded - reach) / result.stride + 1;
  return result;
}

ConvAxis ConvParams::TransposedAxis(int axis, int64_t in, int64_t kernel) const {
  const size_t i = static_cast<size_t>(axis);
  ConvAxis result{in, 0, kernel, stride_[i], dilation_[i], pad_[i], pad_[i]};
  if (extra_[i] >= std::max(stride_[i], dilation_[i])) {
    Throw("expected output_padding below the stride or the dilation, got " +
          std::to_string(extra_[i]));
  }
  const int64_t reach = Reach(kernel, dilation_[i]);
  const int64_t whole = CheckedAdd(CheckedMultiply(in - 1, stride_[i]), reach);
  const int64_t last = CheckedAdd(whole, extra_[i]);
  CheckWindowExtent(last);
  result.out = last - 2 * pad_[i];
  if (in < 1 || result.out < 1) {
    Throw("expected an output of at least 1, got " + std::to_string(result.out) +
          " from an extent of " + std::to_string(in));
  }
  return result;
}

ConvGeometry ConvParams::Geometry(const Shape& input, const Shape& weight) const {
  CheckWeight(weight);
  const bool batched = input.rank() == rank_ + 2;
  if (!batched && input.rank() != rank_ + 1) {
    Throw("expected an input of rank " + std::to_string(rank_ + 1) + " or " +
          std::to_string(rank_ + 2) + ", got " + input.ToString());
  }
  const int channel_axis = batched ? 1 : 0;
  ConvGeometry g;
  g.groups = groups_;
  g.batch = batched ? input[0] : 1;
  g.in_channels = input[channel_axis];
  const int64_t expected = transposed_ ? weight[0] : CheckedMultiply<int64_t>(weight[1], groups_);
  if (g.in_channels != expected) {
    Throw("expected " + std::to_string(expected) + " input channels (weight " + weight.ToString() +
          ", groups=" + std::to_string(groups_) + "), got input " + input.ToString());
  }
  g.out_channels = transposed_ ? CheckedMultiply<int64_t>(weight[1], groups_) : weight[0];
  g.output = input;
  g.output[channel_axis] = g.out_channels;
  for (int i = 0; i < rank_; ++i) {
    const int axis = channel_axis + 1 + i;
    ConvAxis& target = g.axes[static_cast<size_t>(3 - rank_ + i)];
    try {
      target = transposed_ ? TransposedAxis(i, input[axis], weight[i + 2])
                           : Axis(i, input[axis], weight[i + 2]);
    } catch (const Error& error) {
      throw error.WithContext(AxisText(axis, input) + ": ");
    }
    g.output[axis] = target.out;
  }
  // Throw where the extents multiply to too much, also where another extent is 0.
  int64_t in = 1, out = 1, taps = 1;
  for (const ConvAxis& axis : g.axes) {
    in = CheckedMultiply(in, axis.in);
    out = CheckedMultiply(out, axis.out);
    taps = CheckedMultiply(taps, axis.kernel);
  }
  g.output.elements();
  return g;
}

namespace {

std::string Number(int spatial_rank) { return std::to_string(spatial_rank) + "d"; }

/// `pads`: how many elements `padding` has, or -1 where that is for ConvParams to say.
void AddParams(OperatorSchema& schema, int rank, bool transposed, int pads) {
  schema.Ints("stride", rank, Value(1)).AtLeast(1);
  schema.Ints("padding", pads, Value(0)).AtLeast(0);
  if (!transposed) schema.OneOf({"same", "valid"});
  if (transposed) schema.Ints("output_padding", rank, Value(0)).AtLeast(0);
  // torch's order of arguments differs between the two.
  if (transposed) schema.Int("groups", 1).AtLeast(1);
  schema.Ints("dilation", rank, Value(1)).AtLeast(1);
  if (!transposed) schema.Int("groups", 1).AtLeast(1);
}

DTypeSet ConvDTypes(bool transposed) {
  const DTypeSet both = kFloats | DType::kC64 | DType::kC128;
  return transposed ? both | DType::kI64 : both | kIntegers;
}

const char* Doc(bool transposed) {
  return transposed ? "Transposed convolution: scatters each input over the kernel's window"
                    : "Convolution (cross-correlation), with or without a batch axis";
}

}  // namespace

namespace {

/// The NHWC form pads with zeros and has an f32 weight of its own. A depthwise convolution, with
/// one filter a channel, is too little work to pay for converting an image.
NhwcRole ConvNhwcRole(const Operator& op, int) {
  const auto weight = op.attributes.find("weight");
  const bool plain = weight != op.attributes.end() && weight->second.dtype() == DType::kF32 &&
                     weight->second.rank() == 4 && weight->second.has_data() &&
                     op.inputs.size() == 1 && ParamText(op, "padding_mode", "zeros") == "zeros";
  if (!plain) return NhwcRole::kNone;
  const bool depthwise = weight->second.dim(1) == 1 && ParamText(op, "groups", "1") != "1";
  return depthwise ? NhwcRole::kFollows : NhwcRole::kBegins;
}

}  // namespace

OperatorSchema ConvModuleSchema(int spatial_rank, bool transposed) {
  const std::string type = transposed ? "nn.ConvTranspose" : "nn.Conv";
  OperatorSchema schema({type + Number(spatial_rank)}, Doc(transposed));
  const DTypeSet dtypes = ConvDTypes(transposed);
  schema.Tensor("input", dtypes).Attribute("weight", dtypes).OptionalAttribute("bias", dtypes);
  AddParams(schema, spatial_rank, transposed, transposed ? spatial_rank : -1);
  if (transposed) {
    schema.String("padding_mode", "zeros").OneOf({"zeros"});
  } else {
    schema.String("padding_mode", "zeros").OneOf({"zeros", "reflect", "replicate", "circular"});
  }
  schema.Ignored("in_channels").Ignored("out_channels").Ignored("kernel_size").Ignored("bias");
  schema.Product();
  if (spatial_rank == 2 && !transposed) schema.HasNhwcForm("nhwc.Conv2d", ConvNhwcRole);
  return schema;
}

OperatorSchema ConvFunctionSchema(int spatial_rank, bool transposed) {
  const std::string type = transposed ? "F.conv_transpose" : "F.conv";
  OperatorSchema schema({type + Number(spatial_rank)}, Doc(transposed));
  const DTypeSet dtypes = ConvDTypes(transposed);
  schema.Tensor("input", dtypes).Tensor("weight", dtypes).OptionalTensor("bias", dtypes);
  AddParams(schema, spatial_rank, transposed, spatial_rank);
  return schema;
}

}  // namespace oort
