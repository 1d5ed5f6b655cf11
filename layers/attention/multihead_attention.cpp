// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.h"
#include "layers/attention/attention_core.h"
#include "layers/attention/mha_inputs.h"
#include "layers/composite/float_dtypes.h"
#include "layers/quantize/projection.h"
#include "layers/repair_log.h"
#include "layers/weight_arg.h"

namespace oort {
namespace {

/// Which rows of a (batch, position) grid lie where, in torch's two layouts.
struct TokenLayout {
  int64_t batch_step, position_step;  // in tokens
  static TokenLayout Of(int64_t batch, int64_t positions, bool batch_first) {
    return batch_first ? TokenLayout{positions, 1} : TokenLayout{1, batch};
  }
};

constexpr const char* kDynamicType = "oort.DynamicMultiheadAttention";
/// The weights of queries, keys and values where they are not one.
constexpr std::array<const char*, 3> kPartNames = {"q_proj_weight", "k_proj_weight",
                                                   "v_proj_weight"};

/// In f32 or f64. That of the dynamic type multiplies bytes where it projects: weights are such in
/// the file, and rows become such when they are read. Attention itself stays f32.
template <typename T>
class MultiheadAttention final : public Layer {
 public:
  explicit MultiheadAttention(const LayerInit& init)
      : names_(init.op().input_names),
        heads_(init.Int("num_heads")),
        rank_(init.Int("rank")),
        batch_first_(init.Bool("batch_first")),
        zero_attention_(init.Bool("add_zero_attn")),
        in_bias_(ReadWeight<T>(init, "in_proj_bias")),
        out_bias_(ReadWeight<T>(init, "out_proj.bias")),
        bias_k_(ReadWeight<T>(init, "bias_k")),
        bias_v_(ReadWeight<T>(init, "bias_v")),
        kernels_(init) {
    ReadProjections(init);
    CheckBiases();
    for (const Operand* input : init.inputs()) {
      if (input->has_shape && input->dtype == DType::kBool) {
        LogRepair(init, "told its inputs apart by dtype and shape: their names are scrambled");
      }
    }
    want_weights_ = init.outputs().size() > 1;
    if (want_weights_ && init.outputs()[1]->has_shape) {
      traced_weights_rank_ = init.outputs()[1]->shape.rank();
    }
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Call call = CallOf(args);
    Shape output = call.query->shape();
    output.elements();
    std::vector<Value> results = {Tensor::Meta(kDTypeOf<T>, output)};
    if (want_weights_) results.emplace_back(Tensor::Meta(kDTypeOf<T>, WeightsShape(call)));
    return results;
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Call call = CallOf(args);
    if (call.query->elements() == 0) return;
    const Scratch scratch = ScratchOf(call, context.threads());
    T* base = context.workspace<T>();
    T *q = base + scratch.q, *k = base + scratch.k, *v = base + scratch.v;
    T *mixed = base + scratch.mixed, *rest = base + scratch.rest;
    const int threads = context.threads();
    // What attends to itself is projected by one product, (rows,3*embed).
    const bool joint = ProjectsJointly(call);
    const int64_t width = joint ? 3 * embed_ : embed_;
    if (joint) {
      k = q + embed_;
      v = k + embed_;
      joint_.Run(kernels_.gemm, call.batch * call.queries,
                 {call.query->template data<T>(), joint_.in()}, InBias(0), {q, width}, threads,
                 rest);
    } else {
      Project(0, *call.query, q, threads, rest);
      ProjectKeys(call, 1, *call.key, bias_k_, k, threads, rest);
      ProjectKeys(call, 2, *call.value, bias_v_, v, threads, rest);
    }

    AttentionProblem<T> problem = ProblemOf(call);
    const TokenLayout &queries = call.query_layout, &keys = call.key_layout;
    problem.q = {q, queries.position_step * width, HeadOffsets(call, queries, width)};
    problem.k = {k, keys.position_step * width, HeadOffsets(call, keys, width)};
    problem.v = {v, problem.k.row, problem.k.offsets};
    problem.output = mixed;
    problem.output_row = queries.position_step * embed_;
    problem.output_offsets = HeadOffsets(call, queries, embed_);
    AddMasks(call, problem);
    if (want_weights_) {
      problem.weights = outputs[1].AsTensor().data<T>();
      problem.mean_weights = !PerHead(call);
    }
    RunAttention(kernels_, problem, threads, rest);
    const int64_t rows = call.batch * call.queries;
    out_.Run(kernels_.gemm, rows, {mixed, embed_}, Data(out_bias_),
             {outputs[0].AsTensor().data<T>(), embed_}, threads, rest);
  }

