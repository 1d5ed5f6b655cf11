// SPDX-License-Identifier: MIT
#include "decoder/decoder.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/problems.h"
#include "cpu/activation.h"
#include "decoder/altup.h"
#include "decoder/decoder_parts.h"
#include "decoder/decoder_stages.h"
#include "decoder/key_centre.h"
#include "decoder/lora_add.h"
#include "decoder/promised_rows.h"
#include "decoder/state_space.h"

namespace oort {
namespace {

Tensor FloatTensor(const std::vector<float>& values) {
  if (values.empty()) return {};
  return Tensor::From(std::span<const float>(values), Shape{static_cast<int64_t>(values.size())});
}

/// Writes the decoder block by block. `x` is the residual stream (tokens, hidden) throughout.
class DecoderWriter : private DecoderParts {
 public:
  DecoderWriter(const Checkpoint& checkpoint, std::span<const LoraAdapter> adapters,
                bool pictures = false)
      : DecoderParts(checkpoint), adapters_(adapters), pictures_(pictures) {}

  Graph Write() {
    const Shape tokens_shape{Shape::kUnknown};
    const int tokens = graph_.AddInput("pnnx_input_0", DType::kI32, tokens_shape);
    positions_ = graph_.AddInput("pnnx_input_1", DType::kI32, tokens_shape);
    const int wanted = graph_.AddInput("pnnx_input_2", DType::kI32, tokens_shape);
    int x = Embed(tokens);
    if (HasStreams()) x = altup_.Begin(tokens, x);
    WriteAngles();
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer);
      x = Block(name, layer, x);
    }
    // Only the rows whose logits somebody wants go through the head, the largest product of all.
    Written select{"torch.index_select", "wanted"};
    select.Set("dim", Value(int64_t{0}));
    x = graph_.AddOne(std::move(select), {x, wanted});
    if (HasStreams()) x = altup_.Merge(x);
    int logits = Head(Norm("model.norm", x));
    if (config_.logit_scale != 1) {
      logits = Expression("logits", "mul(@0," + Number(config_.logit_scale) + ")", {logits});
    }
    if (config_.final_softcap > 0) logits = Softcap(logits);
    graph_.Add({"pnnx.Output", "pnnx_output_0"}, {logits}, 0);
    CheckAllAdapted();
    return graph_.Take();
  }

  /// One stage alone, see decoder_stages.h.
  Graph WriteStage(DecoderStage stage, int64_t index) {
    const std::string layer = "model.layers." + std::to_string(index);
    std::vector<int> outputs;
    switch (stage) {
      case DecoderStage::kEmbed: {
        const int tokens = Input(DType::kI32, Shape{Shape::kUnknown});
        if (config_.learned_positions) positions_ = Input(DType::kI32, Shape{Shape::kUnknown});
        outputs = {Embed(tokens)};
        break;
      }
      case DecoderStage::kAttentionNorm:
        outputs = {AttentionInput(layer, Rows(config_.hidden))};
        break;
      case DecoderStage::kAttention: {
        const int in = Rows(config_.hidden);
        if (config_.rotary.dims > 0) {
          positions_ = Input(DType::kI32, Shape{Shape::kUnknown});
          WriteAngles();
        }
        outputs = {Attended(layer, index, 0, in)};
        break;
      }
      case DecoderStage::kAttentionOutput: {
        const int in = Rows(config_.heads * config_.head_dim), x = Rows(config_.hidden);
        const int sum =
            AddResidual(layer + ".post_attention_layernorm", layer + ".self_attn.o_proj", in, x);
        const bool parallel = config_.block != DecoderConfig::Block::kSequential;
        outputs = {sum, FeedForwardInput(layer, parallel ? x : sum)};
        break;
      }
      case DecoderStage::kHidden:
        outputs = {Hidden(layer + ".mlp", index, Rows(config_.hidden))};
        break;
      case DecoderStage::kOutput: {
        const int in = Rows(config_.intermediate), x = Rows(config_.hidden);
        outputs = {
            AddResidual(layer + ".post_feedforward_layernorm", layer + ".mlp.down_proj", in, x)};
        break;
      }
      case DecoderStage::kFinalNorm: outputs = {Norm("model.norm", Rows(config_.hidden))}; break;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph_.Add({"pnnx.Output", "pnnx_output_" + std::to_string(i)}, {outputs[i]}, 0);
    }
    return graph_.Take();
  }

