// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/machine.h"
#include "layers/expression/code.h"

namespace oort::expression {
namespace {

constexpr int64_t kBlockBytes = 16384;  // of all slots together, at most: a part of the L1 cache
constexpr size_t kStackBytes = 2 * kBlockBytes;
constexpr int64_t kMaxBlock = 1024;
constexpr int64_t kMinBlock = 64;

void Fill(std::byte* target, const std::byte* value, size_t item, int64_t count) {
  const auto fill = [&]<typename T>(T element) {
    std::memcpy(&element, value, sizeof(T));
    std::fill_n(reinterpret_cast<T*>(target), count, element);
  };
  switch (item) {
    case 1: return fill(uint8_t());
    case 2: return fill(uint16_t());
    case 4: return fill(uint32_t());
    case 8: return fill(uint64_t());
    default: break;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(target + i * static_cast<int64_t>(item), value, item);
}

/// How the elements of an operand lie along those of the output.
class Access {
 public:
  Access(const View& view, const Shape& out, size_t item)
      : base_(view.data), item_(item), single_(view.shape.elements() == 1) {
    Collapse(view, out);
    direct_ = rank_ == 0 || (rank_ == 1 && strides_[0] == 1);
  }

  bool direct() const { return direct_; }
  bool single() const { return single_ && !direct_; }
  const std::byte* base() const { return base_; }
  size_t item() const { return item_; }

  /// Elements where they lie, or one element that stands for all of them.
  struct Elements {
    const std::byte* first;
    bool repeated;
  };

  /// The elements for output elements [begin, begin + count): where they lie, or copied to
  /// `block`. `filled` remembers a value that the whole of `block` already holds. One element that
  /// stands for all is given as such `if_repeated`.
  Elements Get(int64_t begin, int64_t count, std::byte* block, const std::byte** filled,
               bool if_repeated) const {
    if (direct_) return {base_ + Bytes(begin), false};
    std::array<int64_t, Shape::kMaxRank> index{};
    int64_t source = 0, rest = begin;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      index[At(axis)] = rest % extents_[At(axis)];
      rest /= extents_[At(axis)];
      source += index[At(axis)] * strides_[At(axis)];
    }
    const size_t last = At(rank_ - 1);
    if (extents_[last] - index[last] >= count && strides_[last] <= 1) {
      const std::byte* from = base_ + Bytes(source);
      if (strides_[last] == 1) return {from, false};
      if (if_repeated) return {from, true};
      if (*filled != from) Fill(block, from, item_, count);  // later blocks are no longer
      *filled = from;
      return {block, false};
    }
    *filled = nullptr;
    CopyRuns(index, source, count, block);
    return {block, false};
  }

 private:
  static size_t At(int axis) { return static_cast<size_t>(axis); }
  int64_t Bytes(int64_t elements) const { return elements * static_cast<int64_t>(item_); }

  /// Merges axes that are walked as one: both repeated, or both stepped through in order.
  void Collapse(const View& view, const Shape& out) {
    const int shift = out.rank() - view.shape.rank();
    for (int axis = out.rank() - 1; axis >= 0; --axis) {
      if (out[axis] == 1) continue;
      const bool repeated = axis < shift || view.shape[axis - shift] == 1;
      const int64_t step = repeated ? 0 : view.strides[At(axis - shift)];
      if (rank_ > 0 && step == strides_[At(rank_ - 1)] * extents_[At(rank_ - 1)]) {
        extents_[At(rank_ - 1)] *= out[axis];
      } else {
        extents_[At(rank_)] = out[axis];
        strides_[At(rank_)] = step;
        ++rank_;
      }
    }
    std::reverse(extents_.begin(), extents_.begin() + rank_);
    std::reverse(strides_.begin(), strides_.begin() + rank_);
  }

  void CopyRuns(std::array<int64_t, Shape::kMaxRank>& index, int64_t source, int64_t count,
                std::byte* block) const {
    const size_t last = At(rank_ - 1);
    while (count > 0) {
      const int64_t run = std::min(count, extents_[last] - index[last]);
      if (strides_[last] == 0) {
        Fill(block, base_ + Bytes(source), item_, run);
      } else if (strides_[last] == 1) {
        std::memcpy(block, base_ + Bytes(source), static_cast<size_t>(Bytes(run)));
      } else {
        for (int64_t i = 0; i < run; ++i) {
          std::memcpy(block + Bytes(i), base_ + Bytes(source + i * strides_[last]), item_);
        }
      }
      block += Bytes(run);
      count -= run;
      source -= index[last] * strides_[last];
      index[last] = 0;
      for (int axis = rank_ - 2; axis >= 0; --axis) {
        source += strides_[At(axis)];
        if (++index[At(axis)] < extents_[At(axis)]) break;
        source -= index[At(axis)] * strides_[At(axis)];
        index[At(axis)] = 0;
      }
    }
  }

  const std::byte* base_;
  size_t item_;
  bool direct_ = false;
  bool single_;
  int rank_ = 0;
  std::array<int64_t, Shape::kMaxRank> extents_{};
  std::array<int64_t, Shape::kMaxRank> strides_{};
};

/// One pass over output elements [begin, end) by one thread.
class Pass {
 public:
  Pass(const Code& code, std::span<const Access> accesses, Tensor& out, int64_t block)
      : code_(code),
        accesses_(accesses),
        out_(out),
        block_(block),
        slots_(static_cast<size_t>(code.slots)),
        blocks_(slots_.size()),
        may_repeat_(slots_.size()),
        repeated_(slots_.size()),
        filled_(accesses.size()) {
    SmallVector<bool, 16> outside(slots_.size());  // of the memory of this pass
    outside[0] = true;
    for (size_t i = 0; i < accesses.size(); ++i) {
      outside[At(code.operands[i].slot)] = accesses[i].direct();
    }
    const size_t slot_bytes = static_cast<size_t>(block) * code.item;
    const size_t inside = static_cast<size_t>(std::count(outside.begin(), outside.end(), false));
    std::byte* memory = stack_;
    if (slot_bytes * inside > kStackBytes) {
      heap_ = AllocateHost(slot_bytes * inside);
      memory = heap_->data();
    }
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (outside[slot]) continue;
      slots_[slot] = memory;
      memory += slot_bytes;
    }
    std::copy(slots_.begin(), slots_.end(), blocks_.begin());
    for (size_t i = 0; i < accesses.size(); ++i) {
      const int slot = code.operands[i].slot;
      may_repeat_[At(slot)] = !accesses[i].direct() && !accesses[i].single() && MayRepeat(slot);
    }
  }