  /// The f32 projections; others use the given weights themselves.
  bool Packs(int argument) const override {
    return std::is_same_v<T, float> &&
           std::find(packed_.begin(), packed_.end(), argument) != packed_.end();
  }

  size_t Workspace(const Args& args, int threads) const override {
    const Scratch scratch = ScratchOf(CallOf(args), threads);
    return CheckedMultiply(static_cast<size_t>(scratch.floats), sizeof(T));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    for (const Value* input : args.inputs()) {
      cost.bytes += static_cast<double>(input->AsTensor().bytes());
    }
    const Call call = CallOf(args);
    const double embed = static_cast<double>(embed_), batch = static_cast<double>(call.batch);
    const double queries = static_cast<double>(call.queries), keys = static_cast<double>(call.keys);
    const double inputs = static_cast<double>(Width(1) + Width(2));
    cost.flops = 2 * batch * embed * (2 * queries * embed + keys * inputs + 2 * queries * keys);
    return cost;
  }

 private:
  /// One call's inputs and sizes.
  struct Call {
    const Tensor *query = nullptr, *key = nullptr, *value = nullptr;
    const Tensor *attention_mask = nullptr, *padding_mask = nullptr;
    bool batched = false;
    int64_t batch = 1, queries = 0;
    int64_t given_keys = 0;  // of the input
    int64_t keys = 0;        // with what bias_k and add_zero_attn append
    TokenLayout query_layout{}, key_layout{};
  };

  /// Offsets into the workspace, in floats.
  struct Scratch {
    int64_t q = 0, k = 0, v = 0, mixed = 0, rest = 0, floats = 0;
  };

  static const T* Data(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<T>() : nullptr;
  }

  void ReadProjections(const LayerInit& init) {
    const bool dynamic = init.type() == kDynamicType;
    const Tensor out = RequireMatrix(init, "out_proj.weight", dynamic);
    embed_ = out.shape()[0];
    if (out.shape()[1] != embed_ || embed_ % heads_ != 0 || embed_ == 0) {
      ThrowAttention("expected a square out_proj.weight that divides into " +
                     std::to_string(heads_) + " heads, got " + out.shape().ToString());
    }
    packed_ = {init.Arg("@out_proj.weight"), init.Arg("@in_proj_weight"),
               init.Arg("@q_proj_weight"), init.Arg("@k_proj_weight"), init.Arg("@v_proj_weight")};
    const bool whole = WeightValue(init, "in_proj_weight").IsTensor();
    std::array<Tensor, 3> parts;
    for (size_t i = 0; i < 3; ++i) {
      parts[i] = RequireMatrix(init, whole ? "in_proj_weight" : kPartNames[i], dynamic);
      const int64_t rows = whole ? 3 * embed_ : embed_;
      if (parts[i].shape()[0] == rows) continue;
      ThrowAttention("expected a projection weight of " + std::to_string(rows) + " rows, got " +
                     parts[i].shape().ToString());
    }
    if (dynamic) return PackBytes(init, out, parts, whole);
    out_ = Projection<T>(Dense<T>(kernels_.gemm, out));
    // Its parts are parts of the panels, too, where each begins one.
    const bool aligned = !std::is_same_v<T, float> || embed_ % kernels_.gemm.columns == 0;
    Dense<T> joint;
    if (whole && aligned) joint = Dense<T>(kernels_.gemm, parts[0]);
    for (size_t i = 0; i < 3; ++i) {
      const int64_t first = whole ? static_cast<int64_t>(i) * embed_ : 0;
      projections_[i] =
          Projection<T>(joint.empty() ? Dense<T>(kernels_.gemm, parts[i], first, embed_)
                                      : joint.Part(first, embed_));
    }
    joint_ = Projection<T>(std::move(joint));
  }

