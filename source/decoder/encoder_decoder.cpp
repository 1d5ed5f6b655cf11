// SPDX-License-Identifier: MIT
#include "decoder/encoder_decoder.h"

#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "cpu/activation.h"
#include "decoder/table_writer.h"
#include "oort/error.h"

namespace oort {
namespace {

/// Writes one of the graphs. `x` is (tokens, hidden) throughout; tokens are those of one text.
class StackWriter : TableWriter {
 public:
  StackWriter(const EncoderDecoderFiles& files, UsedTensors& used)
      : TableWriter(used), config_(files.config), names_(files.config.names) {}

  Graph WriteEncoder() {
    int x = Embed(names_.encoder);
    const int bias = config_.buckets > 0 ? Input(DType::kF32, Unknown(4)) : -1;
    for (int64_t i = 0; i < config_.encoder_layers; ++i) {
      const std::string layer = LayerName(names_.encoder, i);
      x = SelfAttention(layer, x, bias, nullptr);
      x = FeedForward(layer + std::string(names_.encoder_feed), x, config_.encoder_intermediate);
    }
    x = FinalNorm(names_.encoder, x);
    std::vector<int> outputs;
    for (int64_t i = 0; i < config_.decoder_layers; ++i) {
      const std::string name = Joined(LayerName(names_.decoder, i), names_.cross_attention);
      for (const int side : KeysAndValues(name, x)) outputs.push_back(side);
    }
    return Finish(outputs);
  }

  Graph WriteDecoder() {
    int x = Embed(names_.decoder);
    const int mask = Input(DType::kF32, Unknown(4));
    std::vector<std::pair<int, int>> cached, heard;
    for (auto* sides : {&cached, &heard}) {
      for (int64_t i = 0; i < config_.decoder_layers; ++i) {
        const int keys = Input(DType::kF32, Unknown(4));
        sides->emplace_back(keys, Input(DType::kF32, Unknown(4)));
      }
    }
    std::vector<int> outputs = {-1};
    for (int64_t i = 0; i < config_.decoder_layers; ++i) {
      const auto index = static_cast<size_t>(i);
      const std::string layer = LayerName(names_.decoder, i);
      std::pair<int, int> sides = cached[index];
      x = SelfAttention(layer, x, mask, &sides);
      outputs.push_back(sides.first);
      outputs.push_back(sides.second);
      x = CrossAttention(layer, x, heard[index]);
      x = FeedForward(layer + std::string(names_.decoder_feed), x, config_.decoder_intermediate);
    }
    outputs[0] = Head(FinalNorm(names_.decoder, x));
    return Finish(outputs);
  }

 private:
  static Shape Unknown(int rank) {
    return Shape(std::vector<int64_t>(static_cast<size_t>(rank), Shape::kUnknown));
  }
  std::string LayerName(std::string_view stack, int64_t index) const {
    return Joined(stack, names_.layers) + std::to_string(index) + ".";
  }

  int Embed(std::string_view stack) {
    const int tokens = Input(DType::kI32, Unknown(1));
    const StoredMatrix words =
        Matrix(std::string(names_.shared), config_.vocabulary, config_.hidden);
    int x = Lookup(Joined(stack, "tokens"), words, tokens, config_.embedding_scale);
    if (config_.positions > 0) {
      const std::string name = Joined(stack, names_.positions);
      const int64_t rows = config_.positions + EncoderDecoderConfig::kPositionOffset;
      const int places =
          Lookup(name, Matrix(name, rows, config_.hidden), Input(DType::kI32, Unknown(1)), 1);
      x = Expression(name, "add(@0,@1)", {x, places});
    }
    return names_.first_norm.empty() ? x : Norm(Joined(stack, names_.first_norm), x);
  }

  int Lookup(const std::string& name, const StoredMatrix& matrix, int places, float scale) {
    Written table{"oort.QuantizedEmbedding", name};
    table.AttachWeight(matrix)
        .Set("num_embeddings", Value(matrix.rows))
        .Set("embedding_dim", Value(matrix.columns));
    if (scale != 1) table.Set("factor", Value(static_cast<double>(scale)));
    return graph_.AddOne(std::move(table), {places});
  }

  /// x and what a half adds to it, with the norm where the family has it.
  template <typename Half>
  int AddHalf(const std::string& norm, int x, Half half) {
    return config_.post_norms ? Norm(norm, half(x, x)) : half(Norm(norm, x), x);
  }

  /// `sides`: keys and values so far, which become those of these tokens.
  int SelfAttention(const std::string& layer, int x, int mask, std::pair<int, int>* sides) {
    const std::string name = Joined(layer, names_.self_attention);
    return AddHalf(Joined(layer, names_.self_norm), x, [&](int in, int sum) {
      const int query = Heads(name + "query", Linear(Joined(name, names_.query), {in}, Inner()));
      const std::vector<int> own = KeysAndValues(name, in);
      int keys = own[0], values = own[1];
      if (sides != nullptr) {
        keys = Behind(name + "keys", sides->first, own[0]);
        values = Behind(name + "values", sides->second, own[1]);
        *sides = {own[0], own[1]};
      }
      return Output(name, Attend(name, query, keys, values, mask), sum);
    });
  }

