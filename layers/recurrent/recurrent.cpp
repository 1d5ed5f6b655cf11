// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "core/checked.h"
#include "cuda/memory.h"
#include "cuda/stream.h"
#include "graph/open_attributes.h"
#include "layers/composite/float_dtypes.h"
#include "layers/quantize/projection.h"
#include "layers/recurrent/cell_kernels.h"
#include "layers/recurrent/device_cell.h"
#include "layers/recurrent/recurrent_outputs.h"
#include "layers/repair_log.h"
#include "layers/shape/strided_copy.h"

namespace oort {
namespace {

[[noreturn]] void Throw(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// What tells the operators of the family apart.
struct RecurrentForm {
  const char* type;
  const char* dynamic_type;  // of which weights are bytes
  int gates;
  bool has_cell;
  const char* doc;
};

constexpr RecurrentForm kForms[] = {
    {"nn.LSTM", "oort.DynamicLSTM", 4, true, "Long short-term memory over a sequence"},
    {"nn.GRU", "oort.DynamicGRU", 3, false, "Gated recurrent units over a sequence"},
    {"nn.RNN", "oort.DynamicRNN", 1, false,
     "h = nonlinearity(W_ih x + b_ih + W_hh h + b_hh) over a sequence"},
};

/// Weights that are looked up by name, so that a file that lacks one, or has one too many, is
/// refused.
class Weights {
 public:
  Weights(const LayerInit& init, DType dtype) : attributes_(init.op().attributes), dtype_(dtype) {}

  /// As elements of the layer's dtype.
  Tensor Take(const std::string& name, const Shape& shape) {
    return Find(name, shape, kFloats, "a float dtype").To(dtype_);
  }
  Tensor TakeBytes(const std::string& name, const Shape& shape) {
    return Find(name, shape, DTypeSet(DType::kI8), "i8");
  }
  void CheckAllTaken() const {
    if (taken_ == attributes_.size()) return;
    throw Error(ErrorCode::kUnsupported, "has " + std::to_string(attributes_.size()) +
                                             " attributes, expected " + std::to_string(taken_));
  }

 private:
  const Tensor& Find(const std::string& name, const Shape& shape, DTypeSet dtypes,
                     const char* wanted) {
    const auto found = attributes_.find(name);
    if (found == attributes_.end()) {
      throw Error(ErrorCode::kInvalidModel, "attribute '@" + name + "' is missing");
    }
    const Tensor& tensor = found->second;
    if (!dtypes.Contains(tensor.dtype()) || !(tensor.shape() == shape)) {
      throw Error(ErrorCode::kInvalidModel, "expected '@" + name + "' of shape " +
                                                shape.ToString() + " and " + wanted + ", got " +
                                                tensor.ToString());
    }
    ++taken_;
    return tensor;
  }

  const std::map<std::string, Tensor>& attributes_;
  DType dtype_;
  size_t taken_ = 0;
};

/// x W^T + b
template <typename T>
struct Map {
  Projection<T> weight;
  Tensor bias;
  Tensor on_device, device_bias;  // the same on the GPU, rows padded to whole pieces
};

/// A weight with rows of DeviceRowDepth elements on the GPU.
Tensor UploadRows(const Tensor& weight, Device device) {
  const int64_t rows = weight.dim(0), in = weight.dim(1), depth = DeviceRowDepth(in);
  Tensor padded = Tensor::Zeros(DType::kF32, {rows, depth});
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(weight.data<float>() + row * in, in, padded.data<float>() + row * depth);
  }
  return cuda::ToDevice(padded, device);
}

/// One direction of one layer.
template <typename T>
struct Cell {
  Map<T> input, state, projection;
};

/// Layers of cells, each run along the sequence, once or in both directions; in f32 or f64. Those
/// of a dynamic type multiply bytes: weights are such in the file, and rows of the input and of the
/// state become such when they are read. Gates and states stay floats.
template <typename T>
class Recurrent final : public Layer, public PacksOpenAttributes {
 public:
  Recurrent(const LayerInit& init, const RecurrentForm& form)
      : form_(form),
        dynamic_(init.type() == form.dynamic_type),
        input_(init.Arg("input")),
        hidden_(init.Arg("h0")),
        cell_(init.Arg("c0")),
        device_(init.device()),
        gemm_(GemmKernelsFor(init.isa())) {
    if constexpr (std::is_same_v<T, float>) {
      ChooseStep(init, CellKernelsFor(init.isa()));
    } else {
      ChooseStep(init, kCellKernelsF64);
    }
    CheckParameters(init);
    ReadSizes(init);
    ReadWeights(init);
    returned_ = MatchRecurrentOutputs(sizes_, init.inputs().empty() ? nullptr : init.inputs()[0],
                                      init.outputs());
    if (!returned_.empty() && returned_[0] != RecurrentOutput::kSequence) {
      LogRepair(init, "took its outputs for the last states, by their shapes");
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Shape& input = args.shape(input_);
    if (input.rank() != 2 && input.rank() != 3) {
      Throw("expected an input of rank 2 or 3, got " + input.ToString());
    }
    if (input[input.rank() - 1] != cells_[0].input.weight.in()) {
      Throw("expected an input whose last axis is " + std::to_string(cells_[0].input.weight.in()) +
            ", got " + input.ToString());
    }
    if (CallOf(args).steps == 0) Throw("expected a sequence of at least one step");
    CheckState(args, hidden_, RecurrentOutput::kHidden);
    CheckState(args, CellArg(args), RecurrentOutput::kCell);
    std::vector<Value> results;
    for (RecurrentOutput output : returned_) {
      const Shape shape = sizes_.OutputShape(output, input);
      shape.elements();
      results.emplace_back(Tensor::Meta(kDTypeOf<T>, shape));
    }
    return results;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Call call = CallOf(args);
    if (call.batch == 0) return;
    const Scratch scratch = ScratchOf(call, context.threads());
    T* base = context.workspace<T>();
    RowsOf<const T> x{args.tensor(input_).data<T>(), cells_[0].input.weight.in()};
    const int64_t width = sizes_.state * sizes_.directions;
    for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
      T* y = base + scratch.sequences[static_cast<size_t>(layer % 2)];
      Tensor* wanted = Find(outputs, RecurrentOutput::kSequence);
      if (layer + 1 == sizes_.layers && wanted != nullptr) y = wanted->data<T>();
      for (int64_t direction = 0; direction < sizes_.directions; ++direction) {
        const int64_t index = layer * sizes_.directions + direction;
        const RowsOf<T> target{y + direction * sizes_.state, width};
        RunCell(context, args, call, scratch, index, x, target, outputs);
      }
      x = {y, width};
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    const Scratch scratch = ScratchOf(CallOf(args), threads);
    return CheckedMultiply(static_cast<size_t>(scratch.floats), sizeof(T));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const Call call = CallOf(args);
    for (const Cell<T>& cell : cells_) {
      for (const Map<T>* map : {&cell.input, &cell.state, &cell.projection}) {
        const double weights =
            static_cast<double>(map->weight.in()) * static_cast<double>(map->weight.out());
        cost.flops += 2 * weights * static_cast<double>(call.rows());
        cost.bytes += map->weight.bytes();
      }
    }
    return cost;
  }

 private:
  struct Call {
    int64_t steps = 0, batch = 1;
    int64_t step_rows = 1, batch_rows = 1;  // from one step, or sequence, to the next
    int64_t rows() const { return steps * batch; }
    int64_t Row(int64_t step, int64_t sequence) const {
      return step * step_rows + sequence * batch_rows;
    }
  };

  /// Offsets into the workspace, in floats.
  struct Scratch {
    int64_t x_gates = 0, h_gates = 0, zeros = 0, c = 0, unprojected = 0, gemm = 0, floats = 0;
    std::array<int64_t, 2> sequences{};
  };

  template <typename Kernels>
  void ChooseStep(const LayerInit& init, const Kernels& kernels) {
    kind_ = form_.has_cell ? CellKind::kLstm : form_.gates == 3 ? CellKind::kGru : CellKind::kTanh;
    if (form_.gates == 1 && init.String("nonlinearity") == "relu") kind_ = CellKind::kRelu;
    step_ = kind_ == CellKind::kLstm   ? kernels.lstm
            : kind_ == CellKind::kGru  ? kernels.gru
            : kind_ == CellKind::kRelu ? kernels.relu
                                       : kernels.tanh;
  }

  /// The schema is open for weights of any layer, so the parameters are checked here.
  static void CheckParameters(const LayerInit& init) {
    for (const auto& [name, parameter] : init.op().params) {
      if (init.Arg(name) < 0) {
        throw Error(ErrorCode::kUnsupported,
                    "unknown parameter " + name + "=" + parameter.text().substr(0, 80));
      }
    }
  }

  void ReadSizes(const LayerInit& init) {
    sizes_.has_cell = form_.has_cell;
    sizes_.batch_first = init.Bool("batch_first");
    sizes_.layers = init.Int("num_layers");
    sizes_.directions = init.Bool("bidirectional") ? 2 : 1;
    sizes_.hidden = sizes_.state = init.Int("hidden_size");
    CheckedMultiply(sizes_.layers, sizes_.directions);
    if (!form_.has_cell) return;
    const int64_t projected = init.Int("proj_size");
    if (projected >= sizes_.hidden) {
      Throw("expected a proj_size below hidden_size=" + std::to_string(sizes_.hidden) + ", got " +
            std::to_string(projected));
    }
    if (projected > 0) sizes_.state = projected;
  }

  bool projects() const { return sizes_.state != sizes_.hidden; }

  void ReadWeights(const LayerInit& init) {
    Weights weights(init, kDTypeOf<T>);
    const bool has_bias = init.Bool("bias");
    const int64_t gates = CheckedMultiply<int64_t>(form_.gates, sizes_.hidden);
    for (int64_t i = 0; i < sizes_.cells(); ++i) {
      const int64_t layer = i / sizes_.directions;
      const std::string suffix =
          "_l" + std::to_string(layer) + (i % sizes_.directions == 1 ? "_reverse" : "");
      const int64_t in = layer == 0 ? init.Int("input_size") : sizes_.state * sizes_.directions;
      Cell<T>& cell = cells_.emplace_back();
      const auto map = [&](const char* kind, int64_t width) {
        Map<T> made = TakeMap(init, weights, "weight_" + (kind + suffix), {gates, width});
        if (has_bias) SetBias(made, weights.Take("bias_" + (kind + suffix), {gates}));
        return made;
      };
      cell.input = map("ih", in);
      cell.state = map("hh", sizes_.state);
      if (projects()) {
        const Shape shape{sizes_.state, sizes_.hidden};
        cell.projection = TakeMap(init, weights, "weight_hr" + suffix, shape);
      }
    }
    weights.CheckAllTaken();
  }

  Map<T> TakeMap(const LayerInit& init, Weights& weights, const std::string& name,
                 const Shape& shape) const {
    Map<T> map;
    if (dynamic_) {
      const Tensor weight = weights.TakeBytes(name, shape);
      const Tensor scales = weights.Take(name + "_scales", {shape[0]});
      try {
        map.weight = Projection<T>(init.isa(), weight, scales, init.Bool("symmetric"));
      } catch (const Error& error) {
        throw error.WithContext("'@" + name + "': ");
      }
      return map;
    }
    const Tensor weight = weights.Take(name, shape);
    map.weight = Projection<T>(Dense<T>(gemm_, weight));
    if (device_.type != DeviceType::kCpu) map.on_device = UploadRows(weight, device_);
    return map;
  }

  void SetBias(Map<T>& map, const Tensor& bias) const {
    map.bias = bias;
    if (device_.type != DeviceType::kCpu) map.device_bias = cuda::ToDevice(bias, device_);
  }

  /// pnnx passes one operand where both initial states are the same.
  int CellArg(const Args& args) const {
    return form_.has_cell && !args.Has(cell_) ? hidden_ : cell_;
  }

  void CheckState(const Args& args, int arg, RecurrentOutput like) const {
    if (!args.Has(arg)) return;
    const Shape expected = sizes_.OutputShape(like, args.shape(input_));
    if (args.shape(arg) == expected) return;
    Throw(std::string("expected an initial ") +
          (like == RecurrentOutput::kCell ? "cell" : "hidden") + " state of shape " +
          expected.ToString() + ", got " + args.shape(arg).ToString());
  }

  Call CallOf(const Args& args) const {
    const Shape& input = args.shape(input_);
    Call call;
    if (input.rank() == 2) {
      call.steps = input[0];
      return call;
    }
    call.steps = input[sizes_.batch_first ? 1 : 0];
    call.batch = input[sizes_.batch_first ? 0 : 1];
    (sizes_.batch_first ? call.batch_rows : call.step_rows) =
        sizes_.batch_first ? call.steps : call.batch;
    return call;
  }

  Tensor* Find(std::span<Value> outputs, RecurrentOutput which) const {
    for (size_t i = 0; i < returned_.size(); ++i) {
      if (returned_[i] == which) return &outputs[i].AsTensor();
    }
    return nullptr;
  }

  Scratch ScratchOf(const Call& call, int threads) const {
    Scratch scratch;
    const auto take = [&](int64_t rows, int64_t width) {
      const int64_t at = scratch.floats;
      const int64_t aligned = CheckedAdd<int64_t>(CheckedMultiply(rows, width), 15) / 16 * 16;
      scratch.floats = CheckedAdd(at, aligned);
      return at;
    };
    const int64_t gates = cells_[0].state.weight.out();
    scratch.x_gates = take(call.rows(), gates);
    scratch.h_gates = take(call.batch, gates);
    scratch.zeros = take(call.batch, sizes_.state);
    if (form_.has_cell) scratch.c = take(call.batch, sizes_.hidden);
    if (projects()) scratch.unprojected = take(call.batch, sizes_.hidden);
    const bool returns_sequence =
        std::count(returned_.begin(), returned_.end(), RecurrentOutput::kSequence) != 0;
    const int64_t buffers = std::min<int64_t>(2, sizes_.layers - (returns_sequence ? 1 : 0));
    // With one layer fewer buffers than two are touched, and the others may lie anywhere.
    for (int64_t i = 0; i < buffers; ++i) {
      scratch.sequences[static_cast<size_t>(i)] =
          take(call.rows(), sizes_.state * sizes_.directions);
    }
    int64_t gemm = 0;
    for (const Cell<T>& cell : cells_) {
      const auto add = [&](const Map<T>& map, int64_t rows, bool apart) {
        gemm = std::max(gemm, map.weight.Workspace(gemm_, rows, threads, apart));
      };
      add(cell.input, call.rows(), false);
      add(cell.state, call.batch, false);
      if (projects()) add(cell.projection, call.batch, true);
    }
    scratch.gemm = take(1, gemm);
    return scratch;
  }

  void Multiply(const Context& context, const Map<T>& map, int64_t rows, RowsOf<const T> x,
                RowsOf<T> y, T* workspace) const {
    if constexpr (std::is_same_v<T, float>) {
      if (context.stream() != nullptr) {
        const int64_t in = map.weight.in();
        const float* device_bias =
            map.device_bias.defined() ? map.device_bias.template data<float>() : nullptr;
        return MultiplyRowsOnDevice(
            *context.stream(), {x.data, map.on_device.template data<float>(), device_bias, y.data,
                                rows, in, map.weight.out(), x.step, y.step, DeviceRowDepth(in)});
      }
    }
    const T* bias = map.bias.defined() ? map.bias.template data<T>() : nullptr;
    map.weight.Run(gemm_, rows, x, bias, y, context.threads(), workspace);
  }

  /// The initial state of a cell, zeros where none is given.
  RowsOf<const T> InitialState(const Context& context, const Args& args, const Call& call, int arg,
                               int64_t index, int64_t width, T* zeros) const {
    if (args.Has(arg)) {
      return {args.tensor(arg).data<T>() + index * call.batch * width, width};
    }
    if (context.stream() != nullptr) {
      context.stream()->Fill(zeros, 0, static_cast<size_t>(call.batch * width) * sizeof(T));
    } else {
      std::fill_n(zeros, call.batch * width, T{0});
    }
    return {zeros, width};
  }

  static void CopyRows(const Context& context, RowsOf<const T> from, T* to, int64_t rows,
                       int64_t width) {
    const std::array<Strided::Axis, 2> axes = {{{rows, from.step}, {width, 1}}};
    const Strided source = Strided::Of(axes, 0);
    CopyStrided(context, sizeof(T), reinterpret_cast<const std::byte*>(from.data), source,
                reinterpret_cast<std::byte*>(to));
  }

  /// One step of all sequences.
  void Step(const Context& context, const Call& call, RowsOf<const T> x_gates,
            RowsOf<const T> h_gates, RowsOf<const T> last, T* c, RowsOf<T> made) const {
    const int64_t hidden = sizes_.hidden;
    if constexpr (std::is_same_v<T, float>) {
      if (context.stream() != nullptr) {
        return StepCellsOnDevice(*context.stream(), {kind_, x_gates.data, h_gates.data, last.data,
                                                     c, made.data, x_gates.step, h_gates.step,
                                                     last.step, made.step, call.batch, hidden});
      }
    }
    context.ParallelFor(call.batch, 4096 / h_gates.step + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        step_({x_gates[n], h_gates[n], last[n], c + n * hidden, made[n], hidden});
      }
    });
  }

