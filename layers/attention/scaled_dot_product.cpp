// SPDX-License-Identifier: MIT
#include <cmath>
#include <optional>

#include "core/checked.h"
#include "layers/attention/attention_core.h"
#include "layers/composite/float_dtypes.h"

namespace oort {
namespace {

Shape Leading(const Shape& shape, int dropped) {
  return Shape(shape.dims().first(static_cast<size_t>(shape.rank() - dropped)));
}

/// Where each matrix of the result's stack lies in an operand that broadcasts to it; `repeat`
/// neighbours on the last axis of the stack share one.
std::vector<int64_t> Offsets(const Shape& stack, const Shape& own, int64_t matrix, int64_t repeat) {
  std::vector<int64_t> offsets(static_cast<size_t>(stack.elements()));
  for (size_t i = 0; i < offsets.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), scale = matrix, offset = 0;
    for (int axis = stack.rank() - 1; axis >= 0; --axis) {
      const int at = axis - (stack.rank() - own.rank());
      int64_t position = rest % stack[axis];
      rest /= stack[axis];
      if (at < 0) continue;
      if (axis == stack.rank() - 1) position /= repeat;
      if (own[at] != 1) offset += position * scale;
      scale *= own[at];
    }
    offsets[i] = offset;
  }
  return offsets;
}

/// In f32 or f64.
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
        kernels_(init.isa()) {
    if (init.Float("dropout_p") != 0) {
      throw Error(ErrorCode::kUnsupported, "dropout_p must be 0: models run in evaluation mode");
    }
    if (!init.Constant("scale").IsNone()) scale_ = init.Float("scale");
  }

  std::vector<Value> Infer(const Args& args) const override {
    const Sizes sizes = SizesOf(args);
    if (args.Has(mask_)) CheckMask(args.tensor(mask_), sizes);
    Shape output = sizes.stack;
    output.Append(sizes.queries);
    output.Append(sizes.value_dim);
    output.elements();
    return {Tensor::Meta(kDTypeOf<T>, output)};
  }

  void Forward(const Context& context, const Args& args, std::span<Value> outputs) const override {
    const Sizes sizes = SizesOf(args);
    AttentionProblem<T> problem = ProblemOf(sizes);
    problem.q = {args.tensor(q_).data<T>(), sizes.dim,
                 Offsets(sizes.stack, sizes.q, sizes.queries * sizes.dim, 1)};
    problem.k = {args.tensor(k_).data<T>(), sizes.dim,
                 Offsets(sizes.stack, sizes.k, sizes.keys * sizes.dim, sizes.repeat)};
    problem.v = {args.tensor(v_).data<T>(), sizes.value_dim,
                 Offsets(sizes.stack, sizes.v, sizes.keys * sizes.value_dim, sizes.repeat)};
    Tensor mask;  // of f32 it may be whatever the others are
    if (args.Has(mask_)) {
      mask = args.tensor(mask_);
      if (mask.dtype() != DType::kBool) mask = mask.To(kDTypeOf<T>);
      problem.masks.push_back(MaskOf(mask, sizes));
    }
    problem.output = outputs[0].AsTensor().data<T>();
    problem.output_row = sizes.value_dim;
    problem.output_offsets = Offsets(sizes.stack, sizes.stack, sizes.queries * sizes.value_dim, 1);
    RunAttention(kernels_, problem, context.threads(), context.workspace<T>());
  }

  size_t Workspace(const Args& args, int threads) const override {
    const int64_t floats = AttentionWorkspace(kernels_, ProblemOf(SizesOf(args)), threads);
    return CheckedMultiply(static_cast<size_t>(floats), sizeof(T));
  }

  Cost Work(const Args& args, std::span<const Value> outputs) const override {
    Cost cost = Layer::Work(args, outputs);
    const Sizes s = SizesOf(args);
    cost.flops = 2.0 * static_cast<double>(s.stack.elements()) * static_cast<double>(s.queries) *
                 static_cast<double>(s.keys) * static_cast<double>(s.dim + s.value_dim);
    return cost;
  }

 private:
  struct Sizes {
    Shape stack;    // of the result
    Shape q, k, v;  // the leading axes of the operands
    int64_t queries = 0, keys = 0, dim = 0, value_dim = 0;
    int64_t repeat = 1;  // query heads for each key head
  };