  void PackBytes(const LayerInit& init, const Tensor& out, const std::array<Tensor, 3>& parts,
                 bool whole) {
    const bool symmetric = init.Bool("symmetric");
    const auto pack = [&](const std::string& name, const Tensor& weight, int64_t first,
                          int64_t rows) {
      const Tensor scales = ReadWeight<float>(init, name + "_scales");
      if (!scales.defined() || scales.shape() != Shape{weight.dim(0)}) {
        throw Error(ErrorCode::kInvalidModel, "expected '@" + name + "_scales' of " +
                                                  std::to_string(weight.dim(0)) +
                                                  " elements, one for each row of '@" + name + "'");
      }
      try {
        const int64_t last = first + rows;
        return Projection<T>(init.isa(), weight.Rows(first, last), scales.Rows(first, last),
                             symmetric);
      } catch (const Error& error) {
        throw error.WithContext("'@" + name + "': ");
      }
    };
    out_ = pack("out_proj.weight", out, 0, embed_);
    if (whole && !Appends() && HasOneInput(init)) {
      joint_ = pack("in_proj_weight", parts[0], 0, 3 * embed_);
      return;  // no part is read by itself: packed bytes have none
    }
    for (size_t i = 0; i < 3; ++i) {
      const int64_t first = whole ? static_cast<int64_t>(i) * embed_ : 0;
      projections_[i] = pack(whole ? "in_proj_weight" : kPartNames[i], parts[i], first, embed_);
    }
  }

  /// Whether it can but attend to itself: all other inputs are masks.
  static bool HasOneInput(const LayerInit& init) {
    return std::count_if(init.inputs().begin(), init.inputs().end(),
                         [](const Operand* input) { return input->dtype != DType::kBool; }) == 1;
  }

  /// Elements of a row of what becomes queries, keys or values.
  int64_t Width(size_t part) const {
    return projections_[part].empty() ? joint_.in() : projections_[part].in();
  }

  void CheckBiases() const {
    CheckVector("in_proj_bias", in_bias_, 3 * embed_);
    CheckVector("out_proj.bias", out_bias_, embed_);
    CheckVector("bias_k", bias_k_, embed_);
    CheckVector("bias_v", bias_v_, embed_);
    if (bias_k_.defined() != bias_v_.defined()) ThrowAttention("bias_k and bias_v belong together");
  }

  static Tensor RequireMatrix(const LayerInit& init, const char* name, bool bytes) {
    const Value& value = WeightValue(init, name);
    if (!value.IsTensor() || value.AsTensor().rank() != 2) {
      throw Error(ErrorCode::kInvalidModel,
                  std::string("attribute '@") + name + "' must be there and have rank 2");
    }
    return bytes ? value.AsTensor() : value.AsTensor().To(kDTypeOf<T>);
  }

  static void CheckVector(const char* name, const Tensor& tensor, int64_t elements) {
    if (!tensor.defined() || tensor.elements() == elements) return;
    ThrowAttention(std::string("expected '") + name + "' of " + std::to_string(elements) +
                   " elements, got " + tensor.shape().ToString());
  }