 private:
  int Input(DType dtype, const Shape& shape) {
    return graph_.AddInput("pnnx_input_" + std::to_string(inputs_++), dtype, shape);
  }
  /// An input with a row for each token.
  int Rows(int64_t width) { return Input(DType::kF32, Shape{Shape::kUnknown, width}); }

  int Embed(int tokens) {
    Written table = Table("model.embed_tokens");
    if (config_.embedding_scale != 1) {
      table.Set("factor", Value(static_cast<double>(config_.embedding_scale)));
    }
    int x = graph_.AddOne(std::move(table), {tokens});
    if (pictures_) x = graph_.AddOne({"oort.PictureRows", "pictures"}, {x});
    if (!config_.learned_positions) return x;
    const int places = graph_.AddOne(Table("model.embed_positions"), {positions_});
    return Expression("embed", "add(@0,@1)", {x, places});
  }

  void WriteAngles() {
    if (config_.rotary.dims > 0) angles_ = Angles("rotary", config_.rotary);
    if (config_.local_rotary.dims > 0) local_angles_ = Angles("local_rotary", config_.local_rotary);
  }

  int Angles(const std::string& name, const RotaryConfig& rotary) {
    Written angles{"oort.RotaryAngles", name};
    angles.Attach("frequencies", FloatTensor(rotary.frequencies))
        .Attach("long_frequencies", FloatTensor(rotary.long_frequencies))
        .Set("magnitude", Value(static_cast<double>(rotary.magnitude)))
        .Set("long_magnitude", Value(static_cast<double>(rotary.long_magnitude)))
        .Set("original_context", Value(rotary.original_context));
    return graph_.AddOne(std::move(angles), {positions_});
  }

  int Block(const std::string& layer, int64_t index, int x) {
    if (HasStreams()) return StreamBlock(layer, index, x);
    const int in = AttentionInput(layer, x);
    const int64_t kept = config_.KeptIndexOf(index);
    int sum = x;
    if (config_.HasAttention(index)) {
      sum = AddResidual(layer + ".post_attention_layernorm", layer + ".self_attn.o_proj",
                        Attended(layer, index, kept, in), sum, config_.scales.attention);
    }
    if (config_.state_space.IsAt(index)) {
      const std::string name = layer + ".mixer";
      sum = AddResidual({}, name + ".out_proj", Scanned(name, kept, in), sum, config_.scales.state);
    }
    if (!config_.HasFeedForward(index)) return sum;
    switch (config_.block) {
      case DecoderConfig::Block::kParallel:
        return FeedForward(layer, index, FeedForwardInput(layer, x), sum);
      case DecoderConfig::Block::kParallelOneNorm: return FeedForward(layer, index, in, sum);
      case DecoderConfig::Block::kSequential: break;
    }
    return FeedForward(layer, index, FeedForwardInput(layer, sum), sum);
  }

  bool HasStreams() const { return config_.altup.streams > 0; }

  /// `x` is all streams.
  int StreamBlock(const std::string& layer, int64_t index, int x) {
    const int predicted = altup_.Predict(layer, x);
    const int active = altup_.Active(layer, predicted);
    const int in = AttentionInput(layer, active);
    const int attended = Attended(layer, index, config_.KeysOf(index), in);
    const int sum = AddResidual(layer + ".post_attention_layernorm", layer + ".self_attn.o_proj",
                                attended, active);
    const int both = altup_.AddLaurel(layer, in, sum);
    const int made = FeedForward(layer, index, FeedForwardInput(layer, both), both);
    return altup_.Correct(layer, index, predicted, active, made);
  }

