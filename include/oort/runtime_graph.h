// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "oort/graph.h"
#include "oort/layer.h"
#include "oort/pnnx.h"
#include "oort/precision.h"

namespace oort {

struct LoadOptions {
  /// Where operators run that have a layer for it; the others run on the CPU, with copies between.
  Device device;
  /// Where operators are looked up; null for LayerRegistry::Global().
  const LayerRegistry* registry = nullptr;
  /// Kernels to use; by default the fastest that the processor has.
  Isa isa = DefaultIsa();
  /// What products and convolutions multiply: less than f32 is faster and less exact. An operator
  /// whose parameter `precision` is in the file keeps that one.
  Precision precision = Precision::kF32;
  /// Algorithm of the convolutions that it accepts, by name (see RuntimeGraph::ConvAlgorithms); the
  /// others, and all where it is empty, take what should be fastest. NodeReport tells which.
  std::string conv_algorithm;
  bool verify_checksums = true;
  /// Infer all shapes from the traced ones at load, so that a model that contradicts itself is
  /// refused before it is run.
  bool check_traced_shapes = true;
  /// Keep the weights of graph() also where a layer has packed them, for who writes them to a file.
  bool keep_weights = false;
  /// Passes to leave out, by name (see RuntimeGraph::PassNames), or "all".
  std::vector<std::string> disabled_passes;
  std::stop_token stop;
  ProgressFunction progress;
};

/// An input or output of a model.
struct Port {
  std::string name;  ///< "pnnx_input_0"
  std::string operand;
  DType dtype = DType::kNull;  ///< kNull where the file does not say
  bool has_shape = false;
  Shape shape;  ///< as traced; a hint
  /// Of an output: where it is made, if it comes to the host for the caller alone. A tensor of the
  /// caller's there takes it without that copy; a result of unknown shape is copied back.
  Device device = {};
};

/// The input of that name ("pnnx_input_0"), operand, or place ("in0", "in1", …); -1 if none is.
int FindInput(const std::vector<Port>& inputs, std::string_view name);

/// Bytes of a memory plan.
struct MemoryReport {
  size_t weights = 0;      ///< held by the graph, packed or as in the file; all sessions share them
  size_t loading = 0;      ///< most weights at one time while it was built, packed and not yet
  size_t structures = 0;   ///< operators, names, parameters, layers, plans
  size_t arena = 0;        ///< activations and scratch, planned with reuse
  size_t arena_bound = 0;  ///< most bytes that are needed at one time: no plan takes less
  size_t outputs = 0;      ///< results, which belong to the caller
  size_t without_reuse = 0;
  size_t workspace = 0;       ///< largest scratch of one operator, inside the arena
  size_t device_weights = 0;  ///< those in the memory of a GPU
  size_t device_arena = 0;    ///< activations and scratch there

  /// What graph and session hold on the host after a run, the results among it.
  size_t Held() const { return weights + structures + arena + outputs; }
  /// The most they ever held: in that run, or while the graph was built.
  size_t Peak() const { return std::max(Held(), loading + structures); }
};

/// One operator of the plan for given inputs.
struct NodeReport {
  std::string name, type;
  int line = 0;
  std::vector<std::string> inputs, outputs;  ///< "(1,3,224,224)f32"
  Cost work;
  size_t first_offset = 0;  ///< of output 0 in the arena
  bool in_arena = false;
  std::string sharing;  ///< "", "view of x", "in place of x"
  Device device;
  std::string fallback;  ///< why it is on the CPU although the model is not; empty where it is not
};

/// A stretch of the arena, and the operators (indices into PlanReport::nodes) that need it.
struct MemoryBlock {
  std::string name;  ///< of the operand, or of the operator whose scratch it is
  bool scratch = false;
  size_t offset = 0, bytes = 0;
  int first = 0, last = 0;  ///< both included
  Device device;            ///< whose arena it is
};

struct PlanReport {
  std::vector<NodeReport> nodes;
  MemoryReport memory;
  std::vector<MemoryBlock> blocks;
};

struct RuntimeImpl;

/// A model ready to run: layers in topological order with their weights.
/// Thread contract: immutable; share it between any number of threads and sessions.
class RuntimeGraph {
 public:
  static std::shared_ptr<const RuntimeGraph> Load(const std::filesystem::path& param,
                                                  const std::filesystem::path& bin,
                                                  const LoadOptions& options = {});
  static std::shared_ptr<const RuntimeGraph> Load(const ByteSource& param,
                                                  std::shared_ptr<const ByteSource> bin,
                                                  const LoadOptions& options = {});
  static std::shared_ptr<const RuntimeGraph> Build(Graph graph, const LoadOptions& options = {});
  /// Everything that would keep the graph from running: unknown operators, parameters that are
  /// missing, unknown or out of range. Empty if Build would succeed so far as can be told.
  static std::vector<Problem> Diagnose(const Graph& graph, const LoadOptions& options = {});
  static std::vector<std::string> PassNames();
  static std::vector<std::string> ConvAlgorithms();

  ~RuntimeGraph();
  RuntimeGraph(const RuntimeGraph&) = delete;
  RuntimeGraph& operator=(const RuntimeGraph&) = delete;

  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  /// The graph as it runs, after all passes.
  const Graph& graph() const;
  Isa isa() const;
  Precision precision() const;
  /// That of LoadOptions.
  Device device() const;
  /// Where the operator of that name runs; the host where the graph, as it runs, has none.
  Device DeviceOf(std::string_view operator_name) const;
  /// Most rows of a batch that all of its layers take without a change to the result of any row
  /// (see LayerTraits).
  int64_t BatchInvariantRows() const;
  /// Up to how many of these it is as fast as without that promise, by what most of the layers say
  /// that say anything.
  int64_t FastInvariantRows() const;
  /// Plans for inputs of these shapes and dtypes (Tensor::Meta will do) without running.
  PlanReport Plan(const std::vector<Tensor>& inputs, int threads = 1) const;
  /// Shapes and dtypes of the outputs; a deferred one is undefined.
  std::vector<Tensor> InferShapes(const std::vector<Tensor>& inputs) const;

 private:
  friend class Session;
  explicit RuntimeGraph(std::unique_ptr<RuntimeImpl> impl);
  std::unique_ptr<RuntimeImpl> impl_;
};

}  // namespace oort
