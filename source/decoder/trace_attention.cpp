// SPDX-License-Identifier: MIT
// Rotary embeddings and attention of a trace, spelled out or not.
#include <cmath>

#include "decoder/trace_reader.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// What masks hide (at most -1e4) is still hidden after a product with this.
constexpr double kLeastMaskedScale = 0.01;

/// Operands of add(mul(a, b), mul(c, d)), or nothing.
std::optional<std::array<int, 4>> SumOfProducts(const Formula& formula) {
  if (!formula.IsCall("add", 2)) return {};
  std::array<int, 4> operands{};
  for (size_t i = 0; i < 2; ++i) {
    const Formula& product = formula.args[i];
    if (!product.IsCall("mul", 2)) return {};
    for (size_t j = 0; j < 2; ++j) {
      operands[2 * i + j] = product.args[j].operand();
      if (operands[2 * i + j] < 0) return {};
    }
  }
  return operands;
}

}  // namespace

/// x * cos + swapped(x) * sin, for any order of sums and factors.
bool TraceReader::Rotate(const Formula& formula) {
  const auto operands = SumOfProducts(formula);
  if (!operands) return false;
  for (const unsigned order : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    const auto at = [&](unsigned product, unsigned factor) {
      const unsigned flipped = (order >> product) & 1U;
      return static_cast<size_t>((*operands)[2 * (product ^ (order >> 2)) + (factor ^ flipped)]);
    };
    const TracedValue &x = In(at(0, 0)), &swapped = In(at(1, 0));
    if (x.kind != Kind::kTokens || x.operand < 0 || x.repeat != 1 || x.rotary >= 0) continue;
    if (swapped.kind != Kind::kTokens || swapped.swapped.source != x.operand) continue;
    if (swapped.shape != x.shape || swapped.axis != x.axis) continue;
    if (x.axis + 1 == x.shape.rank() || swapped.swapped.dim != x.last()) continue;
    const auto table =
        TableOf(op_->inputs[at(0, 1)], op_->inputs[at(1, 1)], x, swapped.swapped.interleaved);
    if (!table) continue;
    TracedValue out = x;
    out.rotary = *table;
    out.turn_dim = x.last();
    out.swapped = {};
    SetOutput(out, x.axis);
    return true;
  }
  return false;
}

/// The rotary table of two constants with a row for each position, for heads like those of x.
std::optional<int> TraceReader::TableOf(int cosines, int sines, const TracedValue& x,
                                        bool interleaved) {
  const TracedValue &cosine = values_[static_cast<size_t>(cosines)],
                    &sine = values_[static_cast<size_t>(sines)];
  const int rank = x.shape.rank();
  for (const TracedValue* table : {&cosine, &sine}) {
    if (table->kind != Kind::kConstant || table->shape.rank() > rank) return {};
    // The tokens must stand where those of x do, and all heads be turned alike.
    const int missing = rank - table->shape.rank();
    for (int i = 0; i < rank; ++i) {
      const int64_t expected = i == x.axis ? tokens_ : i == rank - 1 ? x.last() : 1;
      if ((i < missing ? 1 : table->shape[i - missing]) != expected) return {};
    }
  }
  const auto [known, is_new] = known_tables_.try_emplace({cosines, sines});
  if (!is_new) {
    const auto index = known->second;
    const bool fits =
        index && tables_[static_cast<size_t>(*index)].rotary.interleaved == interleaved;
    return fits ? index : std::nullopt;
  }
  const auto rotary = RecoverRotary(cosine.constant, sine.constant, tokens_, interleaved);
  if (!rotary) return {};
  known->second = static_cast<int>(tables_.size());
  tables_.push_back({*rotary});
  return known->second;
}

int TraceReader::Angles(int table) {
  Table& entry = tables_[static_cast<size_t>(table)];
  if (entry.angles >= 0) return entry.angles;
  const std::vector<float>& frequencies = entry.rotary.frequencies;
  Written angles{"oort.RotaryAngles", "rotary." + std::to_string(table)};
  angles
      .Attach("frequencies", Tensor::From(std::span<const float>(frequencies),
                                          Shape{static_cast<int64_t>(frequencies.size())}))
      .Set("magnitude", Value(entry.rotary.magnitude));
  entry.angles = writer_.AddOne(std::move(angles), {positions_});
  return entry.angles;
}

