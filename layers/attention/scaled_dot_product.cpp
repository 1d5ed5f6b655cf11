// SPDX-License-Identifier: MIT
#include <cmath>
#include <optional>

#include "core/checked.h"
#include "core/dispatch.h"
#include "layers/attention/attention_core.h"
#include "layers/attention/device_attention.h"
#include "layers/composite/float_dtypes.h"

namespace oort {
namespace {

Shape Leading(const Shape& shape, int dropped) {
  return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - dropped)));
}

/// The matrices of an operand: (…,heads,length,width), or (…,length,heads,width) where the heads
/// stand last.
struct MatrixStack {
  Shape stack;                     // the leading axes, heads last
  ScratchVector<int64_t> strides;  // of these, in elements
  int64_t length = 0, width = 0, row = 0;

  static MatrixStack Of(const Shape& shape, bool heads_last) {
    MatrixStack result;
    const int rank = shape.rank();
    result.stack = Leading(shape, 2);
    result.length = shape[rank - 2];
    result.width = result.row = shape[rank - 1];
    if (heads_last) {
      std::swap(result.length, result.stack[rank - 3]);
      result.row = CheckedMultiply(result.width, result.stack[rank - 3]);
    }
    int64_t stride = CheckedMultiply(result.length, result.row);
    result.strides.resize(static_cast<size_t>(rank - 2));
    for (int axis = rank - 3; axis >= 0; --axis) {
      int64_t& own = result.strides[static_cast<size_t>(axis)];
      if (heads_last && axis == rank - 3) {
        own = result.width;
      } else {
        own = stride;
        stride = CheckedMultiply(stride, result.stack[axis]);
      }
    }
    return result;
  }

  /// Where each matrix of a stack lies to which this one broadcasts; `repeat` neighbours on the
  /// last axis share one.
  ScratchVector<int64_t> Offsets(const Shape& to, int64_t repeat) const {
    ScratchVector<int64_t> offsets(static_cast<size_t>(to.elements()));
    for (size_t i = 0; i < offsets.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i);
      for (int axis = to.rank() - 1; axis >= 0; --axis) {
        const int at = axis - (to.rank() - stack.rank());
        int64_t position = rest % to[axis];
        rest /= to[axis];
        if (at < 0) continue;
        if (axis == to.rank() - 1) position /= repeat;
        if (stack[at] != 1) offsets[i] += position * strides[static_cast<size_t>(at)];
      }
    }
    return offsets;
  }
};

/// In f32 or f64, on a GPU in f32 or 16 bits. As F.scaled_dot_product_attention, or with the
/// additions that passes make use of.
template <typename T>
class ScaledDotProduct final : public Layer {
 public:
  explicit ScaledDotProduct(const LayerInit& init)
      : q_(init.Arg("query")),
        k_(init.Arg("key")),
        v_(init.Arg("value")),
        mask_(init.Arg("attn_mask")),
        causal_(init.Bool("is_causal")),
        gqa_(init.Bool("enable_gqa")),
        q_heads_last_(Flag(init, "query_heads_last")),
        k_heads_last_(Flag(init, "key_heads_last")),
        v_heads_last_(Flag(init, "value_heads_last")),
        output_heads_last_(Flag(init, "output_heads_last")),
        rank_(init.Arg("rank") >= 0 ? init.Int("rank") : 0),
        plain_(Flag(init, "plain_softmax")),
        on_device_(init.device().type != DeviceType::kCpu),
        kernels_(init) {
    if (init.Float("dropout_p") != 0) {
      throw Error(ErrorCode::kUnsupported, "dropout_p must be 0: models run in evaluation mode");
    }
    if (!init.Constant("scale").IsNone()) scale_ = init.Float("scale");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Sizes sizes = SizesOf(args);
    if (on_device_) CheckOnDevice(args, sizes);
    return {Tensor::Meta(kDTypeOf<T>, OutputShape(sizes))};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Sizes sizes = SizesOf(args);
    AttentionProblem<T> problem = ProblemOf(sizes);
    const auto operand = [&](int arg, const MatrixStack& matrices, int64_t repeat) {
      return AttentionOperand<T>{args.tensor(arg).data<T>(), matrices.row,
                                 matrices.Offsets(sizes.stack, repeat)};
    };
    problem.q = operand(q_, sizes.q, 1);
    problem.k = operand(k_, sizes.k, sizes.repeat);
    problem.v = operand(v_, sizes.v, sizes.repeat);
    Tensor mask;  // of f32 it may be whatever the others are
    if (args.Has(mask_)) {
      mask = MaskTensor(args);
      if (!on_device_ && (mask.dtype() != DType::kBool || plain_)) mask = mask.To(kDTypeOf<T>);
      problem.masks.push_back(MaskOf(mask, sizes));
    }
    problem.output = outputs[0].AsTensor().data<T>();
    const MatrixStack output = MatrixStack::Of(OutputShape(sizes), output_heads_last_);
    problem.output_row = output.row;
    problem.output_offsets = output.Offsets(sizes.stack, 1);
    if constexpr (!std::is_same_v<T, double>) {
      if (context.stream() != nullptr) return AttentionOnDevice(*context.stream(), problem);
    }
    if constexpr (!kIsHalf<T>) {
      RunAttention(kernels_, problem, context.threads(), context.workspace<T>());
    }
  }