  int CrossAttention(const std::string& layer, int x, const std::pair<int, int>& heard) {
    const std::string name = Joined(layer, names_.cross_attention);
    return AddHalf(Joined(layer, names_.cross_norm), x, [&](int in, int sum) {
      const int query = Heads(name + "query", Linear(Joined(name, names_.query), {in}, Inner()));
      return Output(name, Attend(name, query, heard.first, heard.second, -1), sum);
    });
  }

  int FeedForward(const std::string& name, int x, int64_t intermediate) {
    return AddHalf(Joined(name, names_.feed_norm), x, [&](int in, int sum) {
      std::vector<std::string> parts = {Joined(name, names_.up)};
      if (config_.gated) parts = {Joined(name, names_.gate), Joined(name, names_.gated_up)};
      Written up = LinearOf(parts, intermediate, config_.hidden);
      up.Set("activation", Value(std::string(Name(config_.activation))))
          .Set("gated", Value(config_.gated));
      const int hidden = graph_.AddOne(std::move(up), {in});
      return Linear(Joined(name, names_.down), {hidden, sum}, config_.hidden, intermediate);
    });
  }

  int64_t Inner() const { return config_.heads * config_.head_dim; }

  std::vector<int> KeysAndValues(const std::string& name, int in) {
    const int keys = Linear(Joined(name, names_.key), {in}, Inner());
    const int values = Linear(Joined(name, names_.value), {in}, Inner());
    return {Heads(name + "key", keys), Heads(name + "value", values)};
  }
  int Output(const std::string& name, int attended, int sum) {
    return Linear(Joined(name, names_.output), {attended, sum}, config_.hidden, Inner());
  }

  int Heads(const std::string& name, int x) {
    return SplitHeads(name, x, config_.heads, config_.head_dim);
  }
  int Attend(const std::string& name, int query, int keys, int values, int mask) {
    return TableWriter::Attend(name, {query, keys, values}, mask, config_.attention_scale, Inner());
  }
  int Behind(const std::string& name, int before, int now) {
    Written join{"torch.cat", name};
    join.Set("dim", Value(int64_t{2}));
    return graph_.AddOne(std::move(join), {before, now});
  }

  int FinalNorm(std::string_view stack, int x) {
    return names_.final_norm.empty() ? x : Norm(Joined(stack, names_.final_norm), x);
  }

  int Head(int x) {
    if (config_.logit_scale != 1) {
      const std::string factor = Value(static_cast<double>(config_.logit_scale)).ToString();
      x = Expression("scaled", "mul(@0," + factor + ")", {x});
    }
    const bool own = Has("lm_head.weight");
    const std::string name = own ? "lm_head" : std::string(names_.shared);
    const StoredMatrix matrix = Matrix(name, config_.vocabulary, config_.hidden);
    Written head{"oort.QuantizedLinear", "logits"};
    head.AttachWeight(matrix)
        .Set("in_features", Value(matrix.columns))
        .Set("out_features", Value(Value::List{Value(matrix.rows)}));
    if (Has("final_logits_bias")) head.Attach("bias", LogitsBias());
    return graph_.AddOne(std::move(head), {x});
  }

  /// BART stores it as a matrix of one row.
  Tensor LogitsBias() {
    used_.Mark("final_logits_bias");
    TensorTable row;
    PlacedTensor placed = *used_.table().Find("final_logits_bias");
    if (placed.rows != 1 || placed.columns != config_.vocabulary) {
      UsedTensors::Refuse("final_logits_bias", placed, 1, config_.vocabulary);
    }
    placed.rank = 1;
    row.Add("bias", placed);
    return row.Vector("bias");
  }

  using TableWriter::Linear;
  int Linear(const std::string& name, const std::vector<int>& inputs, int64_t rows) {
    return TableWriter::Linear(name, inputs, rows, config_.hidden);
  }

  int Norm(const std::string& name, int x) {
    return TableWriter::Norm(name, x, config_.hidden, config_.epsilon, config_.rms_norms);
  }

  const EncoderDecoderConfig& config_;
  const EncoderDecoderNames& names_;
};

/// What a file has beside the weights of the graphs: the embeddings once more, and the tables of
/// distances, which who runs the graphs reads.
bool IsKnownBesides(const EncoderDecoderNames& names, const std::string& name) {
  for (const std::string_view stack : {names.encoder, names.decoder}) {
    if (name == std::string(stack) + "embed_tokens.weight") return true;
    if (names.relative.empty()) continue;
    if (name == std::string(stack) + std::string(names.relative) + ".weight") return true;
  }
  return false;
}

}  // namespace

EncoderDecoderGraphs BuildEncoderDecoder(const EncoderDecoderFiles& files) {
  UsedTensors used(files.tensors);
  EncoderDecoderGraphs graphs;
  graphs.encoder = StackWriter(files, used).WriteEncoder();
  graphs.decoder = StackWriter(files, used).WriteDecoder();
  for (const auto& [name, placed] : files.tensors.tensors()) {
    if (used.IsUsed(name) || IsKnownBesides(files.config.names, name)) continue;
    throw Error(ErrorCode::kUnsupported, Quote(name) + " has no place in a model of the family " +
                                             Quote(files.config.family));
  }
  return graphs;
}

}  // namespace oort
