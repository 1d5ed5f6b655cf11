// SPDX-License-Identifier: MIT
// The heads of a recurrence that keeps a matrix (head_dim, size) for each of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "core/checked.h"
#include "core/parallel.h"
#include "layers/state_space/state_batch.h"
#include "oort/layer.h"

namespace oort {

/// Groups of heads share two vectors of `size` numbers.
struct ScanHeads {
  int64_t layer = 0, heads = 0, head_dim = 0, groups = 0, size = 0;
  int64_t inner = 0, width = 0, state = 0;  ///< heads' numbers, those of an input, of a state

  explicit ScanHeads(const LayerInit& init)
      : layer(init.Int("layer")),
        heads(init.Int("heads")),
        head_dim(init.Int("head_dim")),
        groups(init.Int("groups")),
        size(init.Int("size")) {
    if (heads % groups != 0) {
      throw Error(ErrorCode::kInvalidModel, std::to_string(heads) + " heads cannot share " +
                                                std::to_string(groups) + " groups evenly");
    }
    inner = CheckedMultiply(heads, head_dim);
    width = CheckedAdd(inner, CheckedMultiply(CheckedMultiply(groups, size), int64_t{2}));
    state = CheckedMultiply(inner, size);
  }

  int64_t GroupOf(int64_t head) const { return head / (heads / groups); }

  /// That of a head, all zeros where its sequence begins.
  float* StateOf(const SequenceSlice& slice, int64_t head) const {
    float* const numbers = slice.state->Recurrence(layer) + head * head_dim * size;
    if (slice.position == 0) std::fill_n(numbers, head_dim * size, 0.0f);
    return numbers;
  }

  /// Calls `run` with each head of every sequence, which is for itself whatever else a step has;
  /// `touches` says how often a token reads or writes a number of its state.
  template <typename Run>
  void ForEach(const Context& context, int64_t tokens, double touches, Run run) const {
    const auto slices = StatesOf(context, tokens, {layer, -1, state});
    const int64_t sequences = std::ssize(slices);
    const double numbers = static_cast<double>(head_dim * size);
    const double each =
        static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(sequences, 1));
    const int64_t grain = GrainOf({numbers * 8, numbers * touches * each});
    context.ParallelFor(sequences * heads, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run(slices[static_cast<size_t>(i / heads)], i % heads);
      }
    });
  }

  /// Of how many sequences the tokens are is not known here: one state is read and written.
  void AddWork(int64_t tokens, double flops, Cost& cost) const {
    cost.flops = flops * static_cast<double>(tokens) * static_cast<double>(state);
    cost.bytes += 2 * sizeof(float) * static_cast<double>(state);
  }

  static void Require(const Shape& got, const Shape& expected, const char* what) {
    if (got == expected) return;
    throw Error(ErrorCode::kInvalidArgument, std::string("expected ") + what + " " +
                                                 expected.ToString() + ", got " + got.ToString());
  }

  /// As torch has it.
  static float Softplus(float x) {
    constexpr float kStraight = 20;
    return x > kStraight ? x : std::log1p(std::exp(x));
  }

  static OperatorSchema& Declare(OperatorSchema& schema) {
    return schema.Int("layer")
        .AtLeast(0)
        .Int("heads")
        .AtLeast(1)
        .Int("head_dim")
        .AtLeast(1)
        .Int("groups", 1)
        .AtLeast(1)
        .Int("size")
        .AtLeast(1);
  }
};

}  // namespace oort
