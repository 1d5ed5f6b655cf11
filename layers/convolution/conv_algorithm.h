// SPDX-License-Identifier: MIT
// The ways to compute a convolution. Each layout on each device has one list of them: the first
// entry that accepts a problem and wins it is taken, unless another one is asked for by its name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "oort/layer.h"

namespace oort {

/// What algorithms are called. One that several lists have in forms of their own has one name.
inline constexpr std::string_view kConvDepthwise = "depthwise", kConvMatrixUnit = "matrix-unit",
                                  kConvWinogradF2 = "winograd-f2", kConvWinogradF4 = "winograd-f4",
                                  kConvWinogradF6 = "winograd-f6",
                                  kConvWinogradStride2 = "winograd-stride2", kConvDirect = "direct",
                                  kConvImplicitGemm = "implicit-gemm", kConvIm2col = "im2col",
                                  kConvNarrow = "narrow",
                                  kConvImplicitGemmTma = "implicit-gemm-tma";
inline constexpr std::array kConvAlgorithmNames = {
    kConvDepthwise,  kConvMatrixUnit,      kConvWinogradF2,     kConvWinogradF4,
    kConvWinogradF6, kConvWinogradStride2, kConvDirect,         kConvImplicitGemm,
    kConvIm2col,     kConvNarrow,          kConvImplicitGemmTma};

/// One way to compute problems of a kind. It has no state: who derives from this class adds what
/// packs weights, and what runs on them.
template <typename Problem>
class ConvAlgorithm {
 public:
  explicit ConvAlgorithm(std::string_view name) : name_(name) {}
  ConvAlgorithm(const ConvAlgorithm&) = delete;
  ConvAlgorithm& operator=(const ConvAlgorithm&) = delete;
  virtual ~ConvAlgorithm() = default;

  std::string_view name() const { return name_; }
  /// Whether it computes the problem at all.
  virtual bool Accepts(const Problem& problem) const = 0;
  /// Whether it is faster than all that stand behind it in the list; asked where it accepts.
  virtual bool Wins(const Problem& problem) const = 0;

 private:
  std::string_view name_;
};

/// The place in `list` of the algorithm called `wanted`, if it is there and accepts the problem;
/// else of the first one that accepts the problem and wins it. The list's last entries leave
/// nothing over.
template <typename Algorithm, typename Problem>
size_t ChooseConv(std::span<const Algorithm* const> list, const Problem& problem,
                  std::string_view wanted) {
  const auto first = [&](const auto& fits) {
    return static_cast<size_t>(std::ranges::find_if(list, fits) - list.begin());
  };
  if (!wanted.empty()) {
    const size_t found = first([&](const Algorithm* algorithm) {
      return algorithm->name() == wanted && algorithm->Accepts(problem);
    });
    if (found < list.size()) return found;
  }
  const size_t found = first([&](const Algorithm* algorithm) {
    return algorithm->Accepts(problem) && algorithm->Wins(problem);
  });
  if (found < list.size()) return found;
  throw Error(ErrorCode::kInternal, "no algorithm computes this convolution");
}

/// The parameter that asks for an algorithm. It is not in files that pnnx writes: the runtime sets
/// it where the model is loaded with LoadOptions::conv_algorithm.
inline constexpr char kConvAlgorithmParam[] = "conv_algorithm";

inline OperatorSchema& AddConvAlgorithmParam(OperatorSchema& schema) {
  std::vector<std::string> names(kConvAlgorithmNames.begin(), kConvAlgorithmNames.end());
  names.insert(names.begin(), "auto");
  return schema.String(kConvAlgorithmParam, "auto").OneOf(std::move(names));
}

/// The name, empty where none is asked for.
inline std::string ReadConvAlgorithm(const LayerInit& init) {
  const std::string& name = init.String(kConvAlgorithmParam);
  return name == "auto" ? "" : name;
}

}  // namespace oort