  /// What q, k and v multiply.
  int AttentionInput(const std::string& layer, int x) {
    return config_.pre_norms ? Norm(layer + ".input_layernorm", x) : x;
  }
  /// What gate and up multiply.
  int FeedForwardInput(const std::string& layer, int x) {
    const std::string norm(config_.FeedForwardNorm());
    return norm.empty() ? x : Norm(layer + "." + norm, x);
  }

  /// What attention gives for `in`, before its output projection; keys and values go to
  /// `cache_layer` of the cache.
  int Attended(const std::string& layer, int64_t index, int64_t cache_layer, int in) {
    const std::string name = layer + ".self_attn";
    if (config_.latent.rank > 0) return LatentAttended(name, index, cache_layer, in);
    std::vector<std::string> parts = {name + ".q_proj"};
    const bool has_keys = config_.KeysOf(index) == index;
    if (has_keys) parts.insert(parts.end(), {name + ".k_proj", name + ".v_proj"});
    std::vector<int> qkv = Products(name + ".qkv_proj", parts, in);
    for (size_t i = 0; i < parts.size(); ++i) qkv[i] = Adapted(parts[i], in, qkv[i]);
    // Layers that share keys and values turn and write them once more, to the same place: that is
    // little, and to attention they are layers like others.
    if (!has_keys)
      qkv.insert(qkv.end(), shared_.at(cache_layer).begin(), shared_.at(cache_layer).end());
    int query = qkv[0], key = qkv[1], value = qkv[2];
    if (config_.query_key_norm == DecoderConfig::QueryKeyNorm::kHead) {
      query = HeadNorm(name + ".q_norm", query, config_.heads, config_.head_dim);
      if (has_keys) key = HeadNorm(name + ".k_norm", key, config_.kv_heads, config_.head_dim);
    } else if (config_.query_key_norm == DecoderConfig::QueryKeyNorm::kAllHeads) {
      query = Norm(name + ".q_norm", query);
      key = Norm(name + ".k_norm", key);
    }
    if (config_.value_norms && has_keys) {
      value = PlainNorms(name + ".v_norm", value, config_.kv_heads, config_.head_dim);
    }
    shared_[cache_layer] = {key, value};
    const DecoderConfig::LayerRotary rotary = config_.RotaryOf(index);
    const bool turns = config_.rotary.dims > 0 && rotary != DecoderConfig::LayerRotary::kNone;
    const bool local = rotary == DecoderConfig::LayerRotary::kLocal;
    if (turns) {
      Written turn{"oort.Rotary", name + ".rotary"};
      turn.Set("head_dim", Value(config_.head_dim))
          .Set("interleaved", Value(config_.rotary.interleaved));
      const std::vector<int> turned =
          graph_.Add(std::move(turn), {query, key, local ? local_angles_ : angles_}, 2);
      query = turned[0];
      key = turned[1];
    }
    if (turns && config_.query_key_norm == DecoderConfig::QueryKeyNorm::kTurned) {
      query = PlainNorms(name + ".q_norm", query, config_.heads, config_.head_dim);
      key = PlainNorms(name + ".k_norm", key, config_.kv_heads, config_.head_dim);
    }
    if (!turns && config_.temperature.length > 0) {
      query = Expression(name + ".temperature", "mul(@0,@1)", {query, Temperature()});
    }
    RotaryConfig turning;
    if (turns) {
      turning = local ? config_.local_rotary : config_.rotary;
      turning.interleaved = config_.rotary.interleaved;
    }
    const std::string keys =
        "model.layers." + std::to_string(config_.KeysOf(index)) + ".self_attn.k_proj";
    const int attended =
        Attend(name, index, cache_layer, {query, key, value}, CentreOf(keys, turning));
    if (!config_.attention_gate) return attended;
    const std::string gate = name + ".gate_proj";
    return Expression(gate, "mul(@0,sigmoid(@1))",
                      {attended, graph_.AddOne(LinearOf(gate, {gate}), {in})});
  }

