// SPDX-License-Identifier: MIT
#include "decoder/text_encoder.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "core/problems.h"
#include "cpu/activation.h"
#include "decoder/graph_writer.h"
#include "decoder/used_tensors.h"
#include "parser/checkpoint/rotary.h"

namespace oort {
namespace {

/// `x` is (texts, tokens, hidden) throughout.
class TextEncoderWriter {
 public:
  TextEncoderWriter(const TextEncoderConfig& config, UsedTensors& tensors, std::string body)
      : config_(config), names_(config.names), tensors_(tensors), body_(std::move(body)) {}

  TextEncoderGraph Write(bool with_head) {
    int x = Embed();
    MakeMasks();
    if (config_.rotary_base > 0) MakeAngles();
    for (int64_t i = 0; i < config_.layers; ++i) x = Layer(i, x);
    if (!names_.final_norm.empty()) x = Norm(body_ + std::string(names_.final_norm), x);
    if (with_head) x = Head(x);
    graph_.Add({"pnnx.Output", "pnnx_output_0"}, {x}, 0);
    made_.graph = graph_.Take();
    return std::move(made_);
  }

 private:
  static Shape Unknown(int rank) {
    return Shape(std::vector<int64_t>(static_cast<size_t>(rank), Shape::kUnknown));
  }
  int Input(TextInput kind, DType dtype, Shape shape) {
    const std::string name = "pnnx_input_" + std::to_string(made_.inputs.size());
    made_.inputs.push_back(kind);
    return graph_.AddInput(name, dtype, std::move(shape));
  }
  /// Says that an operand is (texts, tokens, columns), so that passes may fuse what follows.
  int States(int operand, int64_t columns) {
    graph_.SetHint(operand, DType::kF32, Shape{Shape::kUnknown, Shape::kUnknown, columns});
    return operand;
  }

  int Embed() {
    tokens_ = Input(TextInput::kTokens, DType::kI64, Unknown(2));
    mask_ = Input(TextInput::kMask, DType::kF32, {Shape::kUnknown, 1, 1, Shape::kUnknown});
    heads_shape_ =
        SizesOf("heads", std::to_string(config_.heads) + "," + std::to_string(config_.head_dim()));
    states_shape_ = SizesOf("states", std::to_string(config_.hidden));
    int x = Lookup(body_ + std::string(names_.words), config_.vocabulary, config_.hidden, tokens_);
    States(x, config_.hidden);
    if (config_.positions > 0 || config_.rotary_base > 0) {
      positions_ = Input(TextInput::kPositions, DType::kI64, Unknown(2));
    }
    if (config_.positions > 0) x = AddTable(names_.positions, config_.positions, positions_, x);
    if (config_.types > 0) {
      x = AddTable(names_.types, config_.types, Input(TextInput::kTypes, DType::kI64, Unknown(2)),
                   x);
    }
    return Norm(body_ + std::string(names_.first_norm), x);
  }

  int Lookup(const std::string& name, int64_t rows, int64_t columns, int places) {
    Written table{"nn.Embedding", name};
    table.Attach("weight", tensors_.Floats(name, rows, columns))
        .Set("num_embeddings", Value(rows))
        .Set("embedding_dim", Value(columns))
        .Set("sparse", Value(false));
    return graph_.AddOne(std::move(table), {places});
  }
  int AddTable(std::string_view name, int64_t rows, int places, int x) {
    const std::string whole = body_ + std::string(name);
    const int more = States(Lookup(whole, rows, config_.hidden, places), config_.hidden);
    return States(Expression(whole, "add(@0,@1)", {x, more}), config_.hidden);
  }

