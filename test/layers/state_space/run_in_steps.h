// SPDX-License-Identifier: MIT
// Operators with a state, run on several sequences whose tokens come in parts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "oort/kv_cache.h"
#include "oort/oort.h"
#include "oort/sequence_state.h"

namespace oort::testing {

inline Tensor StepRowsOf(const Tensor& all, int64_t first, int64_t count) {
  return Tensor::From(all.span<float>().subspan(static_cast<size_t>(first * all.dim(1)),
                                                static_cast<size_t>(count * all.dim(1))),
                      Shape{count, all.dim(1)});
}

/// Sequences that take turns and share steps, as `parts` says: how many tokens of each come in a
/// step. Returns the rows of each sequence. States begin with garbage.
inline std::vector<std::vector<float>> RunInSteps(const Graph& graph, Isa isa,
                                                  const StateShape& shape,
                                                  const std::vector<std::vector<Tensor>>& inputs,
                                                  const std::vector<std::vector<int64_t>>& parts,
                                                  int threads) {
  LoadOptions load;
  load.isa = isa;
  Session session(RuntimeGraph::Build(graph, load), {.threads = threads});
  std::vector<std::unique_ptr<SequenceState>> states;
  for (size_t i = 0; i < inputs.size(); ++i) {
    states.push_back(std::make_unique<SequenceState>(shape));
    std::fill_n(states.back()->Inputs(0), static_cast<int64_t>(shape.bytes() / sizeof(float)), NAN);
  }
  std::vector<int64_t> positions(inputs.size());
  std::vector<std::vector<float>> rows(inputs.size());
  for (const std::vector<int64_t>& step : parts) {
    std::vector<SequenceSlice> slices;
    int64_t first = 0;
    for (size_t i = 0; i < step.size(); ++i) {
      SequenceSlice slice{first, step[i], positions[i], {}};
      slice.state = states[i].get();
      slices.push_back(slice);
      first += step[i];
    }
    std::vector<Tensor> joined;
    for (size_t input = 0; input < inputs[0].size(); ++input) {
      std::vector<float> all;
      for (size_t i = 0; i < step.size(); ++i) {
        const Tensor part = StepRowsOf(inputs[i][input], positions[i], step[i]);
        all.insert(all.end(), part.span<float>().begin(), part.span<float>().end());
      }
      joined.push_back(
          Tensor::From(std::span<const float>(all), Shape{first, inputs[0][input].dim(1)}));
    }
    const SequenceBatch batch(slices, nullptr);
    RunOptions run;
    run.state = &batch;
    const Tensor out = session.Forward(joined, run).at(0);
    for (size_t i = 0; i < step.size(); ++i) {
      const Tensor part = StepRowsOf(out, slices[i].first, step[i]);
      rows[i].insert(rows[i].end(), part.span<float>().begin(), part.span<float>().end());
      positions[i] += step[i];
    }
  }
  return rows;
}

inline void ExpectNearRows(const std::vector<float>& got, const Tensor& want) {
  ASSERT_EQ(static_cast<int64_t>(got.size()), want.elements());
  for (size_t i = 0; i < got.size(); ++i) {
    const float number = want.span<float>()[i];
    ASSERT_NEAR(got[i], number, 2e-5 + 2e-5 * std::abs(number)) << i;
  }
}

/// How many tokens of each of two sequences come in a step: all 9 and 14 at once, or not.
inline const std::vector<std::vector<int64_t>> kAtOnce = {{9, 14}};
inline const std::vector<std::vector<int64_t>> kInParts = {{4, 0}, {1, 1}, {1, 9}, {0, 3}, {3, 1}};

}  // namespace oort::testing
