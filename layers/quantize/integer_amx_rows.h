// SPDX-License-Identifier: MIT
// Where tiles of AMX find their rows: windows that lie at equal distances are read where they lie,
// others are copied. Only for integer.int8.cpp.
#pragma once

#include <cstring>

#include "cpu/amx_tiles.h"
#include "layers/quantize/integer_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// 16 rows of which some are windows of outputs. Rows between these are multiplied for nothing.
struct TileRows {
  const std::byte* at;
  int64_t stride;
  const int64_t* places;  ///< of each step, behind `at`
  int64_t first;          ///< the output of the first row that is one
  uint32_t rows;          ///< bits of those
};

struct TilePlan {
  const TileRows* tiles;
  int64_t count;
};

/// What `pack` leaves: a header, where the steps of windows and of copies are, tiles, copies.
struct TileMemory {
  explicit TileMemory(const IntegerWindows& job, std::byte* memory) {
    const auto misfit = static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % 64);
    auto* numbers = reinterpret_cast<int64_t*>(memory + (64 - misfit) % 64);
    const int64_t steps = job.run_count * job.run_steps;
    count = numbers;
    in_place = numbers + 8;
    in_copies = in_place + steps;
    tiles = reinterpret_cast<TileRows*>(in_copies + steps);
    copies = reinterpret_cast<std::byte*>(tiles + job.count);
    copies += (64 - static_cast<int64_t>(reinterpret_cast<uintptr_t>(copies) % 64)) % 64;
  }
  int64_t *count, *in_place, *in_copies;
  TileRows* tiles;
  std::byte* copies;
};

inline TilePlan PlanOf(const IntegerWindows& job) {
  const TileMemory memory(job, const_cast<std::byte*>(job.packed));
  return {memory.tiles, *memory.count};
}

/// Where the window of an output of the job begins.
inline const std::byte* WindowOf(const IntegerWindows& job, int64_t output) {
  const int64_t at = job.first + output;
  return job.image + at / job.columns * job.row_distance + at % job.columns * job.distance;
}

/// The tile of windows from `first` on: those that lie at multiples of the distance, which those of
/// the next row do, too, where it is a multiple. Returns how many.
inline int64_t RowsInPlace(const IntegerWindows& job, int64_t first, TileRows& tile) {
  tile = {WindowOf(job, first), job.distance, nullptr, first, 0};
  const bool even = job.row_distance % job.distance == 0;
  const int64_t line = even ? job.row_distance / job.distance : 16;
  int64_t column = (job.first + first) % job.columns, i = first;
  for (int64_t row = 0; row < 16 && i < job.count;) {
    int64_t count = 16 - row < job.columns - column ? 16 - row : job.columns - column;
    if (count > job.count - i) count = job.count - i;
    tile.rows |= ((1u << count) - 1) << row;
    i += count;
    row += line - column;
    column = 0;
  }
  return i - first;
}

/// Moves the tile so that its rows end before the image does, and returns whether it could.
inline bool StaysWithin(const IntegerWindows& job, int64_t last_place, TileRows& tile) {
  const std::byte* last = tile.at + 15 * tile.stride + last_place + 64;
  if (last <= job.image_end) return true;
  const int64_t rows = (last - job.image_end + tile.stride - 1) / tile.stride;
  if (rows > __builtin_clz(tile.rows) - 16) return false;
  if (tile.at - job.image < rows * tile.stride) return false;
  tile.at -= rows * tile.stride;
  tile.rows <<= rows;
  return true;
}

/// Copies up to 16 windows, step by step; behind the end of a run lie zeros.
inline void CopyRows(const IntegerWindows& job, int64_t first, int64_t count, std::byte* to) {
  constexpr int64_t kStep = 64;
  const std::byte* windows[16];
  for (int64_t r = 0; r < count; ++r) windows[r] = WindowOf(job, first + r);
  for (int64_t run = 0; run < job.run_count; ++run) {
    for (int64_t k = 0; k < job.run_steps; ++k, to += 16 * kStep) {
      const int64_t left = job.run_numbers - k * kStep;
      const __mmask64 mask = left >= kStep ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
      for (int64_t r = 0; r < count; ++r) {
        const std::byte* from = windows[r] + job.runs[run] + k * kStep;
        _mm512_store_si512(to + r * kStep, _mm512_maskz_loadu_epi8(mask, from));
      }
    }
  }
}

/// Copying a step of a tile takes as long as multiplying it by so many channels.
constexpr int64_t kCopiedChannels = 40;

void PlanTiles(const IntegerWindows& job, std::byte* packed) {
  const TileMemory memory(job, packed);
  const int64_t steps = job.run_count * job.run_steps;
  for (int64_t i = 0; i < steps; ++i) {
    memory.in_place[i] = job.runs[i / job.run_steps] + i % job.run_steps * 64;
    memory.in_copies[i] = i * 1024;
  }
  int64_t lying = 0, misfits = 0;
  for (int64_t i = 0; i < job.count; ++lying) {
    TileRows& tile = memory.tiles[lying];
    i += RowsInPlace(job, i, tile);
    if (StaysWithin(job, memory.in_place[steps - 1], tile)) {
      tile.places = memory.in_place;
    } else {
      ++misfits;
    }
  }
  const int64_t copied = (job.count + 15) / 16;
  const bool all =
      misfits > copied || copied * (job.outputs + kCopiedChannels) < lying * job.outputs;
  *memory.count = all ? copied : lying;
  std::byte* to = memory.copies;
  for (int64_t t = 0; t < *memory.count; ++t) {
    TileRows& tile = memory.tiles[t];
    if (!all && tile.places != nullptr) continue;
    const int64_t first = all ? 16 * t : tile.first;
    int64_t count = __builtin_popcount(tile.rows);
    if (all) count = job.count - first < 16 ? job.count - first : 16;
    CopyRows(job, first, count, to);
    tile = {to, 64, memory.in_copies, first, (1u << count) - 1};
    to += steps * 1024;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA
