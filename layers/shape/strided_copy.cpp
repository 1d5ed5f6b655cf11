// SPDX-License-Identifier: MIT
#include "layers/shape/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/checked.h"
#include "cuda/stream.h"

namespace oort {
namespace {

constexpr int64_t kBytesPerTask = 64 * 1024;  // less is not worth waking a thread for
constexpr int64_t kBlockBytes = 64 * 1024;    // long runs are cut here to share them out
constexpr int64_t kLine = 64;                 // bytes of a cache line

using Loop = CopyLoop;

/// The nest of loops, outermost first, as short as it can be made.
struct Nest {
  std::array<Loop, Strided::kMaxAxes> loops;
  int count = 0;
  int64_t item = 0;  // bytes moved at once: an element, or a short run of them
  int64_t source_offset = 0, target_offset = 0;

  std::span<const Loop> Outer(int inner) const {
    return {loops.data(), static_cast<size_t>(count - inner)};
  }
  const Loop& Last() const { return loops[static_cast<size_t>(count - 1)]; }
  void Add(Loop loop);
  void WidenItem();
  int FindSourceRun() const;
};

void Nest::Add(Loop loop) {
  if (loop.extent == 1) return;
  if (count > 0) {
    Loop& outer = loops[static_cast<size_t>(count - 1)];
    if (outer.source == loop.source * loop.extent && outer.target == loop.target * loop.extent) {
      outer = {outer.extent * loop.extent, loop.source, loop.target};
      return;
    }
  }
  loops[static_cast<size_t>(count++)] = loop;
}

/// A contiguous inner run of 2 to 16 bytes is moved as one item.
void Nest::WidenItem() {
  if (count < 2 || Last().source != item || Last().target != item) return;
  const int64_t bytes = Last().extent * item;
  if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) return;
  item = bytes;
  --count;
}

/// The loop, other than the last, along which the source is contiguous; -1 if there is none.
int Nest::FindSourceRun() const {
  for (int i = count - 1; i-- > 0;) {
    if (loops[static_cast<size_t>(i)].source == item) return i;
  }
  return -1;
}

/// `aligned`: items are not widened, because they could lie across their size.
Nest MakeNest(size_t item, const Strided& from, const Strided& to, bool aligned) {
  Nest nest;
  nest.item = static_cast<int64_t>(item);
  nest.source_offset = from.offset() * nest.item;
  nest.target_offset = to.offset() * nest.item;
  for (int i = 0; i < from.rank(); ++i) {
    nest.Add({from[i].extent, from[i].stride * nest.item, to[i].stride * nest.item});
  }
  if (nest.count == 0) nest.loops[static_cast<size_t>(nest.count++)] = {1, nest.item, nest.item};
  if (!aligned) nest.WidenItem();
  return nest;
}

/// Walks through a nest of loops like the digits of a counter.
class Odometer {
 public:
  Odometer(std::span<const Loop> loops, int64_t index) : loops_(loops) {
    for (size_t i = loops.size(); i-- > 0;) {
      digits_[i] = index % loops[i].extent;
      index /= loops[i].extent;
      source_ += digits_[i] * loops[i].source;
      target_ += digits_[i] * loops[i].target;
    }
  }
  int64_t source() const { return source_; }
  int64_t target() const { return target_; }
  void Next() {
    for (size_t i = loops_.size(); i-- > 0;) {
      source_ += loops_[i].source;
      target_ += loops_[i].target;
      if (++digits_[i] < loops_[i].extent) return;
      source_ -= loops_[i].extent * loops_[i].source;
      target_ -= loops_[i].extent * loops_[i].target;
      digits_[i] = 0;
    }
  }