  void Run(int64_t begin, int64_t end) {
    const int64_t longest = std::min(block_, end - begin);
    for (const Code::ConstantSlot& constant : code_.constants) {
      Fill(slots_[At(constant.slot)], constant.value.data(), constant.item, longest);
    }
    for (size_t i = 0; i < accesses_.size(); ++i) {
      if (!accesses_[i].single()) continue;
      Fill(slots_[At(code_.operands[i].slot)], accesses_[i].base(), accesses_[i].item(), longest);
    }
    for (; begin < end; begin += block_) RunBlock(begin, std::min(block_, end - begin));
  }

 private:
  static size_t At(int slot) { return static_cast<size_t>(slot); }

  void RunBlock(int64_t begin, int64_t count) {
    blocks_[0] = out_.raw() + begin * static_cast<int64_t>(ItemSize(code_.dtype));
    for (size_t i = 0; i < accesses_.size(); ++i) {
      if (accesses_[i].single()) continue;
      const size_t slot = At(code_.operands[i].slot);
      const Access::Elements elements =
          accesses_[i].Get(begin, count, slots_[slot], &filled_[i], may_repeat_[slot]);
      // Operands are only read; the slots of the others are written.
      blocks_[slot] = const_cast<std::byte*>(elements.first);
      repeated_[slot] = elements.repeated;
    }
    for (const Code::Instruction& instruction : code_.instructions) {
      Kernel kernel = instruction.kernel;
      std::array<const void*, 3> args;
      for (size_t i = 0; i < args.size(); ++i) {
        args[i] = nullptr;
        if (instruction.args[i] < 0) continue;
        args[i] = blocks_[At(instruction.args[i])];
        if (repeated_[At(instruction.args[i])]) kernel = instruction.repeated[i];
      }
      kernel(args.data(), blocks_[At(instruction.target)], count);
    }
  }

  /// Whether all instructions that read the slot can take one element for all of it: none of them
  /// reads another one that way.
  bool MayRepeat(int slot) const {
    const auto can = [&](const Code::Instruction& instruction) {
      for (size_t i = 0; i < instruction.args.size(); ++i) {
        const int arg = instruction.args[i];
        if (arg != slot) continue;
        if (instruction.repeated[i] == nullptr) return false;
        const int other = instruction.args[1 - i];  // such instructions have two arguments
        if (other == slot || may_repeat_[At(other)]) return false;
      }
      return true;
    };
    return std::all_of(code_.instructions.begin(), code_.instructions.end(), can);
  }

  const Code& code_;
  std::span<const Access> accesses_;
  Tensor& out_;
  int64_t block_;
  SmallVector<std::byte*, 16> slots_;   // memory of each slot
  SmallVector<std::byte*, 16> blocks_;  // where its elements are for the current block
  SmallVector<bool, 16> may_repeat_;    // by one element for the whole block
  SmallVector<bool, 16> repeated_;      // in the current block
  SmallVector<const std::byte*, 8> filled_;
  std::shared_ptr<Buffer> heap_;
  alignas(64) std::byte stack_[kStackBytes];
};

}  // namespace

View::View(const Tensor& tensor)
    : data(tensor.raw()), shape(tensor.shape()), on_host(tensor.device().type == DeviceType::kCpu) {
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
}

SmallVector<View, 4> ViewsOf(std::span<const Value* const> operands) {
  SmallVector<View, 4> views;
  for (const Value* operand : operands) {
    views.push_back(operand->IsTensor() ? View(operand->AsTensor()) : View());
  }
  return views;
}

void Run(const Code& code, std::span<const View> operands, Tensor& out, const Context& context) {
  const int64_t elements = out.elements();
  if (elements == 0) return;
  if (context.stream() != nullptr) return RunOnDevice(*context.stream(), code, operands, out);
  if (code.in_f16 != nullptr) return Run(*code.in_f16, operands, out, context);
  SmallVector<Access, 4> accesses;
  for (const Code::OperandSlot& slot : code.operands) {
    accesses.emplace_back(operands[static_cast<size_t>(slot.operand)], out.shape(), slot.item);
  }
  const auto direct = std::count_if(accesses.begin(), accesses.end(),
                                    [](const Access& access) { return access.direct(); });
  const int64_t element_bytes = static_cast<int64_t>(code.item) * (code.slots - direct);
  const int64_t near = CacheBlock(kBlockBytes, ThisMachine().l1, 0.5);
  const int64_t fitting = near / element_bytes / kMinBlock * kMinBlock;
  const int64_t block = std::clamp(fitting, kMinBlock, kMaxBlock);
  // A piece should take some microseconds at least, or starting a thread costs more.
  const int64_t grain =
      32768 / std::max<int64_t>(1, static_cast<int64_t>(code.instructions.size()));
  context.ParallelFor(elements, std::max(block, grain), [&](int64_t begin, int64_t end) {
    Pass(code, accesses, out, block).Run(begin, end);
  });
}

}  // namespace oort::expression
