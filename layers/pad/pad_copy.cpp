// SPDX-License-Identifier: MIT
#include "layers/pad/pad_copy.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/small_vector.h"
#include "layers/shape/scalar_bytes.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

constexpr int64_t kConstantPosition = -1;  // nothing of the input is here

/// What negative padding leaves of an axis.
struct Kept {
  Kept(int64_t extent, int64_t before, int64_t after)
      : begin(std::max<int64_t>(-before, 0)), end(extent - std::max<int64_t>(-after, 0)) {}
  int64_t begin, end;
};

/// Where position `at` (counted from the start of the input, so perhaps negative) comes from.
int64_t SourcePosition(int64_t at, int64_t extent, const Kept& kept, PadMode mode) {
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case PadMode::kConstant: return kConstantPosition;
    case PadMode::kReflect: return at < 0 ? -at : 2 * (extent - 1) - at;
    case PadMode::kReplicate: return at < 0 ? 0 : extent - 1;
    // Only this mode sees the cuts: it wraps around what they leave.
    case PadMode::kCircular: return at < 0 ? at + kept.end : at - extent + kept.begin;
  }
  return kConstantPosition;
}

/// One padded axis: for each position of the output, that of the input. In between lies a stretch
/// that is copied as it is.
struct PadAxis {
  PadAxis(int64_t input, int64_t before, int64_t after, PadMode mode)
      : input_extent(input), output_extent(input + before + after) {
    const Kept kept(input, before, after);
    positions.reserve(static_cast<size_t>(output_extent));
    for (int64_t i = 0; i < output_extent; ++i) {
      positions.push_back(SourcePosition(i - before, input, kept, mode));
    }
    copy_begin = std::min(std::max<int64_t>(before, 0), output_extent);
    copy_end = std::max(copy_begin, std::min(before + input, output_extent));
  }
  int64_t input_extent, output_extent;
  int64_t copy_begin = 0, copy_end = 0;
  std::vector<int64_t> positions;
};

/// Copies the rows along the last padded axis. Its "elements" are blocks of `block` bytes, the
/// axes behind it, which are not padded.
class RowPadder {
 public:
  RowPadder(const PadAxis& axis, int64_t block, std::span<const std::byte> item)
      : axis_(axis),
        block_(block),
        block_items_(block / static_cast<int64_t>(item.size())),
        item_(item) {}

  void Constant(std::byte* target, int64_t blocks) const {
    FillItems(target, item_.data(), item_.size(), blocks * block_items_);
  }

  void Row(const std::byte* source, std::byte* target) const {
    Border(source, target, 0, axis_.copy_begin);
    if (axis_.copy_end > axis_.copy_begin) {
      const int64_t first = axis_.positions[static_cast<size_t>(axis_.copy_begin)];
      std::memcpy(target + axis_.copy_begin * block_, source + first * block_,
                  static_cast<size_t>((axis_.copy_end - axis_.copy_begin) * block_));
    }
    Border(source, target, axis_.copy_end, axis_.output_extent);
  }

  void ConstantRow(std::byte* target) const { Constant(target, axis_.output_extent); }

 private:
  void Border(const std::byte* source, std::byte* target, int64_t begin, int64_t end) const {
    if (begin == end) return;
    if (axis_.positions[static_cast<size_t>(begin)] == kConstantPosition) {
      Constant(target + begin * block_, end - begin);
      return;
    }
    // Few bytes are moved by loads and stores of a constant size.
    if (block_ == 4) return Gather<4>(source, target, begin, end);
    if (block_ == 2) return Gather<2>(source, target, begin, end);
    if (block_ == 8) return Gather<8>(source, target, begin, end);
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(target + i * block_, source + axis_.positions[static_cast<size_t>(i)] * block_,
                  static_cast<size_t>(block_));
    }
  }

  template <int64_t kBlock>
  void Gather(const std::byte* source, std::byte* target, int64_t begin, int64_t end) const {
    const int64_t* positions = axis_.positions.data();
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(target + i * kBlock, source + positions[i] * kBlock, kBlock);
    }
  }

  const PadAxis& axis_;
  int64_t block_;
  int64_t block_items_;
  std::span<const std::byte> item_;
};

