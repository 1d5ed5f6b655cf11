// SPDX-License-Identifier: MIT
// What an operator author implements. See docs/adding-an-operator.md.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/context.h"
#include "oort/isa.h"
#include "oort/schema.h"
#include "oort/value.h"

namespace oort {

/// Output `output` may share the memory of argument `argument`.
struct Reuse {
  enum Kind {
    kView,     ///< its bytes *are* those of the argument at `offset`: Forward is not called for it
    kInPlace,  ///< Forward may write the output over the argument, if nobody else reads it
  };
  Kind kind = kInPlace;
  int argument = 0;  ///< index into Args; Args::size() + i stands for variadic()[i]
  int output = 0;
  size_t offset = 0;  ///< in bytes, for kView
};

/// Work of one call, for `oort info` and the profiler.
struct Cost {
  double flops = 0;
  double bytes = 0;  ///< read and written, each tensor once
  /// How it is done, where there are several ways; a constant of the program.
  std::string_view algorithm = {};
};

/// What the runtime must know of a layer beside its results.
struct LayerTraits {
  /// Forward runs on the CPU and on a GPU, because it leaves all that is done to elements to
  /// routines that look at Context::stream(). The constants that these read it uploads when it is
  /// made with a GPU as LayerInit::device(); its constructor throws kUnsupported for what the GPU
  /// cannot do.
  bool either_device = false;
  /// Reads the shapes of its arguments and no elements, so that they may be on any device.
  bool shapes_only = false;
  /// Forward allocates on the GPU, or waits for it: it cannot be a part of a recorded CUDA graph.
  bool unrecordable = false;
  /// Beside its kernels for f32 it has some for f16, which run on this processor.
  bool native_f16 = false;
  /// Most rows of a batch for which the result of each is the same whatever the others are: more
  /// would be multiplied by another kernel, with sums in another order.
  int64_t batch_invariant_rows = std::numeric_limits<int64_t>::max();
  /// Up to how many rows the kernels with that promise are the fastest, too.
  int64_t fast_invariant_rows = std::numeric_limits<int64_t>::max();
};

/// One operator of a model, ready to run. What depends on weights alone is done in its
/// constructor. Thread contract: const methods run concurrently from any number of threads.
class Layer {
 public:
  virtual ~Layer() = default;

  /// Outputs' dtypes and shapes (Tensor::Meta), or their values where they are no tensors.
  /// The tensors in `args` may lack elements. An output that depends on elements is
  /// Value::Deferred(). Throws an Error that says what was expected and what came.
  virtual std::vector<Value> Infer(const Args& args) const = 0;

  /// Fills `outputs`: tensors are allocated as Infer said; a deferred one is assigned here.
  virtual void Forward(const Context& context, const Args& args,
                       std::span<Value> outputs) const = 0;

  virtual LayerTraits Traits() const { return {}; }
  /// Which outputs may share memory with which arguments.
  virtual std::vector<Reuse> Reuses(const Args& args) const;
  /// Scratch bytes for one call.
  virtual size_t Workspace(const Args& args, int threads) const;
  /// Whether the constructor made a copy of its own (packed, converted) of this constant argument.
  /// Then the original is let go of: afterwards its shape and dtype are there, but no elements.
  virtual bool Packs(int argument) const;
  /// Called once, when all layers of a graph are made and what they packed is let go of: the place
  /// to make what would otherwise be in memory beside all that.
  virtual void Settle() {}
  /// Of a layer that waits for its weights: those that a step of decode reads, in the order in
  /// which it does, on the layer's device. What runs before it there may prefetch them.
  virtual std::span<const std::byte> WeightBytes() const { return {}; }
  /// Default: no FLOPs, the bytes of all tensors.
  virtual Cost Work(const Args& args, std::span<const Value> outputs) const;
};

/// What a layer is made from.
class LayerInit {
 public:
  LayerInit(const Operator& op, const OperatorSchema& schema, const BoundArgs& bound,
            std::span<const Value> constant_inputs, Isa isa,
            std::span<const Operand* const> outputs, std::span<const Operand* const> inputs = {},
            Device device = {})
      : op_(op),
        schema_(schema),
        bound_(bound),
        constant_inputs_(constant_inputs),
        isa_(isa),
        outputs_(outputs),
        inputs_(inputs),
        device_(device) {}

  const Operator& op() const { return op_; }
  const std::string& type() const { return op_.type; }
  const OperatorSchema& schema() const { return schema_; }
  const BoundArgs& bound() const { return bound_; }
  Isa isa() const { return isa_; }
  /// Where the layer will run: a CUDA layer uploads its constants there.
  Device device() const { return device_; }
  /// The traced shapes and dtypes of the outputs: hints, see Operand.
  std::span<const Operand* const> outputs() const { return outputs_; }
  /// Those of the inputs, in the order of the file.
  std::span<const Operand* const> inputs() const { return inputs_; }

