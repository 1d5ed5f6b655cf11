// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "oort/layer.h"

namespace oort {

struct RuntimeImpl;

/// Where the elements of a slot live.
struct Placement {
  enum Kind {
    kNone,     ///< no tensor: a number, a list, or nothing
    kInput,    ///< memory of a graph input or a constant (directly or as a view)
    kArena,    ///< `offset` bytes into the arena
    kOutput,   ///< `offset` bytes into the result number `index`
    kDynamic,  ///< allocated when the operator runs, because its size is not known before
  };
  Kind kind = kNone;
  size_t offset = 0;
  int index = 0;  ///< kInput: the slot that owns the memory; kOutput: the number of the result
  bool on_device = false;  ///< kArena: in that of the GPU
};

struct Step {
  enum Kind {
    kRun,      ///< shapes are known: just run the layer
    kDynamic,  ///< infer, allocate, run
    kSkip,     ///< nothing to do: views and numbers
  };
  Kind kind = kRun;
  size_t workspace_offset = 0;
  size_t workspace_size = 0;
  std::vector<int> release;  ///< slots allocated at run time that nobody reads after this step
  std::string sharing;       ///< for reports: "view of x", "in place of x"
};

/// A stretch of the arena, for reports: the memory of a slot, or the scratch of a step.
struct ArenaBlock {
  int owner = 0;
  bool scratch = false;
  size_t offset = 0, size = 0;
  int first = 0, last = 0;  ///< steps, both included
  bool on_device = false;
};

/// Everything that can be decided once the shapes of the inputs are known. Immutable.
struct ExecutionPlan {
  std::vector<Value> inputs;          ///< what it was made for; tensors without elements
  std::vector<Value> specs;           ///< by slot: meta tensors, values, or deferred
  std::vector<Placement> placements;  ///< by slot
  std::vector<Step> steps;            ///< one for each node
  /// For each result: whether it is produced in place (else it is copied at the end).
  std::vector<bool> direct_outputs;
  std::vector<ArenaBlock> blocks;
  // Slots that each run binds anew, and lets go of at its end.
  std::vector<int> input_views;   ///< views of inputs
  std::vector<int> output_slots;  ///< that live in a result
  std::vector<int> borrowed;      ///< all whose memory is not the session's
  size_t arena_size = 0;
  size_t device_arena_size = 0;
  size_t arena_bound = 0;  ///< most bytes that are needed at one time, on the host
  size_t largest_workspace = 0;
  size_t bytes_without_reuse = 0;
  size_t output_bytes = 0;
};

/// Infers all shapes and lays out the memory for inputs like `inputs` (meta tensors will do).
ExecutionPlan MakePlan(const RuntimeImpl& graph, const std::vector<Value>& inputs, int threads);

}  // namespace oort