  Call CallOf(const Args& args) const {
    const MhaInputs match = MatchMhaInputs(args.inputs(), names_, batch_first_, rank_);
    const auto input = [&](int index) {
      return index < 0 ? nullptr : &args.inputs()[static_cast<size_t>(index)]->AsTensor();
    };
    Call call;
    call.query = input(match.query);
    call.key = input(match.key);
    call.value = input(match.value);
    call.attention_mask = input(match.attention_mask);
    call.padding_mask = input(match.padding_mask);
    call.batched = call.query->rank() == 3;
    const int length_axis = call.batched && batch_first_ ? 1 : 0;
    call.queries = call.query->dim(length_axis);
    call.given_keys = call.key->dim(length_axis);
    if (call.batched) call.batch = call.query->dim(1 - length_axis);
    call.keys = call.given_keys + (bias_k_.defined() ? 1 : 0) + (zero_attention_ ? 1 : 0);
    const bool batch_first = batch_first_ || !call.batched;
    call.query_layout = TokenLayout::Of(call.batch, call.queries, batch_first);
    call.key_layout = TokenLayout::Of(call.batch, call.keys, batch_first);
    CheckCall(call);
    return call;
  }

  void CheckCall(const Call& call) const {
    const Tensor* data[] = {call.query, call.key, call.value};
    for (size_t i = 0; i < 3; ++i) {
      if (data[i]->dtype() != kDTypeOf<T> || data[i]->dim(-1) != Width(i)) {
        ThrowAttention("expected " + std::string(Name(kDTypeOf<T>)) +
                       " inputs whose last axis is " + std::to_string(Width(i)) + ", got " +
                       data[i]->ToString());
      }
    }
    if (projections_[0].empty() && !ProjectsJointly(call)) {
      ThrowAttention("expected one input beside masks, as it was traced with, got key " +
                     call.key->ToString() + " and value " + call.value->ToString());
    }
    const int length_axis = call.batched && batch_first_ ? 1 : 0;
    for (const Tensor* side : {call.key, call.value}) {
      if (side->dim(length_axis) != call.given_keys ||
          (call.batched && side->dim(1 - length_axis) != call.batch)) {
        ThrowAttention("expected keys and values of one length and batch, got query " +
                       call.query->ToString() + ", key " + call.key->ToString() + ", value " +
                       call.value->ToString());
      }
    }
    for (const Tensor* mask : {call.attention_mask, call.padding_mask}) {
      if (mask != nullptr && mask->dtype() != kDTypeOf<T> && mask->dtype() != DType::kBool) {
        ThrowAttention("expected a mask of the dtype of the query or bool, got " +
                       mask->ToString());
      }
    }
    const Tensor* mask = call.attention_mask;
    if (mask == nullptr) return;
    const Shape flat{call.queries, call.given_keys};
    const Shape by_head{call.batch * heads_, call.queries, call.given_keys};
    if (!(mask->shape() == flat) && !(mask->shape() == by_head)) {
      ThrowAttention("expected an attention mask of shape " + flat.ToString() + " or " +
                     by_head.ToString() + ", got " + mask->shape().ToString());
    }
  }

  bool PerHead(const Call& call) const { return traced_weights_rank_ == (call.batched ? 4 : 3); }

  Shape WeightsShape(const Call& call) const {
    Shape shape;
    if (call.batched) shape.Append(call.batch);
    if (PerHead(call)) shape.Append(heads_);
    shape.Append(call.queries);
    shape.Append(call.keys);
    shape.elements();
    return shape;
  }

  AttentionProblem<T> ProblemOf(const Call& call) const {
    AttentionProblem<T> problem;
    problem.count = call.batch * heads_;
    problem.queries = call.queries;
    problem.keys = call.keys;
    problem.dim = problem.value_dim = embed_ / heads_;
    problem.scale = static_cast<T>(1 / std::sqrt(static_cast<double>(problem.dim)));
    problem.heads = heads_;
    problem.mean_weights = want_weights_ && !PerHead(call);
    return problem;
  }