  /// Of the keys that a product gives, for all layers that see them; undefined where there is
  /// none, or their scores do not count by their differences alone.
  Tensor CentreOf(const std::string& product, const RotaryConfig& rotary) const {
    const std::string bias = product + ".bias";
    const bool is_free = !config_.sinks && config_.attention_softcap == 0 &&
                         config_.query_key_norm == DecoderConfig::QueryKeyNorm::kNone &&
                         rotary.original_context == 0;
    if (!is_free || !checkpoint_.Has(bias)) return {};
    return KeyCentre(checkpoint_.Vector(bias), config_.head_dim, rotary);
  }

  /// What each token's queries are multiplied with: (tokens, 1).
  int Temperature() {
    if (temperature_ >= 0) return temperature_;
    const std::string length = std::to_string(config_.temperature.length);
    const int growth = Expression("temperature",
                                  "add(mul(log1p(floor(div(add(@0,1)," + length + ")))," +
                                      Number(config_.temperature.scale) + "),1)",
                                  {positions_});
    return temperature_ = Reshape("temperature.column", growth, {-1, 1});
  }

  int Attend(const std::string& name, int64_t index, int64_t cache_layer,
             const std::vector<int>& inputs, const Tensor& key_centre = {}) {
    Written attend{"oort.PagedAttention", name};
    attend.Set("layer", Value(cache_layer))
        .Set("heads", Value(config_.heads))
        .Set("kv_heads", Value(config_.kv_heads))
        .Set("head_dim", Value(config_.head_dim))
        .Set("scale", Value(static_cast<double>(config_.attention_scale)))
        .Set("softcap", Value(static_cast<double>(config_.attention_softcap)))
        .Set("window", Value(Window(index)));
    if (config_.chunked_windows) attend.Set("chunked", Value(true));
    if (config_.sinks) attend.Attach("sinks", checkpoint_.Vector(name + ".sinks.weight"));
    if (key_centre.defined()) attend.Attach("key_centre", key_centre);
    return graph_.AddOne(std::move(attend), inputs);
  }

  /// Latent attention (DeepSeek-AI 2024): a head's key is a product of the latent with a matrix of
  /// its own, and its query times that is the query times the matrix, times the latent. So queries
  /// go to the latent instead, attention sees latents alone, and of their mean a head's value is
  /// made.
  int LatentAttended(const std::string& name, int64_t index, int64_t cache_layer, int in) {
    const LatentConfig& latent = config_.latent;
    int source = in;
    if (latent.query_rank > 0) {
      const std::string query = name + ".q_a_proj";
      source =
          Norm(name + ".q_a_norm", graph_.AddOne(LinearOf(query, {query}), {in}), kLatentEpsilon);
    }
    const std::vector<int> queries =
        Products(name + ".q", {name + ".q_plain_proj", name + ".q_turned_proj"}, source);
    const std::vector<int> keys =
        Products(name + ".kv_a", {name + ".kv_a_proj", name + ".k_turned_proj"}, in);
    Written turn{"oort.Rotary", name + ".rotary"};
    turn.Set("head_dim", Value(latent.turned))
        .Set("interleaved", Value(config_.rotary.interleaved));
    const std::vector<int> turned = graph_.Add(std::move(turn), {queries[1], keys[1], angles_}, 2);
    const int query = HeadLinear(name + ".k_b_proj", {queries[0], turned[0]}, latent.rank);
    Written join{"torch.cat", name + ".key"};
    join.Set("dim", Value(int64_t{1}));
    const int key = graph_.AddOne(std::move(join),
                                  {Norm(name + ".kv_a_norm", keys[0], kLatentEpsilon), turned[1]});
    const int attended = Attend(name, index, cache_layer, {query, key, key});
    return HeadLinear(name + ".v_b_proj", {attended}, latent.value);
  }

