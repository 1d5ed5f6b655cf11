// SPDX-License-Identifier: MIT
#include <set>

#include "core/problems.h"
#include "parser/checkpoint/tensor_table.h"

namespace oort {
namespace {

/// Ticks off what a config asks for.
class TensorChecker {
 public:
  TensorChecker(const DecoderConfig& config, const TensorTable& table)
      : config_(config), table_(table) {}

  void All() {
    const bool enough = table_.size() >= static_cast<size_t>(config_.layers);
    for (int64_t i = 0; enough && i < config_.layers; ++i) {
      Layer(i, "model.layers." + std::to_string(i) + ".");
    }
    if (!enough) {
      problems_.Add(ErrorCode::kInvalidModel, std::to_string(table_.size()) +
                                                  " tensors are too few for " +
                                                  std::to_string(config_.layers) + " layers");
    }
    Matrix("model.embed_tokens", config_.vocabulary, config_.hidden);
    if (config_.learned_positions) {
      Matrix("model.embed_positions", config_.context, config_.hidden);
    }
    if (config_.altup.streams > 0) Streams();
    Norm("model.norm", config_.hidden);
    if (!config_.tied_head) Linear("lm_head", config_.vocabulary, config_.hidden);
    if (enough) Unused();
  }
  void Throw(std::string_view headline) const { problems_.Throw(headline); }

 private:
  void Layer(int64_t index, const std::string& layer) {
    const DecoderConfig& c = config_;
    if (c.pre_norms) Norm(layer + "input_layernorm", c.hidden);
    if (c.state_space.IsAt(index)) StateSpace(layer);
    if (c.HasAttention(index)) Attention(index, layer);
    if (!c.HasFeedForward(index)) return;
    const std::string feed_forward(c.FeedForwardNorm());
    if (!feed_forward.empty() && feed_forward != "input_layernorm") {
      Norm(layer + feed_forward, c.hidden);
    }
    if (c.post_norms) {
      Norm(layer + "post_attention_layernorm", c.hidden);
      Norm(layer + "post_feedforward_layernorm", c.hidden);
    }
    if (c.altup.streams > 0) StreamsOf(layer);
    if (c.experts.IsAt(index)) {
      Experts(layer + "mlp.");
    } else {
      FeedForward(layer + "mlp.", c.intermediate);
    }
  }

  void Attention(int64_t index, const std::string& layer) {
    const DecoderConfig& c = config_;
    const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
    const bool has_keys = c.KeysOf(index) == index;
    if (!has_keys) IgnoreKeys(layer + "self_attn.");
    if (c.latent.rank > 0) {
      Latent(layer + "self_attn.");
    } else {
      Linear(layer + "self_attn.q_proj", queries, c.hidden);
      if (has_keys) Linear(layer + "self_attn.k_proj", keys, c.hidden);
      if (has_keys) Linear(layer + "self_attn.v_proj", keys, c.hidden);
      Linear(layer + "self_attn.o_proj", c.hidden, queries);
    }
    if (c.attention_gate) Linear(layer + "self_attn.gate_proj", queries, c.hidden);
    const bool whole = c.query_key_norm == DecoderConfig::QueryKeyNorm::kAllHeads;
    if (whole || c.query_key_norm == DecoderConfig::QueryKeyNorm::kHead) {
      Vector(layer + "self_attn.q_norm.weight", whole ? queries : c.head_dim);
      if (has_keys) Vector(layer + "self_attn.k_norm.weight", whole ? keys : c.head_dim);
    }
    if (c.sinks) Vector(layer + "self_attn.sinks.weight", c.heads);
  }

  /// Some files have them, but nobody reads them.
  void IgnoreKeys(const std::string& name) {
    for (const char* part :
         {"k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias", "k_norm.weight"}) {
      used_.insert(name + part);
    }
  }

  void Streams() {
    const AltUpConfig& altup = config_.altup;
    const int64_t hidden = config_.hidden, inputs = config_.layers * altup.per_layer;
    Matrix("model.embed_tokens_per_layer", altup.vocabulary, inputs);
    Matrix("model.per_layer_model_projection", inputs, hidden);
    Vector("model.per_layer_projection_norm.weight", altup.per_layer);
    for (int64_t i = 0; i + 1 < altup.streams; ++i) {
      Matrix("model.altup_projections." + std::to_string(i), hidden, hidden);
      Matrix("model.altup_unembed_projections." + std::to_string(i), hidden, hidden);
    }
  }

  void StreamsOf(const std::string& layer) {
    const AltUpConfig& altup = config_.altup;
    const int64_t hidden = config_.hidden, streams = altup.streams;
    Vector(layer + "altup.correct_output_scale.weight", hidden);
    Vector(layer + "altup.router_norm.weight", hidden);
    Matrix(layer + "altup.modality_router", streams, hidden);
    Matrix(layer + "altup.prediction_coefs", streams * streams, streams);
    Matrix(layer + "altup.correction_coefs", streams, streams);
    Matrix(layer + "laurel.linear_left", altup.laurel, hidden);
    Matrix(layer + "laurel.linear_right", hidden, altup.laurel);
    Vector(layer + "laurel.post_laurel_norm.weight", hidden);
    Matrix(layer + "per_layer_input_gate", altup.per_layer, hidden);
    Matrix(layer + "per_layer_projection", hidden, altup.per_layer);
    Vector(layer + "post_per_layer_input_norm.weight", hidden);
  }