  Sizes SizesOf(const Args& args) const {
    const Shape &q = args.shape(q_), &k = args.shape(k_), &v = args.shape(v_);
    if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2) {
      ThrowAttention("expected query, key and value of rank 2 or more, got " + Describe(q, k, v));
    }
    Sizes sizes{{},
                Leading(q, 2),
                Leading(k, 2),
                Leading(v, 2),
                q[q.rank() - 2],
                k[k.rank() - 2],
                q[q.rank() - 1],
                v[v.rank() - 1]};
    if (k[k.rank() - 1] != sizes.dim || v[v.rank() - 2] != sizes.keys) {
      ThrowAttention("expected a query and a key of one width, and as many values as keys, got " +
                     Describe(q, k, v));
    }
    Shape key_stack = BroadcastShapes(sizes.k, sizes.v);
    if (gqa_) sizes.repeat = Repeat(sizes, q, k, v, key_stack);
    sizes.stack = BroadcastShapes(sizes.q, key_stack);
    return sizes;
  }

  /// How many query heads share a key head; the stack of the keys is widened to that.
  static int64_t Repeat(const Sizes& sizes, const Shape& q, const Shape& k, const Shape& v,
                        Shape& key_stack) {
    if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank()) {
      ThrowAttention("enable_gqa needs heads on the third axis from the end, got " +
                     Describe(q, k, v));
    }
    const int head = q.rank() - 3;
    const int64_t heads = sizes.q[head], shared = key_stack[head];
    if (shared == 0 || heads % shared != 0 || sizes.k[head] != sizes.v[head]) {
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

  static Shape ScoreShape(const Sizes& sizes) {
    Shape shape = sizes.stack;
    shape.Append(sizes.queries);
    shape.Append(sizes.keys);
    return shape;
  }

  static void CheckMask(const Tensor& mask, const Sizes& sizes) {
    const Shape scores = ScoreShape(sizes);
    if (mask.rank() < 2 || !(BroadcastShapes(mask.shape(), scores) == scores)) {
      ThrowAttention("expected a mask that broadcasts to " + scores.ToString() + ", got " +
                     mask.shape().ToString());
    }
  }

  static AttentionMask<T> MaskOf(const Tensor& tensor, const Sizes& sizes) {
    const Shape& shape = tensor.shape();
    const int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
    AttentionMask<T> mask;
    if (tensor.dtype() == DType::kBool) {
      mask.flags = reinterpret_cast<const uint8_t*>(tensor.raw());
      mask.drop = false;  // true: takes part
    } else {
      mask.numbers = tensor.data<T>();
    }
    mask.row = rows == 1 ? 0 : columns;
    mask.column = columns == 1 ? 0 : 1;
    mask.columns = sizes.keys;
    mask.offsets = Offsets(sizes.stack, Leading(shape, 2), rows * columns, 1);
    return mask;
  }

  AttentionProblem<T> ProblemOf(const Sizes& sizes) const {
    AttentionProblem<T> problem;
    problem.count = sizes.stack.elements();
    problem.queries = sizes.queries;
    problem.keys = sizes.keys;
    problem.dim = sizes.dim;
    problem.value_dim = sizes.value_dim;
    problem.scale = static_cast<T>(scale_.value_or(1 / std::sqrt(static_cast<double>(sizes.dim))));
    problem.causal = causal_;
    problem.zero_if_masked = true;
    return problem;
  }

  int q_, k_, v_, mask_;
  bool causal_, gqa_;
  std::optional<double> scale_;
  AttentionKernels kernels_;
};

}  // namespace
}  // namespace oort

OORT_LAYERS(scaled_dot_product) {
  using namespace oort;
  const OperatorSchema schema =
      OperatorSchema({"F.scaled_dot_product_attention"},
                     "softmax(Q K^T * scale + mask) V; a bool mask is true where a key takes part")
          .Tensor("query", kFloats)
          .Tensor("key", kFloats)
          .Tensor("value", kFloats)
          .OptionalTensor("attn_mask", kFloats | DType::kBool)
          .Float("dropout_p", 0)
          .Bool("is_causal", false)
          .Float("scale")
          .Nullable()
          .Bool("enable_gqa", false);
  registry.Add(schema, WithFloats(schema, Create<ScaledDotProduct<float>>(),
                                  Create<ScaledDotProduct<double>>(), "attn_mask"));
}
