// SPDX-License-Identifier: MIT
// Which of Winograd's algorithms a convolution takes, if any.
#include <algorithm>

#include "core/checked.h"
#include "core/machine.h"
#include "layers/convolution/winograd/winograd.h"

namespace oort {
namespace {

/// Rates that the choice rests on, of one core: what several share grows with their number, near
/// enough. Only their ratios matter.
struct WinogradMachine {
  double products;  // a nanosecond
  double bytes;     // of weights from memory, a nanosecond
  double clock;     // GHz
};

/// Products in a cycle of a pipe, less what the fastest loops lose: with vectors of 512 bits the
/// clock is lower, too.
double ProductsOfPipe(Isa isa) {
  switch (isa) {
    case Isa::kAvx512: return 14.3;
    case Isa::kAvx2: return 8;
    case Isa::kNeon: return 3.94;
    default: return 0.17;
  }
}

template <typename T>
WinogradMachine MachineOf(Isa isa) {
  const Machine& machine = ThisMachine();
  const double products = machine.clock * machine.pipes * ProductsOfPipe(isa);
  return {std::is_same_v<T, Half> ? 2 * products : products, machine.memory, machine.clock};
}

/// Nanoseconds of a product that reads its weights once: the one hides most of the other.
template <typename T>
double ProductTime(const WinogradMachine& machine, double products, double weights) {
  const double compute = products / (0.9 * machine.products);
  const double read = sizeof(T) * weights / machine.bytes;
  return std::max(compute, read) + 0.1 * std::min(compute, read);
}

template <typename T>
double WinogradTime(const WinogradMachine& machine, const WinogradSize& size, Isa isa,
                    WinogradVariant variant) {
  // Cycles of the transforms for one vector of channels of a tile, measured on a Neoverse V1.
  constexpr double kInput[] = {30, 110, 400, 40}, kOutput[] = {22, 95, 380, 32};
  const WinogradKernelsOf<T>& kernels = WinogradKernelsFor<T>(isa);
  const int64_t tile = WinogradTile(variant), window = WinogradWindow(variant);
  const double tiles = static_cast<double>(size.batch) *
                       static_cast<double>(CeilDivide(size.out_height, tile)) *
                       static_cast<double>(CeilDivide(size.out_width, tile));
  const double in = static_cast<double>(CeilDivide(size.channels, kernels.width));
  const double out = static_cast<double>(CeilDivide(size.out_channels, kernels.columns));
  const double weights = static_cast<double>(window * window) * in * out *
                         static_cast<double>(kernels.width * kernels.columns);
  const double cycles = in * kInput[static_cast<int>(variant)] +
                        out * kernels.columns / kernels.width * kOutput[static_cast<int>(variant)];
  // Fewer than four tiles leave some of the product's registers without work.
  return ProductTime<T>(machine, std::max(tiles, 4.0) * weights, weights) +
         tiles * cycles / machine.clock;
}

/// Of the direct sum.
template <typename T>
double DirectTime(const WinogradMachine& machine, const WinogradSize& size) {
  const double weights =
      9 * static_cast<double>(size.channels) * static_cast<double>(size.out_channels);
  const double pixels = static_cast<double>(size.batch) * static_cast<double>(size.out_height) *
                        static_cast<double>(size.out_width);
  return ProductTime<T>(machine, pixels * weights, weights);
}

/// Whether F(2,3) on rounded factors beats their direct sum, in cycles of a Neoverse V1.
bool RoundedPays(const WinogradSize& size, const GemmKernels& gemm) {
  constexpr double kProducts = 64;  // a cycle, in the loop of a tile
  constexpr double kTile = 45, kGather = 1.2, kInput = 60, kOutput = 24;
  const double pixels = static_cast<double>(size.batch) * static_cast<double>(size.out_height) *
                        static_cast<double>(size.out_width);
  const double tiles = static_cast<double>(size.batch) *
                       static_cast<double>(CeilDivide(size.out_height, 2)) *
                       static_cast<double>(CeilDivide(size.out_width, 2));
  const double in = static_cast<double>(size.channels),
               out = static_cast<double>(size.out_channels);
  const double area = gemm.rows * gemm.columns;
  const double direct =
      pixels * out * (9 * in / kProducts + kTile / area) + pixels * 9 * in / 4 * kGather;
  const double winograd = 16 * tiles * out * (in / kProducts + kTile / area) +
                          tiles * (in * kInput + out * kOutput) / 4;
  return winograd < 0.85 * direct;
}

}  // namespace

template <typename T>
bool WinogradConvOf<T>::Has(WinogradVariant variant, Isa isa, const GemmKernels* rounding) {
  if (rounding == nullptr) return std::is_same_v<T, float> || variant != WinogradVariant::kF6;
  return variant == WinogradVariant::kF2 && isa == Isa::kNeon && rounding->pack_rows != nullptr;
}

template <typename T>
std::optional<WinogradVariant> WinogradConvOf<T>::Choose(const WinogradSize& size, Isa isa,
                                                         const GemmKernels* rounding) {
  const auto if_it = [](bool pays, WinogradVariant variant) {
    return pays ? std::optional(variant) : std::nullopt;
  };
  if (rounding != nullptr) {
    // Matrix units that must be set up are faster than any transform.
    const bool has = size.stride == 1 && Has(WinogradVariant::kF2, isa, rounding);
    return if_it(has && RoundedPays(size, *rounding), WinogradVariant::kF2);
  }
  const WinogradMachine machine = MachineOf<T>(isa);
  // A larger tile costs memory and accuracy: it must be worth it.
  constexpr double kGain = 0.92;
  double best = DirectTime<T>(machine, size);
  if (size.stride == 2) {
    constexpr auto kVariant = WinogradVariant::kStride2;
    const double time = WinogradTime<T>(machine, size, isa, kVariant);
    return if_it(isa == Isa::kNeon && time < kGain * best, kVariant);  // measured there alone
  }
  std::optional<WinogradVariant> chosen;
  for (const auto variant : {WinogradVariant::kF2, WinogradVariant::kF4, WinogradVariant::kF6}) {
    if (!Has(variant, isa)) break;
    const double time = WinogradTime<T>(machine, size, isa, variant);
    if (time >= kGain * best) continue;
    best = time;
    chosen = variant;
  }
  return chosen;
}

template bool WinogradConvOf<float>::Has(WinogradVariant, Isa, const GemmKernels*);
template bool WinogradConvOf<Half>::Has(WinogradVariant, Isa, const GemmKernels*);
template std::optional<WinogradVariant> WinogradConvOf<float>::Choose(const WinogradSize&, Isa,
                                                                      const GemmKernels*);
template std::optional<WinogradVariant> WinogradConvOf<Half>::Choose(const WinogradSize&, Isa,
                                                                     const GemmKernels*);

}  // namespace oort