void TraceReader::MatMul() {
  if (op_->inputs.size() != 2) Refuse("two inputs were expected");
  const TracedValue &a = In(size_t{0}), &b = In(1);
  if (a.kind == Kind::kConstant || b.kind == Kind::kConstant) return MultiplyConstant();
  if (a.kind == Kind::kWeights) return Attend(*a.scores, b, false);
  const int rank = a.shape.rank();
  // (heads, tokens, head_dim) times (heads, head_dim, tokens).
  if (a.kind != Kind::kTokens || b.kind != Kind::kTokens || rank < 2 || b.shape.rank() != rank ||
      a.axis != rank - 2 || b.axis != rank - 1 || b.shape[rank - 2] != a.last()) {
    Refuse("it is no product of queries with keys, nor of weights with values");
  }
  auto scores = std::make_shared<TracedScores>();
  scores->query = a;
  scores->key = b;
  // From here on as if keys had not been transposed.
  scores->key.shape[rank - 2] = tokens_;
  scores->key.shape[rank - 1] = a.last();
  scores->key.axis = rank - 2;
  TracedValue out;
  out.kind = Kind::kScores;
  out.scores = std::move(scores);
  SetOutput(out, rank - 2);
}

void TraceReader::Softmax() {
  const TracedValue& x = TokenInput();
  if (x.kind != Kind::kScores || AxisParameter("dim", x.shape.rank()) != x.shape.rank() - 1) {
    Refuse("it is no softmax over the scores of an attention");
  }
  if (!x.scores->window) {
    Refuse("no mask hides later tokens from it: this is an encoder and no causal decoder");
  }
  TracedValue out = x;
  out.kind = Kind::kWeights;
  SetOutput(out, x.axis);
}

void TraceReader::Score(const Formula& formula) {
  TracedValue out;
  out.kind = Kind::kScores;
  out.scores = std::make_shared<TracedScores>(ScoreOf(formula));
  SetOutput(out, ShapeOf(op_->outputs[0]).rank() - 2);
}

std::optional<double> TraceReader::NumberOf(const Formula& formula) {
  if (formula.operand() < 0) return formula.number();
  const TracedValue& x = In(static_cast<size_t>(formula.operand()));
  if (x.kind != Kind::kConstant || x.constant.elements() != 1) return {};
  return Value(x.constant).AsFloat();
}

const Tensor* TraceReader::MaskOf(const Formula& formula) {
  if (formula.operand() < 0) return nullptr;
  const TracedValue& x = In(static_cast<size_t>(formula.operand()));
  return x.kind == Kind::kConstant ? &x.constant : nullptr;
}

TracedScores TraceReader::ScoreOf(const Formula& formula) {
  if (formula.operand() >= 0) {
    const TracedValue& x = In(static_cast<size_t>(formula.operand()));
    if (x.kind == Kind::kScores) return *x.scores;
  }
  const auto is_call = [&](const char* name, size_t count) { return formula.IsCall(name, count); };
  TracedScores scores;
  if (is_call("tanh", 1)) {
    scores = ScoreOf(formula.args[0]);
    if (!scores.capped && !scores.window) {
      scores.capped = true;
      return scores;
    }
  } else if (is_call("mul", 2) || is_call("div", 2)) {
    const bool first = is_call("mul", 2) && NumberOf(formula.args[0]).has_value();
    const auto factor = NumberOf(formula.args[first ? 0 : 1]);
    scores = ScoreOf(formula.args[first ? 1 : 0]);
    // What a mask hides stays hidden after a division by some sqrt(head_dim).
    const double by = !factor ? 0 : formula.name == "mul" ? *factor : 1 / *factor;
    if (factor && std::isfinite(by) && (!scores.window || by >= kLeastMaskedScale)) {
      (scores.capped ? scores.outer : scores.inner) *= by;
      return scores;
    }
  } else if (is_call("add", 2)) {
    const bool first = MaskOf(formula.args[0]) != nullptr;
    const Tensor* mask = MaskOf(formula.args[first ? 0 : 1]);
    scores = ScoreOf(formula.args[first ? 1 : 0]);
    if (mask != nullptr && !scores.window) {
      scores.window = WindowOf(*mask);
      return scores;
    }
  }
  Refuse("it does something else with the scores of an attention than to scale, cap and mask them");
}

int64_t TraceReader::WindowOf(const Tensor& mask) {
  try {
    return CausalWindow(mask, tokens_);
  } catch (const Error& error) {
    Refuse(error.what());
  }
}