  /// A weight of its own for each head.
  int HeadLinear(const std::string& name, const std::vector<int>& inputs, int64_t outputs) {
    const StoredMatrix matrix = MatrixOf(name);
    Written linear{"oort.HeadLinear", name};
    linear.AttachWeight(matrix)
        .Set("heads", Value(config_.heads))
        .Set("in_features", Value(matrix.columns))
        .Set("out_features", Value(outputs));
    return graph_.AddOne(std::move(linear), inputs);
  }

  /// Mamba-2 (Dao and Gu 2024) or a delta rule: a short convolution and a recurrence, whose result
  /// goes through a gate and a norm of each group or head; before the output projection, as
  /// Attended. The sequence's state is that of `kept`.
  int Scanned(const std::string& name, int64_t kept, int in) {
    const std::vector<int> products = Products(
        name + ".in_proj", {name + ".gate_proj", name + ".conv_proj", name + ".step_proj"}, in);
    const int mixed = graph_.AddOne(ShortConvolution(checkpoint_, name, kept), {products[1]});
    const StateSpaceConfig& space = config_.state_space;
    int steps = products[2];
    if (space.step_scale != 1) {
      steps = Expression(name + ".step", Times("@0", space.step_scale), {steps});
    }
    std::vector<int> scan = {mixed, steps};
    if (space.delta) {
      const std::string beta = name + ".beta_proj";
      scan.push_back(graph_.AddOne(LinearOf(beta, {beta}), {in}));
    }
    const int scanned = graph_.AddOne(StateScan(checkpoint_, name, kept), scan);
    const auto normed = [&](int rows) { return GroupNorm(name + ".norm", rows); };
    const bool first = space.norm && space.norm_before_gate;
    const int gated =
        Expression(name + ".gate", "mul(@0,silu(" + Times("@1", space.gate_scale) + "))",
                   {first ? normed(scanned) : scanned, products[0]});
    return space.norm && !first ? normed(gated) : gated;
  }

  /// Each group of numbers has a norm of its own, and each number a weight.
  int GroupNorm(const std::string& name, int x) {
    const StateSpaceConfig& space = config_.state_space;
    if (space.delta) return HeadNorm(name, x, space.heads, space.head_dim);
    const int64_t groups = space.groups;
    if (groups == 1) return Norm(name, x);
    const int normed = PlainNorms(name, x, groups, space.inner() / groups);
    const std::string weight = name + ".weight";
    return Expression(name, "mul(@0,@1)", {normed, Constant(weight, checkpoint_.Vector(weight))});
  }

  int64_t Window(int64_t layer) const {
    const size_t index = static_cast<size_t>(layer);
    return index < config_.windows.size() ? config_.windows[index] : 0;
  }

  /// x + what the feed-forward gives for `in`.
  int FeedForward(const std::string& layer, int64_t index, int in, int x) {
    if (config_.experts.IsAt(index)) return Experts(layer + ".mlp", index, in, x);
    const int hidden = Hidden(layer + ".mlp", index, in);
    return AddResidual(layer + ".post_feedforward_layernorm", layer + ".mlp.down_proj", hidden, x,
                       config_.scales.feed_forward);
  }