 private:
  std::span<const Loop> loops_;
  std::array<int64_t, Strided::kMaxAxes> digits_{};
  int64_t source_ = 0, target_ = 0;
};

/// Runs kernel(source offset, target offset, block) for each position of the outer loops and each
/// block of the inner work, on several threads where there is enough to do.
template <typename Kernel>
void ForEachBlock(const Context& context, std::span<const Loop> outer, int64_t blocks,
                  int64_t bytes_per_block, const Kernel& kernel) {
  int64_t rows = 1;
  for (const Loop& loop : outer) rows *= loop.extent;
  const int64_t grain = kBytesPerTask / std::max<int64_t>(bytes_per_block, 1) + 1;
  context.ParallelFor(rows * blocks, grain, [&](int64_t begin, int64_t end) {
    Odometer row(outer, begin / blocks);
    int64_t block = begin % blocks;
    for (int64_t i = begin; i < end; ++i) {
      kernel(row.source(), row.target(), block);
      if (++block == blocks) {
        block = 0;
        row.Next();
      }
    }
  });
}

void CopyRuns(const Context& context, const Nest& nest, const std::byte* source,
              std::byte* target) {
  const int64_t bytes = nest.Last().extent * nest.item;
  const int64_t block_bytes = std::min(bytes, kBlockBytes);
  ForEachBlock(context, nest.Outer(1), CeilDivide(bytes, block_bytes), block_bytes,
               [=](int64_t from, int64_t to, int64_t block) {
                 const int64_t at = block * block_bytes;
                 std::memcpy(target + to + at, source + from + at,
                             static_cast<size_t>(std::min(block_bytes, bytes - at)));
               });
}

void RepeatItems(const Context& context, const Nest& nest, const std::byte* source,
                 std::byte* target) {
  const int64_t count = nest.Last().extent;
  const int64_t block_count = std::min(count, kBlockBytes / nest.item);
  ForEachBlock(context, nest.Outer(1), CeilDivide(count, block_count), block_count * nest.item,
               [&](int64_t from, int64_t to, int64_t block) {
                 const int64_t at = block * block_count;
                 FillItems(target + to + at * nest.item, source + from,
                           static_cast<size_t>(nest.item), std::min(block_count, count - at));
               });
}

using Four [[gnu::vector_size(16)]] = uint32_t;  // elements of four bytes

/// target[i] = source[-i] for as many as go by fours; returns how many.
int64_t ReverseFours(const std::byte* source, std::byte* target, int64_t count) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    Four four;
    std::memcpy(&four, source - (i + 3) * 4, sizeof(four));
    four = __builtin_shufflevector(four, four, 3, 2, 1, 0);
    std::memcpy(target + i * 4, &four, sizeof(four));
  }
  return i;
}

// Elements are moved by memcpy of a constant size: one load and one store, aligned or not.
template <size_t kItem>
void CopyItems(const Context& context, const Nest& nest, const std::byte* source,
               std::byte* target) {
  const Loop inner = nest.Last();
  const int64_t block_count = std::min<int64_t>(inner.extent, kBlockBytes / int64_t{kItem});
  ForEachBlock(context, nest.Outer(1), CeilDivide(inner.extent, block_count),
               block_count * int64_t{kItem}, [=](int64_t from, int64_t to, int64_t block) {
                 const int64_t at = block * block_count;
                 const int64_t count = std::min(block_count, inner.extent - at);
                 const std::byte* s = source + from + at * inner.source;
                 std::byte* t = target + to + at * inner.target;
                 int64_t i = 0;
                 if (kItem == 4 && inner.source == -4 && inner.target == 4) {
                   i = ReverseFours(s, t, count);
                 }
                 for (; i < count; ++i) {
                   std::memcpy(t + i * inner.target, s + i * inner.source, kItem);
                 }
               });
}

/// A block of a matrix that is contiguous along `a` in the source and along `b` in the target.
template <size_t kItem>
void TransposeAny(const std::byte* source, std::byte* target, Loop a, Loop b) {
  for (int64_t i = 0; i < a.extent; ++i) {
    for (int64_t j = 0; j < b.extent; ++j) {
      std::memcpy(target + i * a.target + j * int64_t{kItem},
                  source + i * int64_t{kItem} + j * b.source, kItem);
    }
  }
}

/// Four by four elements of four bytes, in registers.
void Transpose4x4(const std::byte* source, int64_t source_row, std::byte* target,
                  int64_t target_row) {
  Four rows[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&rows[i], source + i * source_row, sizeof(Four));
  const Four low02 = __builtin_shufflevector(rows[0], rows[2], 0, 4, 1, 5);
  const Four high02 = __builtin_shufflevector(rows[0], rows[2], 2, 6, 3, 7);
  const Four low13 = __builtin_shufflevector(rows[1], rows[3], 0, 4, 1, 5);
  const Four high13 = __builtin_shufflevector(rows[1], rows[3], 2, 6, 3, 7);
  rows[0] = __builtin_shufflevector(low02, low13, 0, 4, 1, 5);
  rows[1] = __builtin_shufflevector(low02, low13, 2, 6, 3, 7);
  rows[2] = __builtin_shufflevector(high02, high13, 0, 4, 1, 5);
  rows[3] = __builtin_shufflevector(high02, high13, 2, 6, 3, 7);
  for (int i = 0; i < 4; ++i) std::memcpy(target + i * target_row, &rows[i], sizeof(Four));
}

template <size_t kItem>
void TransposeTile(const std::byte* source, std::byte* target, Loop a, Loop b) {
  if constexpr (kItem == 4) {
    const int64_t whole_a = a.extent / 4 * 4, whole_b = b.extent / 4 * 4;
    for (int64_t j = 0; j < whole_b; j += 4) {
      for (int64_t i = 0; i < whole_a; i += 4) {
        Transpose4x4(source + i * 4 + j * b.source, b.source, target + i * a.target + j * 4,
                     a.target);
      }
    }
    const Loop rest_a{a.extent - whole_a, a.source, a.target};
    const Loop rest_b{b.extent - whole_b, b.source, b.target};
    TransposeAny<kItem>(source + whole_a * 4, target + whole_a * a.target, rest_a,
                        {whole_b, b.source, b.target});
    TransposeAny<kItem>(source + whole_b * b.source, target + whole_b * 4, a, rest_b);
  } else {
    TransposeAny<kItem>(source, target, a, b);
  }
}

