// SPDX-License-Identifier: MIT
#include "layers/convolution/nhwc/conv_algorithms.h"

#include <algorithm>

#include "layers/convolution/depthwise/depthwise.h"
#include "layers/convolution/direct/direct_conv.h"
#include "layers/convolution/implicit_gemm/implicit_gemm_conv.h"
#include "layers/convolution/matrix_unit/matrix_unit_conv.h"
#include "layers/convolution/winograd/winograd.h"

namespace oort {
namespace {

template <typename T>
class Depthwise final : public NhwcConvAlgorithm<T> {
 public:
  Depthwise() : NhwcConvAlgorithm<T>(kConvDepthwise) {}
  bool Accepts(const NhwcConvProblem& p) const override {
    return p.groups > 1 && p.weight[1] == 1 && p.weight[0] == p.groups;
  }
  bool Wins(const NhwcConvProblem&) const override { return true; }
  std::unique_ptr<PreparedNhwcConv<T>> Prepare(const NhwcConvProblem& p, const Tensor& weight,
                                               const Tensor& bias) const override {
    return std::make_unique<Prepared>(p.isa, weight, bias);
  }

 private:
  class Prepared final : public PreparedNhwcConv<T> {
   public:
    Prepared(Isa isa, const Tensor& weight, const Tensor& bias) : conv_(isa, weight) {
      if (bias.defined()) bias_ = bias.To(kDTypeOf<T>);
    }
    size_t Scratch(const ConvGeometry&, int64_t, int, bool) const override { return 0; }
    void Run(const Context& context, const ConvGeometry& g,
             const ConvOperandsOf<T>& operands) const override {
      const T* bias = bias_.defined() ? bias_.template data<T>() : nullptr;
      conv_.Run(context, g, {static_cast<const ConvImagesOf<T>&>(operands), bias});
    }

   private:
    DepthwiseConvOf<T> conv_;
    Tensor bias_;
  };
};

template <typename T>
class Direct final : public NhwcConvAlgorithm<T> {
 public:
  Direct() : NhwcConvAlgorithm<T>(kConvDirect) {}
  bool Accepts(const NhwcConvProblem&) const override { return true; }
  bool Wins(const NhwcConvProblem& p) const override {
    // Fewer factors than a unit for windows multiplies at once are best left in f32.
    const bool few =
        p.gemm().windows != nullptr && p.weight.Product(1, 4) < GemmWindowKernels::kStep;
    return !p.rounds() || few;
  }
  std::unique_ptr<PreparedNhwcConv<T>> Prepare(const NhwcConvProblem& p, const Tensor& weight,
                                               const Tensor& bias) const override {
    return std::make_unique<Prepared>(p.isa, weight, bias, p.groups);
  }

 private:
  class Prepared final : public PreparedNhwcConv<T> {
   public:
    Prepared(Isa isa, const Tensor& weight, const Tensor& bias, int64_t groups)
        : conv_(isa, weight, bias, groups) {}
    bool TakesScale(const ConvGeometry& g) const override { return conv_.TakesScale(g); }
    size_t Scratch(const ConvGeometry& g, int64_t, int threads, bool scaled) const override {
      return conv_.Workspace(g, threads, scaled);
    }
    void Run(const Context& context, const ConvGeometry& g,
             const ConvOperandsOf<T>& operands) const override {
      conv_.Run(context, g, operands);
    }

   private:
    DirectConvOf<T> conv_;
  };
};

/// Units for tiles of f16, or for tiles of bf16, which floats are rounded to.
template <typename T>
class MatrixUnit final : public NhwcConvAlgorithm<T> {
 public:
  MatrixUnit() : NhwcConvAlgorithm<T>(kConvMatrixUnit) {}
  bool Accepts(const NhwcConvProblem& p) const override {
    const auto* kernels = KernelsOf(p);
    return kernels != nullptr && MatrixUnitConvOf<T>::Fits(*kernels, p.weight, p.groups);
  }
  bool Wins(const NhwcConvProblem&) const override { return true; }
  std::unique_ptr<PreparedNhwcConv<T>> Prepare(const NhwcConvProblem& p, const Tensor& weight,
                                               const Tensor& bias) const override {
    return std::make_unique<Prepared>(p, weight, bias);
  }