  /// x + what a token's experts give for `in`, and the one that all tokens share.
  int Experts(const std::string& name, int64_t index, int in, int x) {
    const ExpertsConfig& experts = config_.experts;
    Written route = LinearOf(name + ".gate", {name + ".gate"});
    route.Set("precision", Value(std::string("f32")));  // other digits would choose others
    const int router = graph_.AddOne(std::move(route), {in});
    Written mixture{"oort.ExpertMixture", name + ".experts"};
    const char* const parts[] = {".experts.gate_proj", ".experts.up_proj", ".experts.down_proj"};
    for (size_t i = 0; i < std::size(parts); ++i) {
      const std::string suffix = i == 0 ? "" : "_" + std::to_string(i);
      const std::string bias = name + parts[i] + ".bias";
      const int64_t rows = i == 2 ? config_.hidden : experts.intermediate;
      mixture.AttachWeight(ExpertsOf(name + parts[i], experts.count * rows), suffix);
      if (checkpoint_.Has(bias)) mixture.Attach("bias" + suffix, checkpoint_.Vector(bias));
    }
    if (experts.limit > 0) mixture.Set("limit", Value(static_cast<double>(experts.limit)));
    mixture.Set("in_features", Value(config_.hidden))
        .Set("intermediate", Value(experts.intermediate))
        .Set("experts", Value(experts.count))
        .Set("used", Value(experts.used))
        .Set("normalized", Value(experts.normalized))
        .Set("activation", Value(std::string(Name(config_.activation))));
    SetRouting(name, mixture);
    const int sum = graph_.AddOne(std::move(mixture), {in, router, x});
    if (experts.shared_intermediate == 0) return sum;
    const int hidden = Hidden(name + ".shared_expert", index, in);
    const std::string down = name + ".shared_expert.down_proj";
    if (!experts.shared_gated) return AddResidual({}, down, hidden, sum);
    const int product = graph_.AddOne(LinearOf(down, {down}), {hidden});
    const std::string gate = name + ".shared_expert_gate";
    const int share = graph_.AddOne(LinearOf(gate, {gate}), {in});
    return Expression(gate, "add(@0," + Times("mul(@1,sigmoid(@2))", config_.residual_scale) + ")",
                      {sum, product, share});
  }

  /// What few families say of how experts are chosen.
  void SetRouting(const std::string& name, Written& mixture) {
    const ExpertsConfig& experts = config_.experts;
    if (experts.sigmoid) mixture.Set("sigmoid", Value(true));
    if (experts.scales_inputs) mixture.Set("scales_inputs", Value(true));
    const float factor = experts.scale * config_.residual_scale;
    if (factor != 1) mixture.Set("factor", Value(static_cast<double>(factor)));
    if (experts.groups > 1) {
      mixture.Set("groups", Value(experts.groups)).Set("groups_used", Value(experts.groups_used));
    }
    if (!experts.corrected) return;
    mixture.Attach("correction", checkpoint_.Vector(name + ".gate_correction.bias"));
  }

  /// What the feed-forward gives for `in`, before its last product.
  int Hidden(const std::string& name, int64_t index, int in) {
    std::vector<std::string> parts = {name + ".up_proj"};
    if (config_.gated) parts.insert(parts.begin(), name + ".gate_proj");
    const bool adapted =
        std::ranges::any_of(parts, [&](const std::string& part) { return IsAdapted(part); });
    if (adapted || config_.CutsGates(index) || config_.scales.gate != 1) {
      return HiddenInParts(name, index, parts, in);
    }
    Written up = LinearOf(name, parts);
    up.Set("activation", Value(std::string(Name(config_.activation))))
        .Set("gated", Value(config_.gated));
    return graph_.AddOne(std::move(up), {in});
  }

  /// The same with what comes before the activation: what adapters add, a scale, and gates cut off.
  int HiddenInParts(const std::string& name, int64_t index, const std::vector<std::string>& parts,
                    int in) {
    std::vector<int> products =
        graph_.Add(LinearOf(name, parts), {in}, static_cast<int>(parts.size()));
    for (size_t i = 0; i < parts.size(); ++i) products[i] = Adapted(parts[i], in, products[i]);
    const float scale = config_.scales.gate;
    if (scale != 1) products[0] = Expression(parts[0], Times("@0", scale), {products[0]});
    if (config_.CutsGates(index)) products[0] = CutGates(name, index, products[0]);
    const std::string active = ActivationText({config_.activation});
    return Expression(name, config_.gated ? "mul(" + active + ",@1)" : active, products);
  }

  /// As if gates were normally distributed, the largest of them (Gemma 3n).
  int CutGates(const std::string& name, int64_t index, int gates) {
    const int mean = Mean(name + ".mean", gates);
    const int squares = Expression(name + ".deviations", "square(sub(@0,@1))", {gates, mean});
    const std::string cutoff = Number(config_.gate_cutoffs[static_cast<size_t>(index)]);
    return Expression(name + ".cut", "relu(sub(@0,add(@1,mul(sqrt(@2)," + cutoff + "))))",
                      {gates, mean, Mean(name + ".variance", squares)});
  }