  /// The masks of layers that see all, and of local ones.
  void MakeMasks() {
    if (config_.buckets > 0) {
      const std::string name = body_ + std::string(names_.relative);
      const int buckets = Input(TextInput::kBuckets, DType::kI64, Unknown(2));
      const int biases = Lookup(name, config_.buckets, config_.heads, buckets);
      Written turn{"Tensor.permute", name + ".heads"};
      constexpr int64_t kOrder[] = {2, 0, 1};
      turn.Set("dims", Value::Ints(kOrder));
      // (heads, tokens, tokens) beside (texts, 1, 1, tokens)
      const int by_head = graph_.AddOne(std::move(turn), {biases});
      mask_ = Expression(name + ".mask", "add(@0,@1)", {by_head, mask_});
    }
    bool any = false;
    for (int64_t i = 0; i < config_.layers; ++i) any = any || config_.IsLocal(i);
    if (!any) return;
    const int near = Input(TextInput::kNear, DType::kF32, {1, 1, Shape::kUnknown, Shape::kUnknown});
    local_mask_ = Expression("local.mask", "add(@0,@1)", {near, mask_});
  }

  void MakeAngles() {
    const int flat = Reshape("positions.flat", positions_, {-1});
    angles_ = Angles("angles", config_.rotary_base, flat);
    local_angles_ =
        local_mask_ < 0 ? angles_ : Angles("local.angles", config_.local_rotary_base, flat);
  }
  int Angles(const std::string& name, double base, int positions) {
    const RotaryConfig rotary = MakeRotary(config_.head_dim(), base, {});
    Written angles{"oort.RotaryAngles", name};
    angles.Attach("frequencies",
                  Tensor::From(std::span<const float>(rotary.frequencies),
                               Shape{static_cast<int64_t>(rotary.frequencies.size())}));
    return graph_.AddOne(std::move(angles), {positions});
  }

  int Layer(int64_t index, int x) {
    const std::string layer = body_ + std::string(names_.layers) + std::to_string(index) + ".";
    const std::string attention_norm = layer + std::string(names_.attention_norm);
    const std::string feed_norm = layer + std::string(names_.feed_norm);
    if (config_.norms_first) {
      // The first layer finds what a norm has left already.
      const int in = index == 0 ? x : Norm(attention_norm, x);
      x = Sum(layer + "attention.sum", Attention(layer, index, in), x);
      return Sum(layer + "feed.sum", FeedForward(layer, Norm(feed_norm, x)), x);
    }
    x = Norm(attention_norm, Sum(layer + "attention.sum", Attention(layer, index, x), x));
    return Norm(feed_norm, Sum(layer + "feed.sum", FeedForward(layer, x), x));
  }

  int Sum(const std::string& name, int added, int x) {
    return States(Expression(name, "add(@0,@1)", {added, x}), config_.hidden);
  }

  int Attention(const std::string& layer, int64_t index, int x) {
    const bool local = config_.IsLocal(index);
    int query = -1, key = -1, value = -1;
    if (names_.joined.empty()) {
      query = Linear(layer + std::string(names_.query), config_.hidden, config_.hidden, x);
      key = Linear(layer + std::string(names_.key), config_.hidden, config_.hidden, x);
      value = Linear(layer + std::string(names_.value), config_.hidden, config_.hidden, x);
    } else {
      const std::vector<int> parts =
          CutLinear(layer + std::string(names_.joined), config_.hidden, 3, x);
      query = parts[0], key = parts[1], value = parts[2];
    }
    if (config_.rotary_base > 0) {
      Written turn{"oort.Rotary", layer + "rotary"};
      turn.Set("head_dim", Value(config_.head_dim()));
      const std::vector<int> flat = {Reshape(layer + "query.flat", query, {-1, config_.hidden}),
                                     Reshape(layer + "key.flat", key, {-1, config_.hidden}),
                                     local ? local_angles_ : angles_};
      const std::vector<int> turned = graph_.Add(std::move(turn), flat, 2);
      query = turned[0];
      key = turned[1];
    }
    Written attend{"F.scaled_dot_product_attention", layer + "attention"};
    attend.Set("scale", Value(1 / std::sqrt(static_cast<double>(config_.head_dim()))));
    const int attended = graph_.AddOne(
        std::move(attend), {Heads(layer + "query", query), Heads(layer + "key", key),
                            Heads(layer + "value", value), local ? local_mask_ : mask_});
    const int joined =
        States(ReshapeTo(layer + "join", Permute(layer + "tokens", attended), states_shape_),
               config_.hidden);
    return Linear(layer + std::string(names_.output), config_.hidden, config_.hidden, joined);
  }