  void Latent(const std::string& name) {
    const LatentConfig& latent = config_.latent;
    const int64_t heads = config_.heads;
    if (latent.query_rank > 0) {
      Linear(name + "q_a_proj", latent.query_rank, config_.hidden);
      Vector(name + "q_a_norm.weight", latent.query_rank);
    }
    const int64_t inputs = latent.query_rank > 0 ? latent.query_rank : config_.hidden;
    Matrix(name + "q_plain_proj", heads * latent.plain, inputs);
    Matrix(name + "q_turned_proj", heads * latent.turned, inputs);
    Linear(name + "kv_a_proj", latent.rank, config_.hidden);
    Linear(name + "k_turned_proj", latent.turned, config_.hidden);
    Vector(name + "kv_a_norm.weight", latent.rank);
    Matrix(name + "k_b_proj", heads * latent.rank, latent.plain);
    Matrix(name + "v_b_proj", heads * latent.value, latent.rank);
    Linear(name + "o_proj", config_.hidden, heads * latent.value);
  }

  void StateSpace(const std::string& layer) {
    const StateSpaceConfig& state = config_.state_space;
    const std::string name = layer + "mixer.";
    Linear(name + "gate_proj", state.inner(), config_.hidden);
    Linear(name + "conv_proj", state.channels(), config_.hidden);
    Linear(name + "step_proj", state.heads, config_.hidden);
    Vector(name + "conv.weight", state.channels() * state.taps);
    if (table_.Find(name + "conv.bias") != nullptr) Vector(name + "conv.bias", state.channels());
    // GGUF has rates, other files the logarithms of what they are below 0.
    const bool has_logs = table_.Find(name + "rate_log.weight") != nullptr;
    Vector(name + (has_logs ? "rate_log.weight" : "rate.weight"), state.heads);
    if (state.delta) Linear(name + "beta_proj", state.heads, config_.hidden);
    if (!state.delta) Vector(name + "skip.weight", state.heads);
    Vector(name + "step.bias", state.heads);
    if (state.norm) Vector(name + "norm.weight", state.norm_size());
    Linear(name + "out_proj", config_.hidden, state.inner());
  }

  void FeedForward(const std::string& name, int64_t intermediate) {
    if (config_.gated) Linear(name + "gate_proj", intermediate, config_.hidden);
    Linear(name + "up_proj", intermediate, config_.hidden);
    Linear(name + "down_proj", config_.hidden, intermediate);
  }

  void Experts(const std::string& name) {
    const ExpertsConfig& e = config_.experts;
    Linear(name + "gate", e.count, config_.hidden);
    Linear(name + "experts.gate_proj", e.count * e.intermediate, config_.hidden);
    Linear(name + "experts.up_proj", e.count * e.intermediate, config_.hidden);
    Linear(name + "experts.down_proj", e.count * config_.hidden, e.intermediate);
    if (e.corrected) Vector(name + "gate_correction.bias", e.count);
    if (e.shared_intermediate == 0) return;
    FeedForward(name + "shared_expert.", e.shared_intermediate);
    if (e.shared_gated) Matrix(name + "shared_expert_gate", 1, config_.hidden);
  }

  void Norm(const std::string& name, int64_t size) {
    Vector(name + ".weight", size);
    if (config_.norm == DecoderConfig::Norm::kLayer) Vector(name + ".bias", size);
  }
  void Linear(const std::string& name, int64_t rows, int64_t columns) {
    Matrix(name, rows, columns);
    if (table_.Find(name + ".bias") != nullptr) Vector(name + ".bias", rows);
  }
  void Matrix(const std::string& name, int64_t rows, int64_t columns) {
    Shaped(name + ".weight", 2, rows, columns);
  }
  void Vector(const std::string& name, int64_t size) { Shaped(name, 1, 1, size); }

  void Shaped(const std::string& name, int rank, int64_t rows, int64_t columns) {
    const PlacedTensor* placed = table_.Find(name);
    PlacedTensor wanted;
    wanted.rank = rank;
    wanted.rows = rows;
    wanted.columns = columns;
    used_.insert(name);
    if (placed == nullptr) {
      problems_.Add(ErrorCode::kInvalidModel,
                    Quote(name) + " of " + wanted.ShapeText() + " is missing");
    } else if (placed->rank != rank || placed->rows != rows || placed->columns != columns) {
      problems_.Add(ErrorCode::kInvalidModel, Quote(name) + " should be of " + wanted.ShapeText() +
                                                  ", but is of " + placed->ShapeText());
    }
  }

  void Unused() {
    for (const auto& [name, placed] : table_.tensors()) {
      if (used_.contains(name)) continue;
      problems_.Add(
          ErrorCode::kUnsupported,
          Quote(name) + " has no place in a model of the family " + Quote(config_.family));
    }
  }

  const DecoderConfig& config_;
  const TensorTable& table_;
  std::set<std::string> used_;
  ProblemList problems_;
};

}  // namespace

void CheckTensors(const DecoderConfig& config, const TensorTable& table, std::string_view file) {
  TensorChecker checker(config, table);
  checker.All();
  checker.Throw(std::string(file) + ": the tensors do not make up the model");
}

}  // namespace oort