  /// x + linear(in) times `scale`, with a norm of what is added where the model has one.
  int AddResidual(const std::string& norm, const std::string& linear, int in, int x,
                  float scale = 1) {
    scale *= config_.residual_scale;
    if (!config_.post_norms && scale == 1) {
      return Adapted(linear, in, graph_.AddOne(LinearOf(linear, {linear}), {in, x}));
    }
    const int product = graph_.AddOne(LinearOf(linear, {linear}), {in});
    int added = Adapted(linear, in, product);
    if (config_.post_norms) added = Norm(norm, added);
    return Expression(linear, "add(@0," + Times("@1", scale) + ")", {x, added});
  }

  /// As expressions write it.
  static std::string Times(const std::string& factor, float scale) {
    return scale == 1 ? factor : "mul(" + factor + "," + Number(scale) + ")";
  }

  int Head(int x) {
    const std::string table = config_.tied_head ? "model.embed_tokens" : "lm_head";
    return graph_.AddOne(LinearOf("lm_head", {table}), {x});
  }

  int Softcap(int logits) {
    const std::string cap = Number(config_.final_softcap);
    return Expression("softcap", "mul(tanh(div(@0," + cap + "))," + cap + ")", {logits});
  }

  /// Experts that a file has one by one are put together when the layer packs them.
  StoredMatrix ExpertsOf(const std::string& name, int64_t rows) {
    const auto scattered = checkpoint_.Scattered(name + ".weight");
    return scattered == nullptr ? MatrixOf(name) : PromisedRows(scattered, rows);
  }

  bool IsAdapted(const std::string& weight) const {
    return std::ranges::any_of(
        adapters_, [&](const LoraAdapter& adapter) { return adapter.weights.contains(weight); });
  }

  /// `product`, of `in` with the weight of that name, with what adapters add to it.
  int Adapted(const std::string& weight, int in, int product) {
    if (!IsAdapted(weight)) return product;
    adapted_.insert(weight);
    return graph_.AddOne(LoraAddOf(adapters_, weight, MatrixOf(weight)), {product, in});
  }

  /// Nothing of an adapter is left out in silence.
  void CheckAllAdapted() const {
    for (const LoraAdapter& adapter : adapters_) {
      for (const auto& [name, matrices] : adapter.weights) {
        if (adapted_.contains(name)) continue;
        throw Error(
            ErrorCode::kInvalidModel,
            "an adapter changes " + Quote(name) +
                ", which the model does not have, or which adapters cannot change: q_proj, "
                "k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj of its layers can");
      }
    }
  }

  /// Norms of latents have an epsilon of their own.
  static constexpr float kLatentEpsilon = 1e-6F;

  /// A norm over each head of (tokens, heads * head_dim).
  int HeadNorm(const std::string& name, int x, int64_t heads, int64_t head_dim) {
    const int split = Reshape(name + ".split", x, {-1, heads, head_dim});
    return Reshape(name + ".join", Norm(name, split), {-1, heads * head_dim});
  }

  const std::span<const LoraAdapter> adapters_;
  const bool pictures_;
  std::set<std::string, std::less<>> adapted_;  ///< weights that adapters change
  AltUp altup_{*this};
  /// Of layers of the cache: keys that have not turned, and values.
  std::map<int64_t, std::array<int, 2>> shared_;
  int positions_ = -1, angles_ = -1, local_angles_ = -1, temperature_ = -1;
  int inputs_ = 0;  ///< of a stage
};

}  // namespace

DecoderGraph BuildDecoder(const Checkpoint& checkpoint, std::span<const LoraAdapter> adapters,
                          bool pictures) {
  return DecoderGraph(DecoderWriter(checkpoint, adapters, pictures).Write());
}

Graph BuildStage(const Checkpoint& checkpoint, DecoderStage stage, int64_t layer) {
  return DecoderWriter(checkpoint, {}).WriteStage(stage, layer);
}

}  // namespace oort