  /// Runs one direction of one layer over the sequences `x` into `y`, which have one row for each
  /// step of each sequence.
  void RunCell(const Context& context, const Args& args, const Call& call, const Scratch& scratch,
               int64_t index, RowsOf<const T> x, RowsOf<T> y, std::span<Value> outputs) const {
    const Cell<T>& cell = cells_[static_cast<size_t>(index)];
    T* base = context.workspace<T>();
    T *workspace = base + scratch.gemm, *c = base + scratch.c;
    const int64_t gates = cell.input.weight.out(), hidden = sizes_.hidden;
    const RowsOf<T> x_gates{base + scratch.x_gates, gates};
    const RowsOf<T> h_gates{base + scratch.h_gates, gates};
    Multiply(context, cell.input, call.rows(), x, x_gates, workspace);
    if (form_.has_cell) {
      const RowsOf<const T> first =
          InitialState(context, args, call, CellArg(args), index, hidden, c);
      if (first.data != c) CopyRows(context, first, c, call.batch, hidden);
    }
    RowsOf<const T> last =
        InitialState(context, args, call, hidden_, index, sizes_.state, base + scratch.zeros);
    const bool backwards = index % sizes_.directions == 1;
    for (int64_t i = 0; i < call.steps; ++i) {
      const int64_t step = backwards ? call.steps - 1 - i : i;
      Multiply(context, cell.state, call.batch, last, h_gates, workspace);
      const RowsOf<T> states{y[call.Row(step, 0)], call.batch_rows * y.step};
      const RowsOf<T> made = projects() ? RowsOf<T>{base + scratch.unprojected, hidden} : states;
      Step(context, call, {x_gates[call.Row(step, 0)], call.batch_rows * gates},
           {h_gates.data, gates}, last, c, made);
      if (projects()) {
        Multiply(context, cell.projection, call.batch, {made.data, made.step}, states, workspace);
      }
      last = {states.data, states.step};
    }
    ReturnStates(context, call, index, last, c, outputs);
  }