  size_t Workspace(const Args& args, int threads) const override {
    if constexpr (!kIsHalf<T>) {
      if (on_device_) return 0;
      const int64_t floats = AttentionWorkspace(kernels_, ProblemOf(SizesOf(args)), threads);
      return CheckedMultiply(static_cast<size_t>(floats), sizeof(T));
    }
    return 0;
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const Sizes s = SizesOf(args);
    cost.flops = 2.0 * static_cast<double>(s.stack.elements()) * static_cast<double>(s.q.length) *
                 static_cast<double>(s.k.length) * static_cast<double>(s.q.width + s.v.width);
    return cost;
  }

 private:
  struct Sizes {
    Shape stack;          // of the result
    MatrixStack q, k, v;  // of the operands
    int64_t repeat = 1;   // query heads for each key head
  };

  /// What the kernel of the GPU lacks.
  void CheckOnDevice(const Args& args, const Sizes& sizes) const {
    for (int arg : {q_, k_, v_}) {
      if (args.tensor(arg).dtype() == kDTypeOf<T>) continue;
      throw Error(ErrorCode::kUnsupported,
                  "attention on the GPU is of f32, f16 or bf16, and query, key and value alike");
    }
    if (std::max(sizes.q.width, sizes.v.width) > kDeviceAttentionWidth) {
      throw Error(ErrorCode::kUnsupported, "heads are too wide for the GPU");
    }
    if (!args.Has(mask_)) return;
    const DType mask = args.tensor(mask_).dtype();
    if (mask == kDTypeOf<T> || (mask == DType::kBool && !plain_)) return;
    throw Error(ErrorCode::kUnsupported, "no mask of " + std::string(Name(mask)) + " on the GPU");
  }

  static bool Flag(const LayerInit& init, const char* name) {
    return init.Arg(name) >= 0 && init.Bool(name);
  }

  Sizes SizesOf(const Args& args) const {
    const Shape &q = args.shape(q_), &k = args.shape(k_), &v = args.shape(v_);
    CheckRank(q, q_heads_last_);
    CheckRank(k, k_heads_last_);
    CheckRank(v, v_heads_last_);
    Sizes sizes{{},
                MatrixStack::Of(q, q_heads_last_),
                MatrixStack::Of(k, k_heads_last_),
                MatrixStack::Of(v, v_heads_last_)};
    if (sizes.k.width != sizes.q.width || sizes.v.length != sizes.k.length) {
      ThrowAttention("expected a query and a key of one width, and as many values as keys, got " +
                     Describe(q, k, v));
    }
    Shape key_stack = BroadcastShapes(sizes.k.stack, sizes.v.stack);
    if (gqa_) sizes.repeat = Repeat(sizes, q, k, v, key_stack);
    sizes.stack = BroadcastShapes(sizes.q.stack, key_stack);
    if (!args.Has(mask_)) return sizes;
    const Tensor mask = MaskTensor(args);
    // A sum of scores and mask may have more matrices than the scores.
    if (plain_) sizes.stack = BroadcastShapes(sizes.stack, Leading(mask.shape(), 2));
    CheckMask(mask, sizes);
    return sizes;
  }