void TraceReader::AttendFused() {
  TracedScores scores;
  scores.query = In("query", 0);
  scores.key = In("key", 1);
  const TracedValue& mask = In("attn_mask", 3);
  const Value scale = ParameterValue(*op_, "scale"), dropout = ParameterValue(*op_, "dropout_p");
  if (dropout.IsNumber() && dropout.AsFloat() != 0) Refuse("dropout_p is not 0");
  if (scores.query.kind != Kind::kTokens || scores.query.shape.rank() < 2) Plain(scores.query);
  const double head_dim = static_cast<double>(scores.query.last());
  scores.inner = scale.IsNumber() ? scale.AsFloat() : 1 / std::sqrt(head_dim);
  const Value causal = ParameterValue(*op_, "is_causal");
  if (mask.kind == Kind::kConstant) {
    scores.window = WindowOf(mask.constant);
  } else if (mask.kind != Kind::kAbsent) {
    Refuse("its mask is computed from the tokens");
  } else if (causal.IsBool() && causal.AsBool()) {
    scores.window = 0;
  } else {
    Refuse("no mask hides later tokens from it: this is an encoder and no causal decoder");
  }
  const Value grouped = ParameterValue(*op_, "enable_gqa");
  Attend(scores, In("value", 2), grouped.IsBool() && grouped.AsBool());
}

int64_t TraceReader::HeadsOf(const TracedValue& x, int64_t head_dim) {
  const int rank = x.shape.rank();
  if (x.kind != Kind::kTokens || x.operand < 0) Refuse("its inputs do not belong to the tokens");
  if (rank < 2 || x.axis != rank - 2 || x.last() != head_dim || head_dim < 1) {
    Refuse("heads (heads,T," + std::to_string(head_dim) + ") were expected, got " +
           x.shape.ToString());
  }
  if (x.rotary >= 0 && x.turn_dim != head_dim) Refuse("it turns something else than heads");
  return x.width() / head_dim;
}

void TraceReader::Attend(const TracedScores& scores, const TracedValue& value, bool grouped) {
  const TracedValue &query = scores.query, &key = scores.key;
  const int64_t head_dim = query.shape.rank() > 0 ? query.last() : 0;
  const int64_t heads = HeadsOf(query, head_dim), kv_heads = HeadsOf(key, head_dim);
  const int64_t repeat = grouped && kv_heads > 0 ? heads / kv_heads : 1;
  if (HeadsOf(value, head_dim) != kv_heads || query.repeat != 1 || value.repeat != key.repeat ||
      kv_heads * repeat * key.repeat != heads) {
    Refuse("the heads of its queries, keys and values do not fit");
  }
  if (query.rotary != key.rotary || value.rotary >= 0) {
    Refuse("queries and keys are not turned alike, or values are turned");
  }
  if (decoder_.layers > 0 && (decoder_.kv_heads != kv_heads || decoder_.head_dim != head_dim)) {
    Refuse("its keys have other heads than those of the layers before");
  }
  std::vector<int> inputs = {query.operand, key.operand};
  if (query.rotary >= 0) {
    Written turn{"oort.Rotary", op_->name + ".rotary"};
    turn.Set("head_dim", Value(head_dim))
        .Set("interleaved", Value(tables_[static_cast<size_t>(query.rotary)].rotary.interleaved));
    const int angles = Angles(query.rotary);
    inputs = writer_.Add(std::move(turn), {query.operand, key.operand, angles}, 2);
  }
  inputs.push_back(value.operand);
  Written attend{"oort.PagedAttention", op_->name};
  attend.Set("layer", Value(decoder_.layers))
      .Set("heads", Value(heads))
      .Set("kv_heads", Value(kv_heads))
      .Set("head_dim", Value(head_dim))
      .Set("scale", Value(scores.capped ? scores.inner * scores.outer : scores.inner))
      .Set("softcap", Value(scores.capped ? scores.outer : 0.0))
      .Set("window", Value(*scores.window));
  ++decoder_.layers;
  decoder_.heads = heads;
  decoder_.kv_heads = kv_heads;
  decoder_.head_dim = head_dim;
  decoder_.has_window = decoder_.has_window || *scores.window > 0;
  SetResult(writer_.AddOne(std::move(attend), inputs), query.axis);
}

}  // namespace oort