/// Goes through the matrix in tiles as wide and as high as a cache line is long: every line is used
/// up while it is there, even where rows lie a power of two apart and compete for few places.
template <size_t kItem>
void CopyTransposed(const Context& context, const Nest& nest, const std::byte* source,
                    std::byte* target) {
  constexpr int64_t kTile = kLine / int64_t{kItem};
  const Loop a = nest.loops[static_cast<size_t>(nest.count - 2)];
  const Loop b = nest.Last();
  const int64_t tiles = CeilDivide(a.extent, kTile);
  ForEachBlock(context, nest.Outer(2), tiles, std::min(a.extent, kTile) * b.extent * nest.item,
               [=](int64_t from, int64_t to, int64_t tile) {
                 Loop rows = a, columns = b;
                 rows.extent = std::min(kTile, a.extent - tile * kTile);
                 const std::byte* s = source + from + tile * kTile * a.source;
                 std::byte* t = target + to + tile * kTile * a.target;
                 for (int64_t j = 0; j < b.extent; j += kTile) {
                   columns.extent = std::min(kTile, b.extent - j);
                   TransposeTile<kItem>(s + j * b.source, t + j * b.target, rows, columns);
                 }
               });
}

template <size_t kItem>
void CopyScattered(const Context& context, Nest& nest, const std::byte* source, std::byte* target) {
  const int run = nest.FindSourceRun();
  if (run < 0 || nest.Last().target != nest.item) {
    CopyItems<kItem>(context, nest, source, target);
    return;
  }
  // The order of the outer loops is free: bring the source's run next to the target's.
  const auto first = nest.loops.begin() + run;
  std::rotate(first, first + 1, nest.loops.begin() + nest.count - 1);
  CopyTransposed<kItem>(context, nest, source, target);
}

}  // namespace

void CopyStrided(const Context& context, size_t item, const std::byte* source, const Strided& from,
                 std::byte* target, const Strided& to) {
  if (from.IsEmpty()) return;
  Nest nest = MakeNest(item, from, to, context.stream() != nullptr);
  source += nest.source_offset;
  target += nest.target_offset;
  if (context.stream() != nullptr) {
    CopyStridedOnDevice(*context.stream(), static_cast<size_t>(nest.item), nest.Outer(0), source,
                        target);
    return;
  }
  const Loop& inner = nest.Last();
  if (inner.source == nest.item && inner.target == nest.item) {
    CopyRuns(context, nest, source, target);
  } else if (inner.source == 0 && inner.target == nest.item) {
    RepeatItems(context, nest, source, target);
  } else {
    switch (nest.item) {
      case 1: return CopyScattered<1>(context, nest, source, target);
      case 2: return CopyScattered<2>(context, nest, source, target);
      case 4: return CopyScattered<4>(context, nest, source, target);
      case 8: return CopyScattered<8>(context, nest, source, target);
      case 16: return CopyScattered<16>(context, nest, source, target);
      default: throw Error(ErrorCode::kInternal, "elements of an unknown size");
    }
  }
}

void ClearBytes(const Context& context, std::byte* target, size_t bytes) {
  if (bytes == 0) return;
  if (context.stream() != nullptr) return context.stream()->Fill(target, 0, bytes);
  std::memset(target, 0, bytes);
}

void CopyBytes(const Context& context, const std::byte* source, std::byte* target, size_t bytes) {
  if (bytes == 0 || source == target) return;
  CopyStrided(context, 1, source, Strided(Shape{static_cast<int64_t>(bytes)}), target);
}

namespace {

/// Stores of a constant size: for few elements the calls below cost more than the bytes.
template <size_t kItem>
void FillFew(std::byte* target, const std::byte* pattern, int64_t count) {
  std::array<std::byte, kItem> value;
  std::memcpy(value.data(), pattern, kItem);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target + i * static_cast<int64_t>(kItem), value.data(), kItem);
  }
}

}  // namespace

void FillItems(std::byte* target, const std::byte* pattern, size_t item, int64_t count) {
  if (count <= 0) return;
  if (count <= 16 && item == 4) return FillFew<4>(target, pattern, count);
  if (count <= 16 && item == 2) return FillFew<2>(target, pattern, count);
  if (count <= 16 && item == 8) return FillFew<8>(target, pattern, count);
  if (target != pattern) std::memcpy(target, pattern, item);
  // What is written already is the pattern for the rest; a page of it stays in the cache.
  const size_t total = item * static_cast<size_t>(count);
  const size_t longest = std::max<size_t>(4096 / item, 1) * item;
  for (size_t done = item; done < total;) {
    const size_t bytes = std::min({done, longest, total - done});
    std::memcpy(target + done, target, bytes);
    done += bytes;
  }
}

}  // namespace oort