  int FeedForward(const std::string& layer, int x) {
    const std::string up = layer + std::string(names_.up);
    int inner = -1;
    if (config_.gated) {
      const std::vector<int> parts = CutLinear(up, config_.intermediate, 2, x);
      const int acted = Activate(up + ".act", parts[0], config_.activation);
      inner =
          Expression(up + ".gate", "mul(@0,@1)", {States(acted, config_.intermediate), parts[1]});
    } else {
      inner = Activate(up + ".act", Linear(up, config_.intermediate, config_.hidden, x),
                       config_.activation);
    }
    return Linear(layer + std::string(names_.down), config_.hidden, config_.intermediate,
                  States(inner, config_.intermediate));
  }

  /// Of the first token, or of the mean of all.
  int Head(int x) {
    const std::string head(names_.head);
    const PlacedTensor* placed = tensors_.table().Find(head + ".weight");
    constexpr int64_t kMostLabels = 1 << 16;
    if (placed == nullptr || placed->rank != 2 || placed->rows > kMostLabels) {
      throw Error(ErrorCode::kUnsupported, Quote(head + ".weight") +
                                               " is missing: an encoder without a head gives "
                                               "vectors (oort embed) and no scores");
    }
    int pooled = -1;
    if (config_.head_of_mean) {
      const int shares =
          Input(TextInput::kShares, DType::kF32, {Shape::kUnknown, 1, Shape::kUnknown});
      const int mean = graph_.AddOne({"torch.matmul", "mean"}, {shares, x});
      pooled = Reshape("mean.flat", mean, {-1, config_.hidden});
    } else {
      Written first{"Tensor.select", "first"};
      first.Set("dim", Value(int64_t{1})).Set("index", Value(int64_t{0}));
      pooled = graph_.AddOne(std::move(first), {x});
    }
    const std::string dense(names_.head_dense);
    pooled = Activate(dense + ".act", Row(dense, config_.hidden, pooled), config_.head_activation);
    if (!names_.head_norm.empty()) pooled = RowNorm(std::string(names_.head_norm), pooled);
    return Row(head, placed->rows, pooled);
  }

  Written LinearOf(const std::string& name, const Tensor& weight, const Tensor& bias) {
    Written linear{"nn.Linear", name};
    linear.Attach("weight", weight)
        .Attach("bias", bias)
        .Set("in_features", Value(weight.dim(1)))
        .Set("out_features", Value(weight.dim(0)))
        .Set("bias", Value(bias.defined()));
    return linear;
  }
  Tensor BiasOf(const std::string& name, int64_t rows) {
    return tensors_.Has(name + ".bias") ? tensors_.Vector(name + ".bias", rows) : Tensor();
  }
  int Linear(const std::string& name, int64_t rows, int64_t columns, int x) {
    const Tensor weight = tensors_.Floats(name, rows, columns);
    return States(graph_.AddOne(LinearOf(name, weight, BiasOf(name, rows)), {x}), rows);
  }
  /// The same of one row for each text.
  int Row(const std::string& name, int64_t rows, int x) {
    const Tensor weight = tensors_.Floats(name, rows, config_.hidden);
    return graph_.AddOne(LinearOf(name, weight, BiasOf(name, rows)), {x});
  }
  /// Several products that a file has as one, each of `rows` rows.
  std::vector<int> CutLinear(const std::string& name, int64_t rows, int64_t count, int x) {
    const Tensor weight = tensors_.Floats(name, rows * count, config_.hidden);
    const Tensor bias = BiasOf(name, rows * count);
    std::vector<int> parts;
    for (int64_t i = 0; i < count; ++i) {
      const auto part = [&](const Tensor& whole, Shape shape) {
        if (!whole.defined()) return Tensor();
        Tensor own(DType::kF32, std::move(shape));
        std::memcpy(own.data<float>(), whole.data<float>() + i * own.elements(),
                    static_cast<size_t>(own.elements()) * sizeof(float));
        return own;
      };
      Written linear = LinearOf(name + "." + std::to_string(i),
                                part(weight, {rows, config_.hidden}), part(bias, Shape{rows}));
      parts.push_back(States(graph_.AddOne(std::move(linear), {x}), rows));
    }
    return parts;
  }