  /// Of another rank than in the trace the heads would stand elsewhere.
  void CheckRank(const Shape& shape, bool heads_last) const {
    const int least = heads_last ? 3 : 2;
    if (shape.rank() >= least && (!heads_last || rank_ == 0 || shape.rank() == rank_)) return;
    ThrowAttention(
        "expected query, key and value of rank " +
        (heads_last && rank_ != 0 ? std::to_string(rank_) : std::to_string(least) + " or more") +
        ", got " + shape.ToString());
  }

  /// How many query heads share a key head; the stack of the keys is widened to that.
  static int64_t Repeat(const Sizes& sizes, const Shape& q, const Shape& k, const Shape& v,
                        Shape& key_stack) {
    if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank()) {
      ThrowAttention("enable_gqa needs heads on the third axis from the end, got " +
                     Describe(q, k, v));
    }
    const int head = q.rank() - 3;
    const int64_t heads = sizes.q.stack[head], shared = key_stack[head];
    if (shared == 0 || heads % shared != 0 || sizes.k.stack[head] != sizes.v.stack[head]) {
      ThrowAttention(
          "enable_gqa needs query heads that are a multiple of the key and value heads, got " +
          Describe(q, k, v));
    }
    key_stack[head] = heads;
    return heads / shared;
  }

  static std::string Describe(const Shape& q, const Shape& k, const Shape& v) {
    return q.ToString() + ", " + k.ToString() + " and " + v.ToString();
  }

  Shape OutputShape(const Sizes& sizes) const {
    Shape shape = sizes.stack;
    shape.Append(sizes.q.length);
    shape.Append(sizes.v.width);
    shape.elements();
    const int rank = shape.rank();
    if (!output_heads_last_) return shape;
    if (rank < 3 || (rank_ != 0 && rank != rank_)) {
      ThrowAttention("expected heads, got " + shape.ToString());
    }
    std::swap(shape[rank - 2], shape[rank - 3]);
    return shape;
  }

  static Shape ScoreShape(const Sizes& sizes) {
    Shape shape = sizes.stack;
    shape.Append(sizes.q.length);
    shape.Append(sizes.k.length);
    return shape;
  }

  /// What is merely added to the scores may have fewer axes than a matrix.
  Tensor MaskTensor(const Args& args) const {
    const Tensor& mask = args.tensor(mask_);
    if (!plain_ || mask.rank() >= 2) return mask;
    const Shape shape{1, mask.rank() == 0 ? 1 : mask.dim(0)};
    return mask.has_data() ? mask.Reshaped(shape) : Tensor::Meta(mask.dtype(), shape);
  }

  static void CheckMask(const Tensor& mask, const Sizes& sizes) {
    const Shape scores = ScoreShape(sizes);
    if (mask.rank() < 2 || !(BroadcastShapes(mask.shape(), scores) == scores)) {
      ThrowAttention("expected a mask that broadcasts to " + scores.ToString() + ", got " +
                     mask.shape().ToString());
    }
  }

  static AttentionMask<T> MaskOf(const Tensor& tensor, const Sizes& sizes) {
    const MatrixStack matrices = MatrixStack::Of(tensor.shape(), false);
    AttentionMask<T> mask;
    if (tensor.dtype() == DType::kBool) {
      mask.flags = reinterpret_cast<const uint8_t*>(tensor.raw());
      mask.drop = false;  // true: takes part
    } else {
      mask.numbers = tensor.data<T>();
    }
    mask.row = matrices.length == 1 ? 0 : matrices.width;
    mask.column = matrices.width == 1 ? 0 : 1;
    mask.columns = sizes.k.length;
    mask.offsets = matrices.Offsets(sizes.stack, 1);
    return mask;
  }

  AttentionProblem<T> ProblemOf(const Sizes& sizes) const {
    AttentionProblem<T> problem;
    problem.count = sizes.stack.elements();
    problem.queries = sizes.q.length;
    problem.keys = sizes.k.length;
    problem.dim = sizes.q.width;
    problem.value_dim = sizes.v.width;
    problem.scale = static_cast<decltype(problem.scale)>(
        scale_.value_or(1 / std::sqrt(static_cast<double>(problem.dim))));
    problem.causal = causal_;
    problem.zero_if_masked = !plain_;
    return problem;
  }

  int q_, k_, v_, mask_;
  bool causal_, gqa_;
  bool q_heads_last_, k_heads_last_, v_heads_last_, output_heads_last_;
  int64_t rank_;  // of operands whose heads stand last; 0 for any
  bool plain_;    // a query that sees nothing gives the NaN of a softmax, and masks are just added
  bool on_device_;  // the GPU
  std::optional<double> scale_;
  AttentionKernels kernels_;
};