  /// Index of an argument for Args, or -1 if the schema has none of that name.
  int Arg(std::string_view name) const { return schema_.Find(name); }
  /// Whether the argument is known now (a parameter, an attribute or a folded constant).
  bool IsConstant(std::string_view name) const;
  /// Its value if it is constant, None otherwise (and where the schema has no such argument).
  const Value& Constant(std::string_view name) const;
  // Shorthands for constant parameters; they throw if the argument is not constant.
  int64_t Int(std::string_view name) const { return Required(name).AsInt(); }
  double Float(std::string_view name) const { return Required(name).AsFloat(); }
  bool Bool(std::string_view name) const { return Required(name).AsBool(); }
  const std::string& String(std::string_view name) const { return Required(name).AsString(); }
  std::vector<int64_t> Ints(std::string_view name) const { return Required(name).AsInts(); }
  std::vector<double> Floats(std::string_view name) const { return Required(name).AsFloats(); }
  /// A constant weight as contiguous f32 (converted from f16, bf16 or f64), undefined if absent
  /// or not constant. Found as "@name" or "name".
  Tensor Weight(std::string_view name) const;

 private:
  const Value& Required(std::string_view name) const;
  const Operator& op_;
  const OperatorSchema& schema_;
  const BoundArgs& bound_;
  std::span<const Value> constant_inputs_;  // one for each input; deferred where not constant
  Isa isa_;
  std::span<const Operand* const> outputs_;
  std::span<const Operand* const> inputs_;
  Device device_;
};

using LayerCreator = std::function<std::unique_ptr<Layer>(const LayerInit&)>;

/// A creator that calls L's constructor.
template <typename L>
LayerCreator Create() {
  return [](const LayerInit& init) { return std::make_unique<L>(init); };
}

class Decomposer;  // graph/decomposition.h

/// An operator in terms of simpler ones: calls them and returns its outputs.
using Decomposition = std::function<std::vector<Value>(const Decomposer& call, const Args& args)>;

/// Operator types, and for each the creators of its layers by device.
/// Thread contract: const methods run concurrently; Add excludes everything else.
class LayerRegistry {
 public:
  LayerRegistry();  ///< empty
  LayerRegistry(const LayerRegistry& other);
  LayerRegistry& operator=(const LayerRegistry&) = delete;
  ~LayerRegistry();
  /// All built-in operators, and what the program adds. Models that are loaded keep what they
  /// were made of.
  static LayerRegistry& Global();

  /// Declares an operator with its CPU layer. Throws kInvalidArgument if one of its types is
  /// there already; Replace overrides it.
  void Add(OperatorSchema schema, LayerCreator cpu);
  void Replace(OperatorSchema schema, LayerCreator cpu);
  /// Adds a layer for another device to types that are declared. Without a creator it is the CPU's
  /// layer, which refuses an operator unless its traits say that it runs on either device.
  void AddDevice(const std::vector<std::string>& types, DeviceType device,
                 LayerCreator creator = nullptr);
  /// Tells how operators of types that are declared are made of others; see the pass decompose.
  void SetDecomposition(const std::vector<std::string>& types, Decomposition decomposition);

  /// Null if there is none. The pointers stay valid as long as the registry.
  const OperatorSchema* Schema(std::string_view type) const;
  /// Whether operators of this type may run on the device: a layer can still refuse one of them.
  bool Has(std::string_view type, DeviceType device) const;
  /// Makes the layer for init.device(). Throws kUnsupported if there is none, or if it refuses.
  std::unique_ptr<Layer> Make(const LayerInit& init) const;
  Decomposition DecompositionOf(std::string_view type) const;  ///< empty if there is none
  std::vector<std::string> Types() const;                      ///< sorted
  /// Up to three declared types that look like `type`, nearest first.
  std::vector<std::string> Similar(std::string_view type) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Each .cpp file in layers/ defines one registration function, named after the file:
///   OORT_LAYERS(leaky_relu) { registry.Add(…); }
/// It runs once: the compiler need not optimize it.
#define OORT_LAYERS(file_stem)                                              \
  namespace oort::builtin {                                                 \
  [[gnu::cold]] void Register_##file_stem(::oort::LayerRegistry& registry); \
  }                                                                         \
  void oort::builtin::Register_##file_stem(::oort::LayerRegistry& registry)

/// The same for layers of CUDA, in the .cpp, .cuda.cpp or .cu file that has them:
///   OORT_CUDA_LAYERS(leaky_relu) { registry.AddDevice({types}, DeviceType::kCuda, …); }
/// A build without CUDA does not call it.
#define OORT_CUDA_LAYERS(file_stem)                                             \
  namespace oort::builtin {                                                     \
  [[gnu::cold]] void RegisterCuda_##file_stem(::oort::LayerRegistry& registry); \
  }                                                                             \
  void oort::builtin::RegisterCuda_##file_stem(::oort::LayerRegistry& registry)

}  // namespace oort
