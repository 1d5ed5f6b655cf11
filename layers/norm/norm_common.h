// SPDX-License-Identifier: MIT
// What normalizations share: their weights, their statistics, and inputs seen as channels.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/scratch_vector.h"
#include "layers/norm/device_norm.h"
#include "layers/norm/norm_kernels.h"
#include "layers/reduction/reduce_kernels.h"
#include "layers/weight_arg.h"
#include "oort/layer.h"

namespace oort {

/// A weight of a normalization, which may run on the GPU.
class NormWeight : public WeightArg {
 public:
  NormWeight(const LayerInit& init, const std::string& name);
  /// As f32 or f64 on the device that the layer was made for; undefined if absent.
  Tensor OnDevice(const Args& args) const;

 private:
  Tensor uploaded_;  // where it is constant and the layer is on the GPU
};

template <typename T>
const T* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

/// 1 / sqrt(variance + eps)
inline double InverseDeviation(const Moments& moments, int64_t count, double eps) {
  // Rounding may leave a variance slightly below zero, which becomes zero. NaN must stay NaN.
  const double squares = moments.squares < 0 ? 0 : moments.squares;
  return 1 / std::sqrt(squares / static_cast<double>(count) + eps);
}

/// (x - mean) * scale + shift, with the part of the mean that f32 cannot hold in the shift.
inline Affine CenteredAffine(double mean, double scale, double shift) {
  const float center = static_cast<float>(mean);
  const double rest = std::isfinite(mean) ? static_cast<double>(center) - mean : 0;
  return {center, static_cast<float>(scale), static_cast<float>(shift + rest * scale)};
}

/// What nn.BatchNorm* and nn.InstanceNorm* declare alike: they keep statistics from training.
inline OperatorSchema StatisticsModuleSchema(const std::string& type, const char* doc) {
  return OperatorSchema({type}, doc)
      .Tensor("input", kFloats)
      .OptionalAttribute("running_mean")
      .OptionalAttribute("running_var")
      .OptionalAttribute("weight")
      .OptionalAttribute("bias")
      .Float("eps", 1e-5)
      .Ignored("num_features")
      .Ignored("affine")
      .Ignored("momentum")
      .Ignored("track_running_stats");
}

/// An input as (outer, channels, inner).
struct ChannelView {
  int64_t outer, channels, inner;
};

/// (x - center) * scale + shift for each channel.
struct ChannelAffine {
  ScratchVector<double> center, scale, shift;
  explicit ChannelAffine(int64_t channels)
      : center(static_cast<size_t>(channels), 0.0),
        scale(static_cast<size_t>(channels), 1.0),
        shift(static_cast<size_t>(channels), 0.0) {}
};

struct NormTables {
  explicit NormTables(Isa isa) : norm(NormKernelsFor(isa)), reduce(ReduceKernelsFor(isa)) {}
  const NormKernels& norm;
  const ReduceKernels& reduce;
};

void ApplyChannels(const Context& context, const NormTables& tables, const Tensor& x, Tensor& y,
                   const ChannelView& view, const ChannelAffine& affine);

/// Each of `groups` runs of channels of each outer element gets mean 0 and variance 1, then the
/// channel's weight and bias (f64, possibly undefined).
void NormalizeGroups(const Context& context, const NormTables& tables, const Tensor& x, Tensor& y,
                     const ChannelView& view, int64_t groups, double eps, const Tensor& weight,
                     const Tensor& bias);

/// The same on the GPU; weight and bias are there, too, in f32.
void NormalizeGroupsOnDevice(const Context& context, const Tensor& x, Tensor& y,
                             const ChannelView& view, int64_t groups, double eps,
                             const Tensor& weight, const Tensor& bias);

/// Mean and 1/deviation of each channel over outer and inner, as an affine map.
ChannelAffine BatchStatistics(const Context& context, const NormTables& tables, const Tensor& x,
                              const ChannelView& view, double eps);

/// Stored statistics (f64) as an affine map.
ChannelAffine StoredStatistics(const Tensor& mean, const Tensor& variance, double eps);

/// Applies weight and bias (f64, possibly undefined) after what is there.
void AddWeights(ChannelAffine& affine, const Tensor& weight, const Tensor& bias);

/// Rows that are worth a thread of their own.
inline int64_t RowGrain(int64_t row_elements) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row_elements));
}

}  // namespace oort
