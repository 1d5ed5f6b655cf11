// SPDX-License-Identifier: MIT
// Reductions over any set of axes. Neighbouring axes that are both kept or both reduced are merged,
// so that an operator only ever sees contiguous runs or blocks of columns.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/scratch_vector.h"
#include "oort/layer.h"

namespace oort {

struct ReducePlan {
  struct Axis {
    int64_t extent = 1, stride = 0;
  };
  Shape output;       ///< as the operator returns it
  int64_t count = 1;  ///< elements that go into each output
  int64_t results = 1;
  bool contiguous = true;  ///< whether the innermost axis is reduced
  // Merged axes, outermost first; each has at least one entry.
  ScratchVector<Axis> kept, reduced;
};

/// None and an empty list stand for all axes. Throws for axes that are out of range or repeated.
ReducePlan PlanReduction(const Shape& input, const std::vector<int64_t>& dims, bool keepdim);

/// The `dim` and `keepdim` of an operator.
struct ReduceAxes {
  explicit ReduceAxes(const LayerInit& init);
  ReducePlan Plan(const Shape& input) const { return PlanReduction(input, dims, keepdim); }
  std::vector<int64_t> dims;  ///< empty: all
  bool keepdim;
};

/// Throws kInvalidArgument if there is an output, but nothing to compute it from.
void RequireElements(const ReducePlan& plan, const Shape& input);

/// Where element `index` of the axes [0, axes) begins.
inline int64_t OffsetOf(const ScratchVector<ReducePlan::Axis>& list, size_t axes, int64_t index) {
  int64_t offset = 0;
  for (size_t i = axes; i-- > 0;) {
    offset += index % list[i].extent * list[i].stride;
    index /= list[i].extent;
  }
  return offset;
}

/// `rows` rows of `width` elements, `step` apart; row r holds elements `first_index` + r of the
/// reductions of its columns.
template <typename T>
struct Columns {
  const T* first;
  int64_t rows, step, width, first_index;
};

/// Runs an operator over everything in `plan`. Op has
///   State, kPasses and Start() → State,
///   Run(state, x, count, first_index, pass): takes a contiguous run,
///   Block(states, columns, pass): takes a row of each column at a time,
///   Between(state, pass): called between passes,
/// and `emit(output index, state)` stores a result.
template <typename T, typename Op, typename Emit>
class Reducer {
 public:
  Reducer(const ReducePlan& plan, const T* x, const Op& op, const Emit& emit)
      : plan_(plan), x_(x), op_(op), emit_(emit) {}

  void Run(const Context& context) const {
    if (plan_.results == 0) return;
    const int64_t inner = plan_.contiguous ? 1 : std::min(kColumns, plan_.kept.back().extent);
    const int64_t grain = 16384 / std::max<int64_t>(1, plan_.count * inner) + 1;
    if (plan_.contiguous) {
      context.ParallelFor(plan_.results, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ReduceRuns(i);
      });
      return;
    }
    const int64_t width = plan_.kept.back().extent;
    const int64_t chunks = (width + kColumns - 1) / kColumns;
    context.ParallelFor(plan_.results / width * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % chunks * kColumns;
        ReduceColumns(i / chunks, column, std::min(kColumns, width - column));
      }
    });
  }

 private:
  static constexpr int64_t kColumns = 64;

  void ReduceRuns(int64_t result) const {
    typename Op::State state = op_.Start();
    const T* x = x_ + OffsetOf(plan_.kept, plan_.kept.size(), result);
    const int64_t run = plan_.reduced.back().extent;
    const int64_t runs = run == 0 ? 0 : plan_.count / run;
    for (int pass = 0; pass < Op::kPasses; ++pass) {
      if (pass > 0) op_.Between(state, pass);
      for (int64_t i = 0; i < runs; ++i) {
        const int64_t offset = OffsetOf(plan_.reduced, plan_.reduced.size() - 1, i);
        op_.Run(state, x + offset, run, i * run, pass);
      }
    }
    emit_(result, state);
  }

  void ReduceColumns(int64_t outer, int64_t column, int64_t width) const {
    std::array<typename Op::State, kColumns> states;
    std::fill(states.begin(), states.end(), op_.Start());
    const ReducePlan::Axis& rows = plan_.reduced.back();
    const int64_t blocks = rows.extent == 0 ? 0 : plan_.count / rows.extent;
    const T* x = x_ + OffsetOf(plan_.kept, plan_.kept.size() - 1, outer) + column;
    for (int pass = 0; pass < Op::kPasses; ++pass) {
      if (pass > 0) {
        for (int64_t i = 0; i < width; ++i) op_.Between(states[static_cast<size_t>(i)], pass);
      }
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t offset = OffsetOf(plan_.reduced, plan_.reduced.size() - 1, i);
        op_.Block(states.data(),
                  Columns<T>{x + offset, rows.extent, rows.stride, width, i * rows.extent}, pass);
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      emit_(outer * plan_.kept.back().extent + column + i, states[static_cast<size_t>(i)]);
    }
  }

  const ReducePlan& plan_;
  const T* x_;
  const Op& op_;
  const Emit& emit_;
};

template <typename T, typename Op, typename Emit>
void Reduce(const Context& context, const ReducePlan& plan, const T* x, const Op& op,
            const Emit& emit) {
  Reducer<T, Op, Emit>(plan, x, op, emit).Run(context);
}

/// An Op that takes one element at a time: Derived has Step(state, value, index, pass).
template <typename Derived>
struct ElementOp {
  static constexpr int kPasses = 1;
  template <typename State>
  void Between(State&, int) const {}
  template <typename State, typename T>
  void Run(State& state, const T* x, int64_t count, int64_t first_index, int pass) const {
    for (int64_t i = 0; i < count; ++i) derived().Step(state, x[i], first_index + i, pass);
  }
  template <typename State, typename T>
  void Block(State* states, const Columns<T>& columns, int pass) const {
    for (int64_t r = 0; r < columns.rows; ++r) {
      const T* row = columns.first + r * columns.step;
      for (int64_t i = 0; i < columns.width; ++i) {
        derived().Step(states[i], row[i], columns.first_index + r, pass);
      }
    }
  }

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
};

}  // namespace oort