 private:
  static const typename MatrixUnitConvOf<T>::Kernels* KernelsOf(const NhwcConvProblem& p) {
    if constexpr (std::is_same_v<T, Half>) {
      return FindTileKernelsF16(p.isa);
    } else {
      return p.rounds() ? &p.gemm() : nullptr;
    }
  }

  class Prepared final : public PreparedNhwcConv<T> {
   public:
    Prepared(const NhwcConvProblem& p, const Tensor& weight, const Tensor& bias)
        : unit_(*KernelsOf(p), weight, bias) {
      if (unit_.may_refuse()) direct_.emplace(p.isa, weight, bias, p.groups);
    }
    size_t Scratch(const ConvGeometry& g, int64_t in_pixel, int threads, bool) const override {
      return std::max(unit_.Workspace(g, in_pixel), direct_ ? direct_->Workspace(g, threads) : 0);
    }
    void Run(const Context& context, const ConvGeometry& g,
             const ConvOperandsOf<T>& operands) const override {
      if (!unit_.Run(context, g, operands)) direct_->Run(context, g, operands);
    }

   private:
    MatrixUnitConvOf<T> unit_;
    std::optional<DirectConvOf<T>> direct_;  // for the images that the unit may refuse
  };
};

template <typename T>
class Winograd final : public NhwcConvAlgorithm<T> {
 public:
  Winograd(std::string_view name, WinogradVariant variant)
      : NhwcConvAlgorithm<T>(name), variant_(variant) {}
  bool Accepts(const NhwcConvProblem& p) const override {
    const bool fits = p.groups == 1 && p.weight[2] == 3 && p.weight[3] == 3;
    const int64_t stride = WinogradStride(variant_);
    return fits && p.dilation == std::array<int64_t, 2>{1, 1} &&
           p.stride == std::array{stride, stride} &&
           WinogradConvOf<T>::Has(variant_, p.isa, RoundingOf(p));
  }
  bool Wins(const NhwcConvProblem& p) const override {
    // Rounded coefficients cost half as much again in exactness as rounded pixels: that is little
    // where the sum goes to a residual, which is exact.
    if (!p.traced || (p.rounds() && !p.more_inputs)) return false;
    WinogradSize size = SizeOf(*p.traced);
    size.stride = WinogradStride(variant_);
    return WinogradConvOf<T>::Choose(size, p.isa, RoundingOf(p)) == variant_;
  }
  std::unique_ptr<PreparedNhwcConv<T>> Prepare(const NhwcConvProblem& p, const Tensor& weight,
                                               const Tensor& bias) const override {
    return std::make_unique<Prepared>(p.isa, weight, bias, variant_, RoundingOf(p));
  }

 private:
  static const GemmKernels* RoundingOf(const NhwcConvProblem& p) {
    return p.rounds() ? &p.gemm() : nullptr;
  }
  static WinogradSize SizeOf(const ConvGeometry& g) {
    return {g.batch, g.axes[1].out, g.axes[2].out, g.in_channels, g.out_channels};
  }