/// Walks the rows of the output, one after another: only the first one takes divisions, each of
/// which costs as much as a short row.
class RowWalk {
 public:
  RowWalk(std::span<const PadAxis> axes, int64_t row) : axes_(axes), at_(axes.size()) {
    for (size_t i = axes.size(); i-- > 0;) {
      at_[i] = row % axes[i].output_extent;
      row /= axes[i].output_extent;
    }
  }

  /// The row of the input behind this one, or kConstantPosition.
  int64_t Source() const {
    int64_t source = 0;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const int64_t position = axes_[i].positions[static_cast<size_t>(at_[i])];
      if (position == kConstantPosition) return kConstantPosition;
      source = source * axes_[i].input_extent + position;
    }
    return source;
  }

  void Next() {
    for (size_t i = axes_.size(); i-- > 0;) {
      if (++at_[i] < axes_[i].output_extent) return;
      at_[i] = 0;
    }
  }

 private:
  std::span<const PadAxis> axes_;
  SmallVector<int64_t, Shape::kMaxRank> at_;  // the row along each axis
};

/// Positions [begin, begin + length) of a padded axis come from positions of the input `step`
/// apart.
struct PadRun {
  int64_t begin, length, from, step;
};

/// A padded axis as a few runs; what is constant is in none.
std::vector<PadRun> RunsOf(const PadAxis& axis) {
  std::vector<PadRun> runs;
  for (int64_t i = 0; i < axis.output_extent; ++i) {
    const int64_t at = axis.positions[static_cast<size_t>(i)];
    if (at == kConstantPosition) continue;
    PadRun* const last = runs.empty() ? nullptr : &runs.back();
    const bool follows = last != nullptr && last->begin + last->length == i;
    if (follows && last->length == 1 && std::abs(at - last->from) <= 1) {
      last->step = at - last->from;
      ++last->length;
    } else if (follows && last->length > 1 && at == last->from + last->length * last->step) {
      ++last->length;
    } else {
      runs.push_back({i, 1, at, 1});
    }
  }
  return runs;
}

/// Each combination of runs is one copy, for a device that wants few and large ones.
void CopyPadRuns(const Context& context, std::span<const std::vector<PadRun>> runs, int axis,
                 const Tensor& input, const Strided& from, Tensor& output, const Strided& to) {
  if (axis == input.rank()) {
    CopyStrided(context, ItemSize(input.dtype()), input.raw(), from, output.raw(), to);
    return;
  }
  for (const PadRun& run : runs[static_cast<size_t>(axis)]) {
    CopyPadRuns(context, runs, axis + 1, input, from.Sliced(axis, run.from, run.length, run.step),
                output, to.Sliced(axis, run.begin, run.length));
  }
}

void PadOnDevice(const Context& context, const Tensor& input, const Padding& padding,
                 const std::array<std::byte, 16>& scalar, Tensor& output) {
  if (padding.mode == PadMode::kConstant) {
    FillItemsOnDevice(*context.stream(), output.raw(), scalar.data(), ItemSize(input.dtype()),
                      output.elements());
  }
  std::vector<std::vector<PadRun>> runs;
  for (int i = 0; i < input.rank(); ++i) {
    const size_t axis = static_cast<size_t>(i);
    runs.push_back(
        RunsOf(PadAxis(input.shape()[i], padding.before[axis], padding.after[axis], padding.mode)));
  }
  CopyPadRuns(context, runs, 0, input, Strided(input.shape()), output, Strided(output.shape()));
}

/// Whether an axis of `extent` has what the padding takes from it.
bool Reaches(int64_t extent, int64_t before, int64_t after, PadMode mode) {
  const int64_t reach = std::max(before, after);
  const Kept kept(extent, before, after);
  switch (mode) {
    case PadMode::kConstant: return true;
    case PadMode::kReflect: return reach <= 0 || reach < extent;
    case PadMode::kReplicate: return reach <= 0 || extent > 0;
    case PadMode::kCircular: return reach <= 0 || reach <= kept.end - kept.begin;
  }
  return false;
}

[[noreturn]] void ThrowPadding(const Shape& input, int axis, int64_t before, int64_t after) {
  throw Error(ErrorCode::kInvalidArgument,
              "cannot pad axis " + std::to_string(axis) + " of shape " + input.ToString() +
                  " by (" + std::to_string(before) + "," + std::to_string(after) + ")");
}

}  // namespace