  Scratch ScratchOf(const Call& call, int threads) const {
    const int64_t query_rows = CheckedMultiply(call.batch, call.queries);
    const int64_t key_rows = CheckedMultiply(call.batch, call.keys);
    const int64_t query_floats = AlignedFloats(CheckedMultiply(query_rows, embed_));
    const int64_t key_floats = AlignedFloats(CheckedMultiply(key_rows, embed_));
    Scratch scratch;
    scratch.k = query_floats;
    scratch.v = CheckedAdd(scratch.k, key_floats);
    scratch.mixed = CheckedAdd(scratch.v, key_floats);
    scratch.rest = CheckedAdd(scratch.mixed, query_floats);
    int64_t rest = AttentionWorkspace(kernels_, ProblemOf(call), threads);
    const int64_t keys_at_once =
        Appends() && batch_first_ ? call.given_keys : call.batch * call.given_keys;
    for (const auto& [map, rows] : {std::pair{&projections_[0], query_rows},
                                    {&projections_[1], keys_at_once},
                                    {&projections_[2], keys_at_once},
                                    {&out_, query_rows}}) {
      rest = std::max(rest, map->Workspace(kernels_.gemm, rows, threads));
    }
    if (!joint_.empty()) {
      rest = std::max(rest, joint_.Workspace(kernels_.gemm, query_rows, threads));
    }
    scratch.floats = CheckedAdd(scratch.rest, rest);
    return scratch;
  }

  bool ProjectsJointly(const Call& call) const {
    return !joint_.empty() && !Appends() && call.key->raw() == call.query->raw() &&
           call.value->raw() == call.query->raw() && call.key->shape() == call.query->shape();
  }

  bool Appends() const { return bias_k_.defined() || zero_attention_; }

  const T* InBias(size_t part) const {
    return in_bias_.defined() ? in_bias_.data<T>() + static_cast<int64_t>(part) * embed_ : nullptr;
  }

  void Project(size_t part, const Tensor& x, T* y, int threads, T* workspace) const {
    const int64_t rows = x.shape().Product(0, x.rank() - 1);
    projections_[part].Run(kernels_.gemm, rows, {x.data<T>(), projections_[part].in()},
                           InBias(part), {y, embed_}, threads, workspace);
  }

  /// Keys or values, with the rows that the module appends to those of each batch.
  void ProjectKeys(const Call& call, size_t part, const Tensor& x, const Tensor& bias, T* y,
                   int threads, T* workspace) const {
    const bool batch_first = batch_first_ || !call.batched;
    if (!Appends() || !batch_first) {
      Project(part, x, y, threads, workspace);
    } else {
      const int64_t in = projections_[part].in();
      for (int64_t b = 0; b < call.batch; ++b) {
        projections_[part].Run(kernels_.gemm, call.given_keys,
                               {x.data<T>() + b * call.given_keys * in, in}, InBias(part),
                               {y + b * call.keys * embed_, embed_}, threads, workspace);
      }
    }
    for (int64_t position = call.given_keys; position < call.keys; ++position) {
      const bool is_bias = bias.defined() && position == call.given_keys;
      for (int64_t b = 0; b < call.batch; ++b) {
        T* row = y + (b * call.key_layout.batch_step + position * call.key_layout.position_step) *
                         embed_;
        if (is_bias) {
          std::copy_n(bias.data<T>(), embed_, row);
        } else {
          std::fill_n(row, embed_, T{0});
        }
      }
    }
  }

  ScratchVector<int64_t> HeadOffsets(const Call& call, const TokenLayout& layout,
                                     int64_t width) const {
    ScratchVector<int64_t> offsets;
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        offsets.push_back(b * layout.batch_step * width + h * (embed_ / heads_));
      }
    }
    return offsets;
  }