  class Prepared final : public PreparedNhwcConv<T> {
   public:
    Prepared(Isa isa, const Tensor& weight, const Tensor& bias, WinogradVariant variant,
             const GemmKernels* rounding)
        : conv_(isa, weight, bias, variant, rounding) {}
    size_t Scratch(const ConvGeometry& g, int64_t, int threads, bool) const override {
      return conv_.Workspace(SizeOf(g), threads);
    }
    void Run(const Context& context, const ConvGeometry& g,
             const ConvOperandsOf<T>& operands) const override {
      WinogradCallOf<T> call;
      call.input = operands.in;
      call.batch = g.batch;
      call.height = g.axes[1].in;
      call.width = g.axes[2].in;
      call.input_stride = operands.in_pixel;
      call.pad_top = g.axes[1].pad;
      call.pad_left = g.axes[2].pad;
      call.output = operands.out;
      call.out_height = g.axes[1].out;
      call.out_width = g.axes[2].out;
      call.output_stride = call.add_stride = operands.out_pixel;
      call.add = operands.addend;
      call.activation = operands.activation;
      conv_.Run(call, context.threads(), context.workspace());
    }

   private:
    WinogradConvOf<T> conv_;
  };

  WinogradVariant variant_;
};

/// A product of packed pixels: what is left to kernels that round, or may be forced.
class ImplicitGemm final : public NhwcConvAlgorithm<float> {
 public:
  ImplicitGemm() : NhwcConvAlgorithm<float>(kConvImplicitGemm) {}
  bool Accepts(const NhwcConvProblem&) const override { return true; }
  bool Wins(const NhwcConvProblem&) const override { return true; }
  std::unique_ptr<PreparedNhwcConv<float>> Prepare(const NhwcConvProblem& p, const Tensor& weight,
                                                   const Tensor& bias) const override {
    return std::make_unique<Prepared>(p, weight, bias);
  }

 private:
  class Prepared final : public PreparedNhwcConv<float> {
   public:
    Prepared(const NhwcConvProblem& p, const Tensor& weight, const Tensor& bias)
        : conv_(p.isa, p.gemm(), weight, bias, p.groups) {}
    bool TakesScale(const ConvGeometry& g) const override { return conv_.TakesScale(g); }
    size_t Scratch(const ConvGeometry& g, int64_t, int threads, bool) const override {
      return conv_.Workspace(g, threads);
    }
    void Run(const Context& context, const ConvGeometry& g,
             const ConvOperandsOf<float>& operands) const override {
      conv_.Run(context, g, operands);
    }

   private:
    ImplicitGemmConv conv_;
  };
};

}  // namespace

template <typename T>
std::span<const NhwcConvAlgorithm<T>* const> NhwcConvAlgorithms() {
  // Each channel has one filter of its own, so that there is nothing to multiply as matrices.
  static const Depthwise<T> kDepthwise;
  // AMX: faster than any transform, wherever it has tiles for the channels or the precision.
  static const MatrixUnit<T> kMatrixUnit;
  // 3x3 with enough channels and pixels to pay for the transforms, by a model of their time.
  static const Winograd<T> kF2(kConvWinogradF2, WinogradVariant::kF2);
  static const Winograd<T> kF4(kConvWinogradF4, WinogradVariant::kF4);
  static const Winograd<T> kF6(kConvWinogradF6, WinogradVariant::kF6);
  static const Winograd<T> kStride2(kConvWinogradStride2, WinogradVariant::kStride2);
  // All others in f32 and f16: nothing is copied, filters meet the pixels where they lie.
  static const Direct<T> kDirect;
  if constexpr (std::is_same_v<T, float>) {
    // Pixels must be rounded to bf16 and packed on the way to the product, so they are gathered.
    static const ImplicitGemm kImplicitGemm;
    static const NhwcConvAlgorithm<T>* const kList[] = {
        &kDepthwise, &kMatrixUnit, &kF2, &kF4, &kF6, &kStride2, &kDirect, &kImplicitGemm};
    return kList;
  } else {
    static const NhwcConvAlgorithm<T>* const kList[] = {&kDepthwise, &kMatrixUnit, &kF2,    &kF4,
                                                        &kF6,        &kStride2,    &kDirect};
    return kList;
  }
}

template std::span<const NhwcConvAlgorithm<float>* const> NhwcConvAlgorithms<float>();
template std::span<const NhwcConvAlgorithm<Half>* const> NhwcConvAlgorithms<Half>();

}  // namespace oort
