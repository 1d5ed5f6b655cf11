// SPDX-License-Identifier: MIT
// Integer kernels for AMX: TDPBUSD multiplies 16 outputs by 16 channels, 64 neighbours at a time,
// u8 times s8. What has one row, and depthwise convolutions, are left to VNNI. Only for
// integer.int8.cpp.
#pragma once

#include "layers/quantize/integer_amx_rows.h"
#include "layers/quantize/integer_vnni.h"

namespace oort::OORT_ISA {
namespace {

/// Sums of two tiles of outputs whose results are still to be made, which happens bit by bit while
/// the next ones are multiplied: vectors and tiles are units of their own.
template <int vectors>
class TileResults {
 public:
  TileResults(const IntegerEpilogue& epilogue, int64_t channels)
      : finish_(epilogue), scale_(epilogue.scale), bias_(epilogue.bias), channels_(channels) {}

  void Begin(const int32_t* sums, uint32_t rows, int64_t first) {
    sums_ = sums;
    rows_ = rows;
    at_ = first;
  }
  bool left() const { return rows_ != 0; }

  /// Those of so many rows, or of all that are left.
  void Make(int most) {
    if (channels_ == 16 * vectors && finish_.IsPlain()) return MakeRows<true>(most);
    MakeRows<false>(most);
  }

 private:
  template <bool plain>
  [[gnu::noinline]] void MakeRows(int most) {
    // Copies, which stay in registers: the bytes that are stored might be those of the members.
    const VnniFinish finish = finish_;
    const int64_t channels = channels_;
    const int32_t* sums = sums_;
    uint32_t rows = rows_;
    int64_t at = at_;
    __m512 scale[vectors], bias[vectors];
    Unroll<vectors>([&](auto v) {
      scale[v] = _mm512_loadu_ps(scale_ + v * 16);
      bias[v] = _mm512_loadu_ps(bias_ + v * 16);
    });
    for (; most > 0 && rows != 0; --most, rows &= rows - 1, ++at) {
      const int32_t* row = sums + __builtin_ctz(rows) * vectors * 16;
      __m512 values[vectors];
      Unroll<vectors>([&](auto v) {
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(row + v * 16));
        values[v] = _mm512_fmadd_ps(sum, scale[v], bias[v]);
      });
      finish.template Values<vectors, plain>(values, at, 0, channels);
    }
    rows_ = rows;
    at_ = at;
  }

