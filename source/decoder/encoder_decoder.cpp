// SPDX-License-Identifier: MIT
#include "decoder/encoder_decoder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "cpu/activation.h"
#include "decoder/cut_weights.h"
#include "decoder/relative_position.h"
#include "decoder/table_writer.h"
#include "graph/passes/rewrite.h"
#include "oort/error.h"

namespace oort {
namespace {

/// Writes one of the graphs. `x` is (tokens, hidden) throughout; tokens are those of one text.
class StackWriter : TableWriter {
 public:
  StackWriter(const EncoderDecoderFiles& files, UsedTensors& used)
      : TableWriter(used), config_(files.config), names_(files.config.names) {}

  Graph WriteEncoder() {
    const int tokens = Input(DType::kI32, Unknown(1));
    int x =
        Embed(names_.encoder, tokens, config_.positions > 0 ? Input(DType::kI32, Unknown(1)) : -1);
    const int bias = config_.buckets > 0 ? Input(DType::kF32, Unknown(4)) : -1;
    for (int64_t i = 0; i < config_.encoder_layers; ++i) {
      const std::string layer = LayerName(names_.encoder, i);
      x = SelfAttention(layer, x, [&](const std::string& name, int in) {
        const int query = Heads(name + "query", Projected(name, names_.query, in));
        const std::vector<int> sides = KeysAndValues(name, in);
        return Attend(name, {query, sides[0], sides[1]}, bias, config_.attention_scale, Inner());
      });
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

  /// `bias`: of distances, for each head; undefined where there is none.
  Graph WriteDecoder(const Tensor& bias) {
    const int tokens = Input(DType::kI32, Unknown(1));
    const int positions = Input(DType::kI32, Unknown(1));
    const int wanted = Input(DType::kI32, Unknown(1));
    int x = Embed(names_.decoder, tokens, positions);
    for (int64_t i = 0; i < config_.decoder_layers; ++i) {
      const std::string layer = LayerName(names_.decoder, i);
      x = SelfAttention(layer, x, [&](const std::string& name, int in) {
        return AttendCached(name, i, in, bias);
      });
      x = CrossAttention(layer, i, x);
      x = FeedForward(layer + std::string(names_.decoder_feed), x, config_.decoder_intermediate);
    }
    Written select{"torch.index_select", "wanted"};
    select.Set("dim", Value(int64_t{0}));
    x = graph_.AddOne(std::move(select), {x, wanted});
    return Finish({Head(FinalNorm(names_.decoder, x))});
  }

 private:
  static Shape Unknown(int rank) {
    return Shape(std::vector<int64_t>(static_cast<size_t>(rank), Shape::kUnknown));
  }
  std::string LayerName(std::string_view stack, int64_t index) const {
    return Joined(stack, names_.layers) + std::to_string(index) + ".";
  }

  /// `positions` are not read by families that have none.
  int Embed(std::string_view stack, int tokens, int positions) {
    const StoredMatrix words =
        Matrix(std::string(names_.shared), config_.vocabulary, config_.hidden);
    int x = Lookup(Joined(stack, "tokens"), words, tokens, config_.embedding_scale);
    if (config_.positions > 0) {
      const std::string name = Joined(stack, names_.positions);
      const int64_t rows = config_.positions + EncoderDecoderConfig::kPositionOffset;
      const std::string offset = std::to_string(EncoderDecoderConfig::kPositionOffset);
      const int moved = Expression(name + ".moved", "add(@0," + offset + ")", {positions});
      const int places = Lookup(name, Matrix(name, rows, config_.hidden), moved, 1);
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

  /// `attend` gives what attention finds for the tokens, before the projection of its output.
  template <typename Attended>
  int SelfAttention(const std::string& layer, int x, const Attended& attend) {
    const std::string name = Joined(layer, names_.self_attention);
    return AddHalf(Joined(layer, names_.self_norm), x,
                   [&](int in, int sum) { return Output(name, attend(name, in), sum); });
  }

  int AttendCached(const std::string& name, int64_t layer, int in, const Tensor& bias) {
    Written attend{"oort.PagedAttention", name + "attention"};
    SetHeads(attend, layer).Set("kv_heads", Value(config_.heads));
    if (bias.defined()) attend.Attach("distance_bias", bias);
    return graph_.AddOne(std::move(attend),
                         {Projected(name, names_.query, in), Projected(name, names_.key, in),
                          Projected(name, names_.value, in)});
  }

  int CrossAttention(const std::string& layer, int64_t index, int x) {
    const std::string name = Joined(layer, names_.cross_attention);
    return AddHalf(Joined(layer, names_.cross_norm), x, [&](int in, int sum) {
      Written attend{"oort.TextAttention", name + "attention"};
      SetHeads(attend, index);
      return Output(name, graph_.AddOne(std::move(attend), {Projected(name, names_.query, in)}),
                    sum);
    });
  }

  Written& SetHeads(Written& attend, int64_t layer) const {
    return attend.Set("layer", Value(layer))
        .Set("heads", Value(config_.heads))
        .Set("head_dim", Value(config_.head_dim))
        .Set("scale", Value(static_cast<double>(config_.attention_scale)));
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

  int Projected(const std::string& name, std::string_view part, int in) {
    return Linear(Joined(name, part), {in}, Inner());
  }
  std::vector<int> KeysAndValues(const std::string& name, int in) {
    return {Heads(name + "key", Projected(name, names_.key, in)),
            Heads(name + "value", Projected(name, names_.value, in))};
  }
  int Output(const std::string& name, int attended, int sum) {
    return Linear(Joined(name, names_.output), {attended, sum}, config_.hidden, Inner());
  }

  int Heads(const std::string& name, int x) {
    return SplitHeads(name, x, config_.heads, config_.head_dim);
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

/// What a decoder adds to scores of tokens by how far behind the query they are.
Tensor DecoderBias(const EncoderDecoderFiles& files) {
  const EncoderDecoderConfig& config = files.config;
  const std::vector<float> biases = BucketBiases(files, config.names.decoder);
  if (biases.empty()) return {};
  // Beyond the largest distance all are in one bucket.
  const int64_t distances = std::min(config.max_distance, config.most_tokens()) + 1;
  Tensor table(DType::kF32, Shape{config.heads, distances});
  float* to = table.data<float>();
  for (int64_t head = 0; head < config.heads; ++head) {
    for (int64_t distance = 0; distance < distances; ++distance) {
      const int64_t bucket = RelativeBucket(-distance, false, config.buckets, config.max_distance);
      *to++ = biases[static_cast<size_t>(bucket * config.heads + head)];
    }
  }
  return table;
}

}  // namespace

std::vector<float> BucketBiases(const EncoderDecoderFiles& files, std::string_view stack) {
  if (files.config.buckets == 0) return {};
  const std::string name =
      std::string(stack) + std::string(files.config.names.relative) + ".weight";
  const PlacedTensor* placed = files.tensors.Find(name);
  if (placed == nullptr || placed->rank != 2 || placed->rows != files.config.buckets ||
      placed->columns != files.config.heads) {
    throw Error(ErrorCode::kInvalidModel,
                Quote(name) + " should have a bias for each bucket and head");
  }
  std::vector<float> biases(static_cast<size_t>(placed->rows * placed->columns));
  ReadRows(files.tensors.Matrix(name), 0, placed->rows, biases.data());
  return biases;
}

EncoderDecoderGraphs BuildEncoderDecoder(const EncoderDecoderFiles& files) {
  UsedTensors used(files.tensors);
  EncoderDecoderGraphs graphs;
  graphs.encoder = StackWriter(files, used).WriteEncoder();
  graphs.decoder = StackWriter(files, used).WriteDecoder(DecoderBias(files));
  for (const auto& [name, placed] : files.tensors.tensors()) {
    if (used.IsUsed(name) || IsKnownBesides(files.config.names, name)) continue;
    throw Error(ErrorCode::kUnsupported, Quote(name) + " has no place in a model of the family " +
                                             Quote(files.config.family));
  }
  return graphs;
}

void TakeTextHeads(Graph& encoder, const AxisRange& heads) {
  WeightCutter cutter;
  const auto maker = [&](const Operator& reader) -> Operator& {
    Operand& edge = encoder.operands[static_cast<size_t>(reader.inputs.at(0))];
    edge.has_shape = false;  // that of all heads
    return encoder.operators[static_cast<size_t>(edge.producer)];
  };
  for (const Operator& output : encoder.operators) {
    if (output.type != "pnnx.Output") continue;
    Operator& split = maker(maker(output));
    Operator& product = maker(split);
    std::vector<int64_t> shape = ParameterValue(split, "shape").AsInts();  // of SplitHeads
    const int64_t dim = shape.at(3);
    shape[2] = heads.size();
    split.params["shape"] = Parameter::FromValue(Value::Ints(shape));
    cutter.CutRows(product, "", AxisRange{heads.begin * dim, heads.end * dim});
    product.params["out_features"] =
        Parameter::FromValue(Value(Value::List{Value(heads.size() * dim)}));
  }
}

}  // namespace oort
