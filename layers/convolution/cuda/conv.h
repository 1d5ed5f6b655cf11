// SPDX-License-Identifier: MIT
// Convolutions of images (…, H, W, C) on the device, as a product of their pixels and the filters:
// nothing of the image is copied. What follows a convolution is part of it: bias, addend,
// activation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/epilogue.h"
#include "cuda/stream.h"

namespace oort::cuda {

/// What is multiplied; sums are f32. Images are f32 for the first two.
enum class ConvMath : unsigned char { kF32, kTF32, kF16, kBF16 };
constexpr int ItemSize(ConvMath math) {
  return math == ConvMath::kF32 || math == ConvMath::kTF32 ? 4 : 2;
}

/// One axis: output i reads inputs i * stride - pad + j * dilation, 0 <= j < kernel.
struct ConvWalk {
  int in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

/// Distances are in elements.
struct ConvCall {
  const void* in = nullptr;
  /// [group][filter][row][column][channel]; filters are `depth` apart, zero behind the last tap.
  const void* weight = nullptr;
  int64_t depth = 0;
  Epilogue epilogue;
  void* out = nullptr;
  int64_t batch = 1;
  ConvWalk height, width;
  int channels = 0, filters = 0, groups = 1;  ///< channels and filters of one group
  int64_t in_pixel = 0;                       ///< from pixel to pixel, at least all channels
  int64_t out_pixel = 0;                      ///< the same for `out` and the addend

  constexpr int64_t rows() const { return batch * height.out * width.out; }
  constexpr int64_t taps() const { return int64_t{height.kernel} * width.kernel; }
};

/// From filter to filter: whole 16-byte pieces.
constexpr int64_t ConvDepth(ConvMath math, int64_t channels, int64_t taps) {
  const int64_t piece = 16 / ItemSize(math);
  return (channels * taps + piece - 1) / piece * piece;
}

/// Pixels and filters that one block of threads computes.
struct ConvTile {
  int rows, columns;
};
/// Those that there are, for one kind of math; those for Hopper alone come last.
std::span<const ConvTile> ConvTiles(ConvMath math);
/// How a tile fetches and multiplies: with instructions of warps, or with Hopper's copy engine and
/// warpgroups.
enum class ConvTileKind : unsigned char { kMma, kTma };

struct ConvPlan {
  int tile = 0;    ///< index into ConvTiles
  int splits = 1;  ///< blocks that share the taps and channels of one tile: a cluster
};
/// Most blocks of a cluster.
inline constexpr int kMostSplits = 16;

/// Whether Convolve takes the call: the channels of a group make whole 4-byte words, and all
/// offsets fit into 31 bits. Other calls are for ConvolvePlain.
bool Convolves(const ConvCall& call, ConvMath math);
/// Whether the device has a kernel for the plan, and the call as many steps as it splits.
bool ConvPlanFits(const ConvCall& call, ConvMath math, const ConvPlan& plan, const Stream& stream);
/// Whether the device has tiles of a kind for a call that Convolve takes.
bool HasConvTiles(const ConvCall& call, ConvMath math, ConvTileKind kind, int device);
ConvTileKind KindOf(ConvMath math, const ConvPlan& plan);
/// The plan that keeps most multiprocessors busy, of all tiles or of those of one kind.
ConvPlan ChooseConvPlan(const ConvCall& call, ConvMath math, int device,
                        std::optional<ConvTileKind> kind = {});
/// Results are the same bits each time; they depend on the plan. `overlap` starts the kernel before
/// the one in front of it has ended, which all kernels on the stream must be made for.
void Convolve(const Stream& stream, const ConvCall& call, ConvMath math, const ConvPlan& plan,
              bool overlap = true);

/// Any convolution, an output a thread: right, not fast.
void ConvolvePlain(const Stream& stream, const ConvCall& call, ConvMath math, bool overlap = true);

/// Each channel has a filter of its own; `weight` is [row][column][channel], groups is the number
/// of channels.
void ConvolveDepthwise(const Stream& stream, const ConvCall& call, ConvMath math,
                       bool overlap = true);

}  // namespace oort::cuda