  const VnniFinish finish_;
  const float *scale_, *bias_;
  int64_t channels_;
  const int32_t* sums_ = nullptr;
  uint32_t rows_ = 0;
  int64_t at_ = 0;
};

/// Weights are fetched so many bytes before they are needed: other layers had the caches.
constexpr int64_t kAhead = 32768;

/// One or two tiles of outputs by one or two of channels.
struct TilePair {
  const TileRows *upper, *lower;
  int64_t steps;
  const std::byte* weights;
  const int32_t* starts;  ///< null: zeros
  int32_t* sums;
  int64_t ahead;  ///< bytes of weights that are fetched before they are needed, or 0
};

template <int vectors, bool low, bool right>
void MultiplyPair(const TilePair& pair, int results, TileResults<vectors>& earlier) {
  constexpr int64_t kRow = vectors * 64;  // bytes of a row of weights, and of sums
  SettleMemory(pair.upper->at);
  if (pair.starts == nullptr) {
    _tile_zero(0);
    if constexpr (right) _tile_zero(1);
    if constexpr (low) _tile_zero(2);
    if constexpr (low && right) _tile_zero(3);
  } else {  // all rows begin alike: the stride is 0
    _tile_loadd(0, pair.starts, 0);
    if constexpr (right) _tile_loadd(1, pair.starts + 16, 0);
    if constexpr (low) _tile_loadd(2, pair.starts, 0);
    if constexpr (low && right) _tile_loadd(3, pair.starts + 16, 0);
  }
  const TileRows& upper = *pair.upper;
  const TileRows& lower = low ? *pair.lower : upper;
  const std::byte* weights = pair.weights;
  for (int64_t i = 0; i < pair.steps; ++i, weights += 16 * kRow) {
    _tile_loadd(4, upper.at + upper.places[i], upper.stride);
    _tile_loadd(6, weights, kRow);
    ByteProducts::Add<0, 4, 6>();
    if constexpr (right) {
      _tile_loadd(7, weights + 64, kRow);
      ByteProducts::Add<1, 4, 7>();
    }
    if constexpr (low) {
      _tile_loadd(5, lower.at + lower.places[i], lower.stride);
      ByteProducts::Add<2, 5, 6>();
    }
    if constexpr (low && right) ByteProducts::Add<3, 5, 7>();
    if (pair.ahead != 0) {
      const std::byte* soon = weights + pair.ahead;
      for (int r = 0; r < 16; ++r, soon += kRow) {
        __builtin_prefetch(soon, 0, 2);
        if constexpr (right) __builtin_prefetch(soon + 64, 0, 2);
      }
    }
    if (earlier.left()) earlier.Make(results);
  }
  _tile_stored(0, pair.sums, kRow);
  if constexpr (right) _tile_stored(1, pair.sums + 16, kRow);
  if constexpr (low) _tile_stored(2, pair.sums + 16 * vectors * 16, kRow);
  if constexpr (low && right) _tile_stored(3, pair.sums + 16 * vectors * 16 + 16, kRow);
  SettleMemory(pair.sums);
}

template <int vectors, bool right>
void MultiplyRows(const TilePair& pair, int results, TileResults<vectors>& earlier) {
  if (pair.lower != nullptr) return MultiplyPair<vectors, true, right>(pair, results, earlier);
  MultiplyPair<vectors, false, right>(pair, results, earlier);
}

/// All outputs of a panel of `vectors` times 16 channels.
template <int vectors>
void TilePanel(const IntegerWindows& call) {
  const IntegerWindows job = call;  // as in Tile
  const TilePlan plan = PlanOf(job);
  TileResults<vectors> earlier(job.epilogue, job.channels);
  constexpr int kPasses = (vectors + 1) / 2;
  const int64_t steps = job.run_count * job.run_steps;
  // Single ones would cost more, because constants are loaded each time.
  const auto results = static_cast<int>((31 + kPasses * steps) / (kPasses * steps) + 1) & ~1;
  alignas(64) int32_t sums[2][32 * 16 * vectors];
  for (int64_t t = 0, side = 0; t < plan.count; t += 2, side ^= 1) {
    TilePair pair{.upper = plan.tiles + t,
                  .lower = t + 1 < plan.count ? plan.tiles + t + 1 : nullptr,
                  .steps = steps,
                  .weights = static_cast<const std::byte*>(job.weights),
                  .starts = job.starts_are_zero ? nullptr : job.starts,
                  .sums = sums[side],
                  .ahead = t == 0 ? kAhead : 0};
    Unroll<kPasses>([&](auto pass) {
      MultiplyRows<vectors, 2 * pass + 1 < vectors>(pair, results, earlier);
      pair.weights += 128;
      if (pair.starts != nullptr) pair.starts += 32;
      pair.sums += 32;
    });
    if (earlier.left()) earlier.Make(32);
    const uint32_t below = pair.lower == nullptr ? 0 : pair.lower->rows;
    earlier.Begin(sums[side], pair.upper->rows | below << 16, pair.upper->first);
  }
  earlier.Make(32);
}

void TileProductOf(const IntegerWindows& job) {
  if (job.count == 1 && job.run_count == 1 && job.run_numbers % 4 == 0) {
    const std::byte* window = WindowOf(job, 0);
    IntegerWindows row = job;
    row.windows = &window;
    row.run_steps = job.run_numbers / 4;
    return Product(row);
  }
  BeginTiles();
  if (job.channels > 48) {
    TilePanel<4>(job);
  } else if (job.channels > 32) {
    TilePanel<3>(job);
  } else if (job.channels > 16) {
    TilePanel<2>(job);
  } else {
    TilePanel<1>(job);
  }
  EndTiles();
}

constexpr IntegerKernels TileKernels() {
  IntegerKernels kernels = kIntegerKernels;
  kernels.step = 64;
  kernels.group = 4;
  kernels.block = kMostIntegerBlock;
  kernels.block_bytes = 480 << 10;
  kernels.finds_windows = true;
  kernels.pack_rows = 16;
  kernels.pack_head = static_cast<int>(sizeof(TileRows));
  kernels.pack = PlanTiles;
  kernels.product = TileProductOf;
  return kernels;
}

constexpr IntegerKernels kTileKernels = TileKernels();

}  // namespace
}  // namespace oort::OORT_ISA