  int RowNorm(const std::string& name, int x) {
    Written norm{"nn.LayerNorm", name};
    norm.Attach("weight", tensors_.Vector(name + ".weight", config_.hidden))
        .Attach("bias", BiasOf(name, config_.hidden))
        .Set("normalized_shape", Value(Value::List{Value(config_.hidden)}))
        .Set("eps", Value(static_cast<double>(config_.epsilon)))
        .Set("elementwise_affine", Value(true));
    return graph_.AddOne(std::move(norm), {x});
  }
  int Norm(const std::string& name, int x) { return States(RowNorm(name, x), config_.hidden); }

  int Activate(const std::string& name, int x, Activation activation) {
    return Expression(name, ActivationText({activation}), {x});
  }
  int Expression(const std::string& name, const std::string& text, const std::vector<int>& inputs) {
    Written expression{"pnnx.Expression", name + ".expression"};
    expression.params["expr"] = Parameter(text);
    return graph_.AddOne(std::move(expression), inputs);
  }
  /// [texts, tokens, …]
  int SizesOf(const std::string& name, const std::string& rest) {
    return Expression(name, "[size(@0,0),size(@0,1)," + rest + "]", {tokens_});
  }
  int ReshapeTo(const std::string& name, int x, int shape) {
    Written reshape{"Tensor.reshape", name};
    return graph_.AddOne(std::move(reshape), {x, shape});
  }
  int Reshape(const std::string& name, int x, const std::vector<int64_t>& shape) {
    Written reshape{"Tensor.reshape", name};
    reshape.Set("shape", Value::Ints(shape));
    return graph_.AddOne(std::move(reshape), {x});
  }
  int Permute(const std::string& name, int x) {
    Written permute{"Tensor.permute", name};
    constexpr int64_t kOrder[] = {0, 2, 1, 3};
    permute.Set("dims", Value::Ints(kOrder));
    return graph_.AddOne(std::move(permute), {x});
  }
  /// (texts, heads, tokens, head_dim)
  int Heads(const std::string& name, int x) {
    return Permute(name + ".heads", ReshapeTo(name + ".split", x, heads_shape_));
  }

  const TextEncoderConfig& config_;
  const TextEncoderNames& names_;
  UsedTensors& tensors_;
  const std::string body_;
  GraphWriter graph_;
  TextEncoderGraph made_;
  int tokens_ = -1, positions_ = -1, mask_ = -1, local_mask_ = -1;
  int angles_ = -1, local_angles_ = -1, heads_shape_ = -1, states_shape_ = -1;
};

/// A file of the body alone leaves its name out.
std::string BodyOf(const TextEncoderFiles& files) {
  const TextEncoderNames& names = files.config.names;
  const std::string body(names.body);
  const bool named = files.tensors.Find(body + std::string(names.words) + ".weight") != nullptr;
  return named ? body : "";
}

}  // namespace

TextEncoderGraph BuildTextEncoder(const TextEncoderFiles& files, bool with_head) {
  UsedTensors used(files.tensors);
  const std::string body = BodyOf(files);
  TextEncoderGraph made = TextEncoderWriter(files.config, used, body).Write(with_head);
  for (const auto& [name, placed] : files.tensors.tensors()) {
    // Who asks for vectors needs no head, whatever it is for.
    const bool of_head = !with_head && !body.empty() && !name.starts_with(body);
    if (used.IsUsed(name) || of_head || name.starts_with(body + "pooler.")) continue;
    throw Error(
        ErrorCode::kUnsupported,
        Quote(name) + " has no place in an encoder of the family " + Quote(files.config.family));
  }
  return made;
}

}  // namespace oort