  void ReturnStates(const Context& context, const Call& call, int64_t index, RowsOf<const T> last,
                    const T* c, std::span<Value> outputs) const {
    if (Tensor* wanted = Find(outputs, RecurrentOutput::kHidden)) {
      T* target = wanted->data<T>() + index * call.batch * sizes_.state;
      CopyRows(context, last, target, call.batch, sizes_.state);
    }
    if (Tensor* wanted = Find(outputs, RecurrentOutput::kCell)) {
      const int64_t hidden = sizes_.hidden;
      CopyRows(context, {c, hidden}, wanted->data<T>() + index * call.batch * hidden, call.batch,
               hidden);
    }
  }

  RecurrentForm form_;
  bool dynamic_;
  int input_, hidden_, cell_;
  Device device_;
  const GemmKernels& gemm_;
  CellKind kind_ = CellKind::kTanh;
  void (*step_)(const CellStepOf<T>&);
  RecurrentSizes sizes_;
  std::vector<Cell<T>> cells_;  // by layer, then by direction
  std::vector<RecurrentOutput> returned_;
};

OperatorSchema Declare(const RecurrentForm& form, bool dynamic) {
  const std::string names =
      ". Weights are named as in torch: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, "
      "`bias_hh_l0`, `weight_ih_l0_reverse`, `weight_ih_l1`, … ";
  const std::string form_of_bytes =
      "Weights are bytes, and beside each stand the scales of its rows, `weight_ih_l0_scales`. "
      "Rows of the input and of the state become bytes as oort.DynamicQuantize makes them, "
      "and are multiplied in integers.";
  OperatorSchema schema({dynamic ? form.dynamic_type : form.type},
                        form.doc + names +
                            (dynamic ? form_of_bytes
                                     : "The outputs are those that the network used: their traced "
                                       "shapes tell which."));
  const DTypeSet dtypes = dynamic ? kF32Only : kFloats;
  schema.Tensor("input", dtypes).OptionalTensor("h0", dtypes);
  if (form.has_cell) schema.OptionalTensor("c0", dtypes);
  schema.Int("input_size").AtLeast(0);
  schema.Int("hidden_size").AtLeast(1);
  schema.Int("num_layers", 1).AtLeast(1);
  schema.Bool("bias", true).Bool("batch_first", false).Bool("bidirectional", false);
  if (form.has_cell) schema.Int("proj_size", 0).AtLeast(0);
  if (form.gates == 1) schema.String("nonlinearity", "tanh").OneOf({"tanh", "relu"});
  if (dynamic) schema.Bool("symmetric", false);
  return schema.Outputs(1, form.has_cell ? 3 : 2).Open();
}

template <typename T>
LayerCreator CreatorOf(const RecurrentForm& form) {
  return [&form](const LayerInit& init) { return std::make_unique<Recurrent<T>>(init, form); };
}

}  // namespace
}  // namespace oort

OORT_LAYERS(recurrent) {
  using namespace oort;
  for (const RecurrentForm& form : kForms) {
    const OperatorSchema schema = Declare(form, false);
    registry.Add(schema, WithFloats(schema, CreatorOf<float>(form), CreatorOf<double>(form)));
    registry.Add(Declare(form, true), CreatorOf<float>(form));
  }
}

OORT_CUDA_LAYERS(recurrent) {
  using namespace oort;
  for (const RecurrentForm& form : kForms) {
    registry.AddDevice({form.type}, DeviceType::kCuda, [&form](const LayerInit& init) {
      for (const Operand* input : init.inputs()) {
        if (input->dtype == DType::kF32) continue;
        throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(input->dtype)));
      }
      return std::make_unique<Recurrent<float>>(init, form);
    });
  }
}
