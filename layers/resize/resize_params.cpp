// SPDX-License-Identifier: MIT
#include "layers/resize/resize_params.h"

namespace oort {
namespace {

[[noreturn]] void FailResize(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// One value for each of `count` axes, from a number or a list.
template <typename Number>
std::vector<Number> Spread(std::vector<Number> values, int count, const char* what) {
  if (values.size() == 1) values.resize(static_cast<size_t>(count), values[0]);
  if (values.size() != static_cast<size_t>(count)) {
    FailResize(std::string(what) + " has " + std::to_string(values.size()) + " values for " +
               std::to_string(count) + " spatial axes");
  }
  return values;
}

int64_t Scaled(int64_t extent, double factor) {
  if (!(factor > 0)) FailResize("scale_factor " + Value(factor).ToString() + " is not above zero");
  const double scaled = std::floor(static_cast<double>(extent) * factor);
  if (!(scaled < 0x1p53)) FailResize("scale_factor " + Value(factor).ToString() + " is too large");
  return static_cast<int64_t>(scaled);
}

}  // namespace

ResizeParams::ResizeParams(const LayerInit& init, const char* mode, bool align_corners,
                           bool antialias)
    : size_(init.Arg("size")),
      scale_factor_(init.Arg("scale_factor")),
      axis_factors_{init.Arg("scales_d"), init.Arg("scales_h"), init.Arg("scales_w")},
      mode_name_(mode != nullptr ? mode : init.String("mode")),
      align_corners_(align_corners),
      align_corners_arg_(init.Arg("align_corners")),
      antialias_(antialias) {
  const auto flag = [&](const char* name) {
    const Value& value = init.Constant(name);
    return !value.IsNone() && value.AsBool();
  };
  recompute_ = flag("recompute_scale_factor");
  antialias_ = antialias_ || flag("antialias");
  mode_ = mode_name_ == "nearest"         ? ResizeMode::kNearest
          : mode_name_ == "nearest-exact" ? ResizeMode::kNearestExact
          : mode_name_ == "area"          ? ResizeMode::kArea
          : mode_name_ == "bicubic"       ? ResizeMode::kCubic
                                          : ResizeMode::kLinear;
  const bool copies = mode_ == ResizeMode::kNearest || mode_ == ResizeMode::kNearestExact ||
                      mode_ == ResizeMode::kArea;
  if (copies && (align_corners_ || flag("align_corners"))) {
    FailResize("align_corners=True does not go with mode " + mode_name_);
  }
  if (antialias_ && mode_name_ != "bilinear" && mode_name_ != "bicubic") {
    FailResize("antialias=True takes mode bilinear or bicubic, got " + mode_name_);
  }
}

void ResizeParams::CheckRank(const Shape& input) const {
  const int wanted = mode_name_ == "linear"                                ? 3
                     : mode_name_ == "bilinear" || mode_name_ == "bicubic" ? 4
                     : mode_name_ == "trilinear"                           ? 5
                                                                           : 0;
  if (wanted != 0 ? input.rank() != wanted : input.rank() < 3 || input.rank() > 5) {
    FailResize("mode " + mode_name_ + " takes an input of rank " +
               (wanted != 0 ? std::to_string(wanted) : "3 to 5") + ", got " + input.ToString());
  }
}

ResizeGeometry ResizeParams::Geometry(const Shape& input, const Args& args) const {
  CheckRank(input);
  const int rank = input.rank() - 2;
  std::vector<int64_t> sizes;
  std::vector<double> factors;
  if (args.Has(size_)) {
    sizes = Spread(args[size_].AsInts(), rank, "size");
  } else if (args.Has(scale_factor_)) {
    factors = Spread(args[scale_factor_].AsFloats(), rank, "scale_factor");
  } else if (args.Has(axis_factors_[1])) {  // an ATen form with all factors in one list
    factors = Spread(args[axis_factors_[1]].AsFloats(), rank, "scale_factors");
  } else {
    FailResize("expected size or scale_factor");
  }
  ResizeGeometry geometry;
  geometry.planes = input.Product(0, 2);
  geometry.output = input;
  for (int i = 0; i < rank; ++i) {
    const size_t a = static_cast<size_t>(i);
    ResizeAxis& axis = geometry.axes[static_cast<size_t>(3 - rank + i)];
    axis.in = input[i + 2];
    axis.out = sizes.empty() ? Scaled(axis.in, factors[a]) : sizes[a];
    if (!factors.empty() && !recompute_) axis.factor = factors[a];
    // The ATen form gives the size and, beside it, the factor that it came from.
    if (const int arg = axis_factors_[static_cast<size_t>(3 - rank + i)];
        factors.empty() && args.Has(arg)) {
      axis.factor = args[arg].AsFloat();
      Scaled(axis.in, axis.factor);
    }
    if (axis.in <= 0 || axis.out <= 0) {
      FailResize("spatial extents must be above zero: input " + input.ToString() + ", axis " +
                 std::to_string(i + 2) + " to " + std::to_string(axis.out));
    }
    geometry.output[i + 2] = axis.out;
  }
  geometry.output.elements();  // throws where the output is too large to exist
  return geometry;
}

}  // namespace oort