/// For the GPU; what was traced in another dtype stays on the CPU.
std::unique_ptr<Layer> CreateOnDevice(const LayerInit& init) {
  const size_t tensors = std::min<size_t>(3, init.inputs().size());
  const DType dtype = init.inputs()[0]->dtype;
  for (size_t i = 0; i < tensors; ++i) {
    const Operand& input = *init.inputs()[i];
    const bool wide = input.has_shape && input.shape.rank() > 0 &&
                      input.shape[input.shape.rank() - 1] > kDeviceAttentionWidth;
    if (input.dtype != dtype || wide) {
      throw Error(ErrorCode::kUnsupported, "has operands of two dtypes, or its heads are too wide");
    }
  }
  for (size_t i = tensors; i < init.inputs().size(); ++i) {
    const DType mask = init.inputs()[i]->dtype;
    if (mask == dtype || mask == DType::kBool || mask == DType::kNull) continue;
    throw Error(ErrorCode::kUnsupported, "has a mask of " + std::string(Name(mask)));
  }
  switch (dtype) {
    case DType::kF32: return std::make_unique<ScaledDotProduct<float>>(init);
    case DType::kF16: return std::make_unique<ScaledDotProduct<Half>>(init);
    case DType::kBF16: return std::make_unique<ScaledDotProduct<BFloat16>>(init);
    default: throw Error(ErrorCode::kUnsupported, "is of " + std::string(Name(dtype)));
  }
}

}  // namespace
}  // namespace oort

OORT_LAYERS(scaled_dot_product) {
  using namespace oort;
  const auto add = [&](OperatorSchema schema) {
    AddPrecisionParam(schema);
    registry.Add(schema, WithFloats(schema, Create<ScaledDotProduct<float>>(),
                                    Create<ScaledDotProduct<double>>(), "attn_mask"));
  };
  const auto attention = [](const char* type, const char* doc, DTypeSet masks) {
    return OperatorSchema({type}, doc)
        .Tensor("query", kFloats)
        .Tensor("key", kFloats)
        .Tensor("value", kFloats)
        .OptionalTensor("attn_mask", masks)
        .Float("dropout_p", 0)
        .Bool("is_causal", false)
        .Float("scale")
        .Nullable()
        .Bool("enable_gqa", false)
        .KeepsDType();
  };
  add(attention("F.scaled_dot_product_attention",
                "softmax(Q K^T * scale + mask) V; a bool mask is true where a key takes part",
                kFloats | DType::kBool));
  add(attention("oort.Attention",
                "The same on operands (…,length,heads,width) where a flag says so; with "
                "plain_softmax masks are added as they are and a query that sees nothing gives "
                "NaN. Made by passes, no file needs it",
                kFloats | DType::kBool)
          .Bool("query_heads_last", false)
          .Bool("key_heads_last", false)
          .Bool("value_heads_last", false)
          .Bool("output_heads_last", false)
          .Int("rank", 0)
          .Bool("plain_softmax", false));
}

OORT_CUDA_LAYERS(scaled_dot_product) {
  using namespace oort;
  registry.AddDevice({"F.scaled_dot_product_attention", "oort.Attention"}, DeviceType::kCuda,
                     CreateOnDevice);
}
