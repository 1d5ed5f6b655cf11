// SPDX-License-Identifier: MIT
#include "layers/pooling/window.h"

#include "core/checked.h"
#include "layers/nhwc_role.h"
#include "layers/window_bounds.h"

namespace oort {
namespace {

/// The list `name` with one value for each spatial axis, in the last of three places.
void ReadAxes(const LayerInit& init, std::string_view name, int rank,
              std::array<int64_t, 3>& axes) {
  const Value& value = init.Constant(name);
  if (value.IsNone()) return;
  const std::vector<int64_t> list = value.AsInts();
  if (list.size() != 1 && list.size() != static_cast<size_t>(rank)) {
    throw Error(ErrorCode::kInvalidArgument, std::string(name) + " has " +
                                                 std::to_string(list.size()) + " values for " +
                                                 std::to_string(rank) + " spatial axes");
  }
  for (int i = 0; i < rank; ++i) {
    axes[static_cast<size_t>(3 - rank + i)] = list.size() == 1 ? list[0] : list[i];
  }
}

void CheckAxis(int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  CheckWindowNumber("kernel_size", kernel, 1);
  CheckWindowNumber("stride", stride, 1);
  CheckWindowNumber("padding", pad, 0);
  CheckWindowNumber("dilation", dilation, 1);
  if (pad > kernel / 2) {
    throw Error(ErrorCode::kInvalidArgument, "padding " + std::to_string(pad) +
                                                 " is over half the kernel size " +
                                                 std::to_string(kernel));
  }
}

}  // namespace

WindowParams::WindowParams(const LayerInit& init, int spatial_rank) : rank_(spatial_rank) {
  ReadAxes(init, "kernel_size", rank_, kernel_);
  stride_ = kernel_;
  ReadAxes(init, "stride", rank_, stride_);
  ReadAxes(init, "padding", rank_, pad_);
  ReadAxes(init, "dilation", rank_, dilation_);
  ceil_mode_ = init.Bool("ceil_mode");
  for (size_t i = 0; i < 3; ++i) CheckAxis(kernel_[i], stride_[i], pad_[i], dilation_[i]);
}

PoolGeometry WindowParams::Geometry(const Shape& input) const {
  CheckPoolInput(input, rank_);
  PoolGeometry geometry;
  geometry.output = input;
  geometry.planes = input.Product(0, input.rank() - rank_);
  for (int i = 3 - rank_; i < 3; ++i) {
    const size_t a = static_cast<size_t>(i);
    const int axis = input.rank() - 3 + i;
    const int64_t in = input[axis], pad = pad_[a], stride = stride_[a];
    // kernel, dilation and padding are below 2^31, so only the extent can overflow.
    const int64_t spread = dilation_[a] * (kernel_[a] - 1) + 1;
    const int64_t padded = CheckedAdd(in, 2 * pad), room = padded - spread;
    CheckWindowExtent(padded);
    int64_t out = 0;
    if (room >= 0) {
      out = (ceil_mode_ ? room + stride - 1 : room) / stride + 1;
      // The last window must start in the input or in the padding before it.
      if (ceil_mode_ && (out - 1) * stride >= in + pad) --out;
    } else if (ceil_mode_ && room > -stride) {
      out = 1;
    }
    if (out <= 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "no window fits: kernel_size " + std::to_string(kernel_[a]) + " with dilation " +
                      std::to_string(dilation_[a]) + " and padding " + std::to_string(pad) +
                      " on axis " + std::to_string(axis) + " of input " + input.ToString());
    }
    geometry.window[a] = {in, out, kernel_[a], stride, pad, dilation_[a]};
    geometry.output[axis] = out;
  }
  geometry.output.elements();  // throws where the output is too large to exist
  return geometry;
}

int64_t WindowParams::KernelElements() const {
  return CheckedMultiply(CheckedMultiply(kernel_[0], kernel_[1]), kernel_[2]);
}

void CheckPoolInput(const Shape& input, int spatial_rank) {
  if (input.rank() != spatial_rank + 1 && input.rank() != spatial_rank + 2) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected an input of rank " + std::to_string(spatial_rank + 1) + " or " +
                    std::to_string(spatial_rank + 2) + ", got " + input.ToString());
  }
  for (int i = input.rank() - spatial_rank; i < input.rank(); ++i) {
    if (input[i] == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  "expected spatial extents above zero, got input " + input.ToString());
    }
  }
}

NhwcRole FollowsWithoutIndices(const Operator& op, int) {
  const bool indices = ParamText(op, "return_indices", "False") != "False";
  return indices || op.outputs.size() != 1 ? NhwcRole::kNone : NhwcRole::kFollows;
}

std::vector<std::string> PoolTypes(const std::string& module, const std::string& function,
                                   int rank) {
  const std::string suffix = std::to_string(rank) + "d";
  return {"nn." + module + suffix, "F." + function + suffix};
}

}  // namespace oort