  void AddMasks(const Call& call, AttentionProblem<T>& problem) const {
    if (const Tensor* mask = call.attention_mask) {
      const bool by_head = mask->rank() == 3;
      AddMask(*mask, call, by_head ? 1 : 0, by_head ? call.queries * call.given_keys : 0,
              call.given_keys, problem);
    }
    if (const Tensor* mask = call.padding_mask) {
      AddMask(*mask, call, heads_, call.given_keys, 0, problem);
    }
  }

  /// Matrices in groups of `shared` (0: all) read the same part of a mask; parts are `step` apart.
  static void AddMask(const Tensor& tensor, const Call& call, int64_t shared, int64_t step,
                      int64_t row, AttentionProblem<T>& problem) {
    AttentionMask<T> mask;
    if (tensor.dtype() == DType::kBool) {
      mask.flags = reinterpret_cast<const uint8_t*>(tensor.raw());
      mask.drop = true;  // true: does not take part
    } else {
      mask.numbers = tensor.data<T>();
    }
    mask.row = row;
    mask.columns = call.given_keys;
    for (int64_t i = 0; i < problem.count; ++i) {
      mask.offsets.push_back(shared == 0 ? 0 : i / shared * step);
    }
    problem.masks.push_back(std::move(mask));
  }

  std::vector<std::string> names_;
  int64_t heads_, rank_, embed_ = 0;  // rank_: that the query must have, 0 for any
  bool batch_first_, zero_attention_, want_weights_ = false;
  int traced_weights_rank_ = -1;
  Tensor in_bias_, out_bias_, bias_k_, bias_v_;
  AttentionKernels kernels_;
  Projection<T> joint_;                       // of queries, keys and values; empty if there is none
  std::array<Projection<T>, 3> projections_;  // its parts, or matrices of their own
  std::array<int, 5> packed_{};               // arguments, -1 for those that the operator lacks
  Projection<T> out_;
};

OperatorSchema Declare(bool dynamic) {
  OperatorSchema schema(
      {dynamic ? kDynamicType : "nn.MultiheadAttention"},
      std::string("Attention of several heads with its projections; a bool mask is "
                  "true where a key does not take part") +
          (dynamic ? ". Weights are bytes, and beside each stand the scales of its rows. Rows that "
                     "are projected become bytes as oort.DynamicQuantize makes them, and are "
                     "multiplied in integers; attention itself is f32"
                   : ""));
  const DTypeSet dtypes = dynamic ? kF32Only : kFloats;
  const DTypeSet weights = dynamic ? DTypeSet(DType::kI8) : kFloats;
  schema.Tensors("inputs", dtypes | DType::kBool);
  for (const char* name :
       {"in_proj_weight", kPartNames[0], kPartNames[1], kPartNames[2], "out_proj.weight"}) {
    schema.OptionalAttribute(name, weights);
    if (dynamic) schema.OptionalAttribute(std::string(name) + "_scales", kF32Only);
  }
  schema.OptionalAttribute("in_proj_bias")
      .OptionalAttribute("bias_k")
      .OptionalAttribute("bias_v")
      .OptionalAttribute("out_proj.bias")
      .Int("num_heads")
      .AtLeast(1)
      .Bool("batch_first", false)
      .Bool("add_zero_attn", false)
      .Int("rank", 0)
      .Ignored("add_bias_kv")
      .Ignored("bias")
      .Ignored("embed_dim")
      .Ignored("kdim")
      .Ignored("vdim")
      .Ignored("dropout")
      .FreeInputs()
      .Outputs(1, 2);
  if (dynamic) schema.Bool("symmetric", false);
  AddPrecisionParam(schema);
  return schema;
}

}  // namespace
}  // namespace oort

OORT_LAYERS(multihead_attention) {
  using namespace oort;
  const OperatorSchema schema = Declare(false);
  registry.Add(schema, WithFloats(schema, Create<MultiheadAttention<float>>(),
                                  Create<MultiheadAttention<double>>()));
  registry.Add(Declare(true), Create<MultiheadAttention<float>>());
}
