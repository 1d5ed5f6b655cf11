// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/conv_algorithms.h"

#include "layers/convolution/cuda/narrow_conv.h"

namespace oort::cuda {
namespace {

class DepthwiseAlgorithm final : public CudaConvAlgorithm {
 public:
  DepthwiseAlgorithm() : CudaConvAlgorithm(kConvDepthwise) {}
  bool Accepts(const ConvProblem& p) const override { return p.depthwise() != nullptr; }
  bool Wins(const ConvProblem&) const override { return true; }
  void Run(const Stream& stream, const ConvProblem& p, bool overlap) const override {
    ConvCall call = p.call();
    call.weight = p.depthwise();
    ConvolveDepthwise(stream, call, p.math(), overlap);
  }
};

class NarrowAlgorithm final : public CudaConvAlgorithm {
 public:
  NarrowAlgorithm() : CudaConvAlgorithm(kConvNarrow) {}
  bool Accepts(const ConvProblem& p) const override { return ConvolvesNarrow(p.call(), p.math()); }
  bool Wins(const ConvProblem&) const override { return true; }
  void Run(const Stream& stream, const ConvProblem& p, bool overlap) const override {
    ConvolveNarrow(stream, p.call(), p.math(), overlap);
  }
};

/// A product of tiles, whose plan says which; there are two kinds of tiles.
class ImplicitGemmAlgorithm final : public CudaConvAlgorithm {
 public:
  ImplicitGemmAlgorithm(std::string_view name, ConvTileKind kind)
      : CudaConvAlgorithm(name), kind_(kind) {}
  bool Accepts(const ConvProblem& p) const override {
    return Convolves(p.call(), p.math()) && HasConvTiles(p.call(), p.math(), kind_, p.device());
  }
  /// The plan has the cheaper kind.
  bool Wins(const ConvProblem& p) const override { return KindOf(p.math(), p.plan()) == kind_; }
  void Run(const Stream& stream, const ConvProblem& p, bool overlap) const override {
    const ConvPlan plan =
        Wins(p) ? p.plan() : ChooseConvPlan(p.call(), p.math(), p.device(), kind_);
    Convolve(stream, p.call(), p.math(), plan, overlap);
  }

 private:
  ConvTileKind kind_;
};

class DirectAlgorithm final : public CudaConvAlgorithm {
 public:
  DirectAlgorithm() : CudaConvAlgorithm(kConvDirect) {}
  bool Accepts(const ConvProblem&) const override { return true; }
  bool Wins(const ConvProblem&) const override { return true; }
  void Run(const Stream& stream, const ConvProblem& p, bool overlap) const override {
    ConvolvePlain(stream, p.call(), p.math(), overlap);
  }
};

}  // namespace

std::span<const CudaConvAlgorithm* const> CudaConvAlgorithms() {
  // Each channel has one filter of its own, so that there is nothing for tensor cores.
  static const DepthwiseAlgorithm kDepthwise;
  // 8 channels of 16 bits: a whole window is less than a step of the tiles below.
  static const NarrowAlgorithm kNarrow;
  // Hopper's copy engine and warpgroups: many tiles, of 16 bits, with whole pieces of 8 channels.
  static const ImplicitGemmAlgorithm kTma(kConvImplicitGemmTma, ConvTileKind::kTma);
  // All others whose channels are whole words.
  static const ImplicitGemmAlgorithm kGemm(kConvImplicitGemm, ConvTileKind::kMma);
  // What is left over: odd channels of 16 bits, and images beyond 31 bits.
  static const DirectAlgorithm kDirect;
  static const CudaConvAlgorithm* const kList[] = {&kDepthwise, &kNarrow, &kTma, &kGemm, &kDirect};
  return kList;
}

void RunConv(const Stream& stream, const ConvProblem& problem, std::string_view wanted,
             bool overlap) {
  const auto list = CudaConvAlgorithms();
  list[ChooseConv(list, problem, wanted)]->Run(stream, problem, overlap);
}

}  // namespace oort::cuda
