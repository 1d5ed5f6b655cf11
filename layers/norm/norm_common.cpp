// SPDX-License-Identifier: MIT
#include "layers/norm/norm_common.h"

#include "core/dispatch.h"
#include "cuda/memory.h"

namespace oort {
namespace {

template <typename T>
inline constexpr bool kIsReal = kIsHalf<T> || std::is_floating_point_v<T>;

template <typename T>
Moments TakeMoments(const T* x, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) sum += ConvertElement<double>(x[i]);
  const double mean = sum / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double difference = ConvertElement<double>(x[i]) - mean;
    squares += difference * difference;
  }
  return {mean, squares};
}

template <typename T>
Moments MomentsOf(const NormTables& tables, const T* x, int64_t count) {
  if constexpr (std::is_same_v<T, float>) {
    return tables.reduce.moments(x, count);
  } else {
    return TakeMoments(x, count);
  }
}

template <typename T>
void ApplyPlane(const NormTables& tables, const T* x, T* y, int64_t count, double center,
                double scale, double shift) {
  if constexpr (std::is_same_v<T, float>) {
    tables.norm.apply(x, y, count, CenteredAffine(center, scale, shift));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      y[i] = ConvertElement<T>((ConvertElement<double>(x[i]) - center) * scale + shift);
    }
  }
}

/// (outer, channels) without inner axes, in f32: one pass over each row.
void ApplyRows(const Context& context, const NormTables& tables, const float* x, float* y,
               const ChannelView& view, const ChannelAffine& affine) {
  ScratchVector<float> center, scale, shift;
  for (size_t c = 0; c < affine.center.size(); ++c) {
    const Affine narrow = CenteredAffine(affine.center[c], affine.scale[c], affine.shift[c]);
    center.push_back(narrow.center);
    scale.push_back(narrow.scale);
    shift.push_back(narrow.shift);
  }
  context.ParallelFor(view.outer, RowGrain(view.channels), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      tables.norm.apply_each(x + n * view.channels, y + n * view.channels, view.channels,
                             center.data(), scale.data(), shift.data());
    }
  });
}

}  // namespace

NormWeight::NormWeight(const LayerInit& init, const std::string& name) : WeightArg(init, name) {
  if (init.device().type == DeviceType::kCpu || !constant().defined()) return;
  const Tensor& given = WeightValue(init, name).AsTensor();
  uploaded_ = cuda::ToDevice(given.dtype() == DType::kF64 ? given : constant(), init.device());
}

Tensor NormWeight::OnDevice(const Args& args) const {
  if (!Has(args)) return {};
  if (uploaded_.defined()) return uploaded_;
  const DType dtype = args.tensor(arg()).dtype();
  if (dtype == DType::kF32 || dtype == DType::kF64) return args.tensor(arg());
  throw Error(ErrorCode::kUnsupported, "on the GPU a computed '" + name() +
                                           "' must be of f32 or f64, got " +
                                           args.tensor(arg()).ToString());
}

void ApplyChannels(const Context& context, const NormTables& tables, const Tensor& x, Tensor& y,
                   const ChannelView& view, const ChannelAffine& affine) {
  if (x.dtype() == DType::kF32 && view.inner == 1) {
    return ApplyRows(context, tables, x.data<float>(), y.data<float>(), view, affine);
  }
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsReal<T>) {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      context.ParallelFor(
          view.outer * view.channels, RowGrain(view.inner), [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
              const size_t c = static_cast<size_t>(p % view.channels);
              ApplyPlane(tables, in + p * view.inner, out + p * view.inner, view.inner,
                         affine.center[c], affine.scale[c], affine.shift[c]);
            }
          });
    }
  });
}

void NormalizeGroupsOnDevice(const Context& context, const Tensor& x, Tensor& y,
                             const ChannelView& view, int64_t groups, double eps,
                             const Tensor& weight, const Tensor& bias) {
  if (x.elements() == 0) return;
  const NormRows rows{.rows = view.outer * groups,
                      .count = view.channels / groups * view.inner,
                      .groups = groups,
                      .inner = view.inner,
                      .eps = eps};
  NormalizeRowsOnDevice(*context.stream(), x, y, rows, weight, bias);
}

void NormalizeGroups(const Context& context, const NormTables& tables, const Tensor& x, Tensor& y,
                     const ChannelView& view, int64_t groups, double eps, const Tensor& weight,
                     const Tensor& bias) {
  if (x.elements() == 0) return;  // there may be no group at all
  const int64_t channels = view.channels / groups, size = channels * view.inner;
  const double* weights = DataOrNull<double>(weight);
  const double* biases = DataOrNull<double>(bias);
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsReal<T>) {
      const T* in = x.data<T>();
      T* out = y.data<T>();
      const auto normalize = [&](int64_t row) {
        const Moments moments = MomentsOf(tables, in + row * size, size);
        const double inverse = InverseDeviation(moments, size, eps);
        for (int64_t i = 0; i < channels; ++i) {
          const int64_t channel = row % groups * channels + i, at = row * size + i * view.inner;
          ApplyPlane(tables, in + at, out + at, view.inner, moments.mean,
                     weights != nullptr ? inverse * weights[channel] : inverse,
                     biases != nullptr ? biases[channel] : 0.0);
        }
      };
      context.ParallelFor(view.outer * groups, RowGrain(size), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) normalize(row);
      });
    }
  });
}

ChannelAffine BatchStatistics(const Context& context, const NormTables& tables, const Tensor& x,
                              const ChannelView& view, double eps) {
  ChannelAffine affine(view.channels);
  const int64_t count = view.outer * view.inner;
  VisitDType(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (kIsReal<T>) {
      const T* in = x.data<T>();
      context.ParallelFor(view.channels, RowGrain(count), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          // The moments of the planes of a channel are joined by the formula of Chan, Golub and
          // LeVeque (1979).
          Moments all{0, 0};
          for (int64_t n = 0; n < view.outer; ++n) {
            const T* plane = in + (n * view.channels + c) * view.inner;
            const Moments part = MomentsOf(tables, plane, view.inner);
            const double difference = part.mean - all.mean, share = static_cast<double>(n + 1);
            all.mean += difference / share;
            all.squares += part.squares + difference * difference *
                                              static_cast<double>(view.inner) *
                                              static_cast<double>(n) / share;
          }
          affine.center[static_cast<size_t>(c)] = all.mean;
          affine.scale[static_cast<size_t>(c)] = InverseDeviation(all, count, eps);
        }
      });
    }
  });
  return affine;
}

ChannelAffine StoredStatistics(const Tensor& mean, const Tensor& variance, double eps) {
  ChannelAffine affine(mean.elements());
  for (size_t c = 0; c < affine.center.size(); ++c) {
    affine.center[c] = mean.data<double>()[c];
    affine.scale[c] = 1 / std::sqrt(variance.data<double>()[c] + eps);
  }
  return affine;
}

void AddWeights(ChannelAffine& affine, const Tensor& weight, const Tensor& bias) {
  for (size_t c = 0; c < affine.scale.size(); ++c) {
    if (weight.defined()) {
      affine.scale[c] *= weight.data<double>()[c];
      affine.shift[c] *= weight.data<double>()[c];
    }
    if (bias.defined()) affine.shift[c] += bias.data<double>()[c];
  }
}

}  // namespace oort