PadMode ParsePadMode(std::string_view name) {
  if (name == "constant" || name == "zeros") return PadMode::kConstant;
  if (name == "reflect") return PadMode::kReflect;
  if (name == "replicate") return PadMode::kReplicate;
  if (name == "circular") return PadMode::kCircular;
  throw Error(ErrorCode::kInvalidArgument,
              "expected a padding mode, got '" + std::string(name) + "'");
}

Padding Padding::FromTorch(std::span<const int64_t> pairs, int rank, PadMode mode) {
  if (pairs.size() % 2 != 0 || pairs.size() / 2 > static_cast<size_t>(rank)) {
    throw Error(ErrorCode::kInvalidArgument, "expected pairs of padding for at most " +
                                                 std::to_string(rank) + " axes, got " +
                                                 std::to_string(pairs.size()) + " numbers");
  }
  Padding padding;
  padding.mode = mode;
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const size_t axis = static_cast<size_t>(rank) - 1 - i;
    padding.before[axis] = pairs[2 * i];
    padding.after[axis] = pairs[2 * i + 1];
  }
  return padding;
}

Shape Padding::Apply(const Shape& input) const {
  Shape output = input;
  for (int i = 0; i < input.rank(); ++i) {
    const int64_t left = before[static_cast<size_t>(i)], right = after[static_cast<size_t>(i)];
    if (left == 0 && right == 0) continue;
    output[i] = CheckedAdd(CheckedAdd(input[i], left), right);
    // An axis can lose no more than it has; that also keeps the numbers below from overflowing.
    const bool cut = left < -input[i] || right < -input[i];
    if (cut || output[i] < 0 || !Reaches(input[i], left, right, mode)) {
      ThrowPadding(input, i, left, right);
    }
  }
  output.elements();  // throws where the extents multiply to too much
  return output;
}

void PadCopy(const Context& context, const Tensor& input, const Padding& padding,
             const Value& value, Tensor& output) {
  if (output.elements() == 0) return;
  const size_t item = ItemSize(input.dtype());
  const std::array<std::byte, 16> scalar = ScalarBytes(value, input.dtype());
  if (context.stream() != nullptr) return PadOnDevice(context, input, padding, scalar, output);
  int last = input.rank();  // one behind the last axis that is padded
  while (last > 1 && padding.before[static_cast<size_t>(last - 1)] == 0 &&
         padding.after[static_cast<size_t>(last - 1)] == 0) {
    --last;
  }
  std::vector<PadAxis> axes;
  int64_t whole = 1;  // of the axes before, which are not padded: they count as one
  for (int i = 0; i < last; ++i) {
    const size_t axis = static_cast<size_t>(i);
    const bool padded = padding.before[axis] != 0 || padding.after[axis] != 0;
    if (!padded && i + 1 < last) {
      whole *= input.shape()[i];
      continue;
    }
    if (whole != 1) axes.emplace_back(whole, 0, 0, padding.mode);
    whole = 1;
    axes.emplace_back(input.shape()[i], padding.before[axis], padding.after[axis], padding.mode);
  }
  if (axes.empty()) axes.emplace_back(1, 0, 0, padding.mode);  // a scalar
  const int64_t block = input.shape().Product(last, input.rank()) * static_cast<int64_t>(item);
  const PadAxis& inner = axes.back();
  const std::span<const PadAxis> outer(axes.data(), axes.size() - 1);
  const RowPadder padder(inner, block, {scalar.data(), item});

  const std::byte* source = input.raw();
  std::byte* target = output.raw();
  const int64_t input_row = inner.input_extent * block, output_row = inner.output_extent * block;
  const int64_t rows = static_cast<int64_t>(output.bytes()) / output_row;
  context.ParallelFor(rows, 64 * 1024 / output_row + 1, [&](int64_t begin, int64_t end) {
    RowWalk walk(outer, begin);
    for (int64_t row = begin; row < end; ++row, walk.Next()) {
      const int64_t from = walk.Source();
      if (from == kConstantPosition) {
        padder.ConstantRow(target + row * output_row);
      } else {
        padder.Row(source + from * input_row, target + row * output_row);
      }
    }
  });
}

}  // namespace oort
