// SPDX-License-Identifier: MIT
#include "decoder/shard.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "decoder/cut_weights.h"
#include "decoder/shard_plan.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// Rows of a weight that kernels hold together; a cut elsewhere would pack a few in vain.
constexpr int64_t kRowUnit = 16;

/// Heads cannot be shared out: all ranks then compute attention whole.
struct HeadsStayWhole {};

/// What a rank has of an operand. kSplit: a range of the last axis. kHeads: the same of the last
/// two, as heads and their elements.
struct Placement {
  enum Kind : unsigned char { kWhole, kSplit, kHeads } kind = kWhole;
  AxisRanges ranges = {};  ///< in elements
  int64_t width = 0;       ///< of all ranks
  bool operator==(const Placement&) const = default;
};

std::string SuffixOf(size_t part) { return part == 0 ? "" : "_" + std::to_string(part); }

bool IsMultiple(const AxisRanges& ranges, int64_t unit) {
  return unit > 0 && std::ranges::all_of(ranges, [&](const AxisRange& range) {
           return range.begin % unit == 0 && range.end % unit == 0;
         });
}

class Sharder {
 public:
  Sharder(Graph& graph, const ShardOptions& options, bool split_heads)
      : graph_(graph), options_(options), split_heads_(split_heads) {}

  ShardReport Run() {
    const std::vector<int> order = graph_.TopologicalOrder();
    if (split_heads_) PlanHeads();
    for (const int index : order) Visit(index);
    for (const Operator& op : graph_.operators) {
      for (const auto& [name, tensor] : op.attributes) report_.weight_bytes += tensor.bytes();
    }
    return report_;
  }

 private:
  Operator& Op(int index) { return graph_.operators[static_cast<size_t>(index)]; }
  const Placement& PlaceOf(int operand) { return places_[operand]; }
  /// Whatever is cut is cut here, so here is counted how.
  AxisRange Mine(const AxisRanges& ranges) {
    for (const AxisRange& range : ranges) {
      for (const int64_t edge : {range.begin, range.end}) {
        report_.plan = (report_.plan ^ static_cast<uint64_t>(edge)) * 0x9E3779B97F4A7C15;
        report_.plan ^= report_.plan >> 32;
      }
    }
    return ranges[static_cast<size_t>(options_.rank)];
  }

  static int64_t IntOf(const Operator& op, const std::string& name) {
    const Value value = ParameterValue(op, name);
    return value.IsInt() ? value.AsInt() : 0;
  }
  static std::vector<int64_t> IntsOf(const Operator& op, const std::string& name) {
    const Value value = ParameterValue(op, name);
    if (value.IsInt()) return {value.AsInt()};
    const auto is_int = [](const Value& item) { return item.IsInt(); };
    if (!value.IsList() || !std::ranges::all_of(value.AsList(), is_int)) return {};
    return value.AsInts();
  }
  static void SetInt(Operator& op, const std::string& name, int64_t value) {
    op.params[name] = Parameter::FromValue(Value(value));
  }

  // Heads.

  void PlanHeads() {
    for (size_t i = 0; i < graph_.operators.size(); ++i) {
      const Operator& op = graph_.operators[i];
      if (op.type != "oort.PagedAttention") continue;
      const int64_t dim = IntOf(op, "head_dim");
      const std::optional<HeadRanges> cut = HeadsOf(op);
      const bool has_only_sinks = op.attributes.size() == op.attributes.count("sinks");
      if (!cut || op.inputs.size() < 3 || !has_only_sinks) throw HeadsStayWhole();
      Hint(op.inputs[0], Scaled(cut->queries, dim));
      Hint(op.inputs[1], Scaled(cut->keys, dim));
      Hint(op.inputs[2], Scaled(cut->keys, dim));
    }
  }

  std::optional<HeadRanges> HeadsOf(const Operator& attention) {
    HeadCut cut{.heads = IntOf(attention, "heads"),
                .kv_heads = IntOf(attention, "kv_heads"),
                .ranks = options_.ranks,
                .even_groups = options_.even_groups};
    const int64_t dim = std::max<int64_t>(1, IntOf(attention, "head_dim"));
    // The product behind it adds up what ranks have of its columns, if these are whole blocks.
    if (!options_.exact) cut.unit = ColumnsTogether(attention.outputs[0], dim) / dim;
    return CutHeads(cut);
  }

  /// The product from which attention gets an operand has to be cut by heads.
  void Hint(int operand, const AxisRanges& ranges) {
    while (true) {
      const int producer = graph_.operands[static_cast<size_t>(operand)].producer;
      if (producer < 0) throw HeadsStayWhole();
      const Operator& op = Op(producer);
      if (op.type == "oort.QuantizedLinear") {
        hints_[operand] = ranges;
        return;
      }
      if (op.type == "oort.Rotary") {
        operand = op.inputs[operand == op.outputs[0] ? 0 : 1];
      } else if (op.type == "Tensor.reshape" || op.type == "nn.RMSNorm" ||
                 op.type == "nn.LayerNorm" || ChangesRows(op)) {
        operand = op.inputs[0];
      } else {
        throw HeadsStayWhole();
      }
    }
  }

  // Exchanges.

  int AddExchange(const std::string& type, const std::string& name, std::vector<int> inputs,
                  int output, const Tensor& bias = {}) {
    Operator op;
    op.type = type;
    op.name = name;
    op.input_names.resize(inputs.size());
    op.inputs = std::move(inputs);
    op.outputs = {output};
    if (bias.defined()) op.attributes["bias"] = bias;
    if (type == "oort.AllReduce") {
      op.params["ranks"] = Parameter::FromValue(Value(int64_t{options_.ranks}));
    }
    ++report_.exchanges;
    return graph_.AddOperator(std::move(op));
  }

  void SetParts(int gather, const AxisRanges& ranges) {
    Value::List parts;
    for (const AxisRange& range : ranges) parts.emplace_back(range.size());
    Op(gather).params["parts"] = Parameter::FromValue(Value(parts));
  }

  /// The operand with the parts of all ranks.
  int Whole(int operand) {
    const Placement place = PlaceOf(operand);
    if (place.kind == Placement::kWhole) return operand;
    if (place.kind == Placement::kHeads || !IsPartition(place.ranges, place.width)) {
      throw HeadsStayWhole();
    }
    const auto known = gathered_.find(operand);
    if (known != gathered_.end()) return known->second;
    const Operand& edge = graph_.operands[static_cast<size_t>(operand)];
    const std::string name = Op(edge.producer).name + "." + edge.name + ".gather";
    const int all = graph_.AddOperand(name);
    const int gather = AddExchange("oort.AllGather", name, {operand}, all);
    SetParts(gather, place.ranges);
    gathered_[operand] = all;
    return all;
  }

  void GatherInputs(int index) {
    for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
      const int operand = Op(index).inputs[i], whole = Whole(operand);
      if (whole != operand) graph_.ReplaceInput(index, i, whole);
    }
  }

  /// The operator makes a new operand, from which an exchange is to make its output.
  int Detach(int index, const std::string& name) {
    const int raw = graph_.AddOperand(name);
    graph_.ReplaceOutput(index, 0, raw);
    return raw;
  }

  void Place(int operand, Placement place) {
    graph_.operands[static_cast<size_t>(operand)].has_shape = false;  // that of all ranks
    places_[operand] = std::move(place);
  }

  // Rules.

  void Visit(int index) {
    using Rule = void (Sharder::*)(int);
    static const std::map<std::string, Rule, std::less<>> kRules = {
        {"oort.QuantizedLinear", &Sharder::Linear},
        {"oort.QuantizedEmbedding", &Sharder::Embed},
        {"oort.PagedAttention", &Sharder::Attend},
        {"oort.ExpertMixture", &Sharder::Mix},
        {"oort.Rotary", &Sharder::Turn},
        {"oort.Argmax", &Sharder::Pick},
        {"oort.QuantizedArgmax", &Sharder::PickProduct},
        {"Tensor.reshape", &Sharder::Reshape},
        {"nn.RMSNorm", &Sharder::Norm},
        {"nn.LayerNorm", &Sharder::Norm},
        {"pnnx.Expression", &Sharder::Express},
    };
    const auto rule = kRules.find(Op(index).type);
    if (rule == kRules.end()) return GatherInputs(index);
    (this->*rule->second)(index);
  }

  struct LinearInputs {
    int input = -1, addend = -1;
  };
  LinearInputs InputsOf(const Operator& op) const {
    LinearInputs inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool named = i < op.input_names.size() && op.input_names[i] == "addend";
      (named || (i > 0 && inputs.input >= 0) ? inputs.addend : inputs.input) = op.inputs[i];
    }
    return inputs;
  }

  static bool HasActivation(const Operator& op) { return op.params.contains("activation"); }
  static bool IsGated(const Operator& op) {
    const Value gated = ParameterValue(op, "gated");
    return gated.IsBool() && gated.AsBool();
  }

  void Linear(int index) {
    const LinearInputs inputs = InputsOf(Op(index));
    if (!options_.exact && CanSum(Op(index), PlaceOf(inputs.input))) return Sum(index, inputs);
    GatherInputs(index);
    if (IsRouter(Op(index))) return;
    const std::optional<std::vector<AxisRanges>> cut = CutsOf(Op(index));
    const bool finishes = inputs.addend >= 0 && HasActivation(Op(index));
    if (!cut || finishes) {
      report_.whole.push_back(Op(index).name);
      return;
    }
    CutParts(index, *cut);
    if (inputs.addend < 0) return;
    // What is added is whole: it comes behind the exchange.
    const int addend = Whole(inputs.addend), whole = Op(index).outputs[0];
    const std::string name = Op(index).name;
    graph_.SetInputs(index, {Whole(inputs.input)});
    const int part = Detach(index, name + ".part");
    SetParts(AddExchange("oort.AllGather", name + ".gather", {part, addend}, whole), (*cut)[0]);
    Place(whole, {});
  }

  /// Whether it chooses experts: an exchange would take longer than its few rows.
  bool IsRouter(const Operator& op) {
    if (op.outputs.size() != 1) return false;
    const auto& readers = graph_.operands[static_cast<size_t>(op.outputs[0])].consumers;
    return std::ranges::any_of(readers, [&](int reader) {
      return Op(reader).type == "oort.ExpertMixture" && Op(reader).inputs[0] != op.outputs[0];
    });
  }

  /// Ranges of the rows of each weight; nothing where they are too few to share out.
  std::optional<std::vector<AxisRanges>> CutsOf(const Operator& op) {
    const std::vector<int64_t> rows = IntsOf(op, "out_features");
    std::vector<AxisRanges> cuts;
    for (size_t part = 0; part < rows.size(); ++part) {
      const size_t output = IsGated(op) ? 0 : part;
      if (output >= op.outputs.size()) return {};
      const auto hint = hints_.find(op.outputs[output]);
      const auto cut = hint != hints_.end()
                           ? std::optional(hint->second)
                           : CutEvenly(rows[part], UnitFor(op.outputs[output]), options_.ranks);
      if (!cut || cut->back().end != rows[part]) return {};
      cuts.push_back(*cut);
    }
    if (cuts.empty()) return {};
    return cuts;
  }

  /// Rows that stay together, so that a product behind it can be cut where they are.
  int64_t UnitFor(int operand) { return ColumnsTogether(operand, kRowUnit); }

  /// A multiple of `unit`.
  int64_t ColumnsTogether(int operand, int64_t unit) {
    for (const int reader : graph_.operands[static_cast<size_t>(operand)].consumers) {
      const Operator& op = Op(reader);
      if (op.type != "oort.QuantizedLinear") continue;
      const int64_t columns = IntOf(op, "in_features");
      const int64_t block = WeightCutter::ColumnUnit(op, "", columns);
      if (block > 0) unit = std::lcm(unit, block);
    }
    return unit;
  }

  void CutParts(int index, const std::vector<AxisRanges>& cuts) {
    Operator& op = Op(index);
    Value::List sizes;
    for (size_t part = 0; part < cuts.size(); ++part) {
      const AxisRange mine = Mine(cuts[part]);
      cutter_.CutRows(op, SuffixOf(part), mine);
      sizes.emplace_back(mine.size());
    }
    op.params["out_features"] = Parameter::FromValue(Value(sizes));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      Place(op.outputs[i], {Placement::kSplit, cuts[i], cuts[i].back().end});
    }
  }

  /// Whether each rank can multiply its columns, of which the sum is the product.
  bool CanSum(const Operator& op, const Placement& place) const {
    const int64_t columns = IntOf(op, "in_features");
    return place.kind == Placement::kSplit && IsPartition(place.ranges, columns) &&
           op.outputs.size() == 1 && IntsOf(op, "out_features").size() == 1 && !HasActivation(op) &&
           !IsGated(op) && !op.attributes.contains("norm") &&
           IsMultiple(place.ranges, WeightCutter::ColumnUnit(op, "", columns));
  }

  void Sum(int index, const LinearInputs& inputs) {
    const AxisRange mine = Mine(PlaceOf(inputs.input).ranges);
    const int addend = inputs.addend < 0 ? -1 : Whole(inputs.addend);
    Operator& op = Op(index);
    cutter_.CutColumns(op, "", IntOf(op, "in_features"), mine);
    SetInt(op, "in_features", mine.size());
    Tensor bias;
    if (const auto found = op.attributes.find("bias"); found != op.attributes.end()) {
      bias = found->second;
      op.attributes.erase(found);
    }
    const std::string name = op.name;
    graph_.SetInputs(index, {inputs.input});
    const int whole = Op(index).outputs[0], part = Detach(index, name + ".part");
    std::vector<int> read = {part};
    if (addend >= 0) read.push_back(addend);
    AddExchange("oort.AllReduce", name + ".sum", std::move(read), whole, bias);
    Place(whole, {});
  }

  /// Each rank has some of the experts. The sums of its own are added to those of the others; for
  /// the bits of one rank, what each expert gives is handed over instead, and then summed up.
  void Mix(int index) {
    GatherInputs(index);
    const int64_t experts = IntOf(Op(index), "experts");
    const auto cut = CutEvenly(experts, 1, options_.ranks);
    if (!cut || Op(index).inputs.size() < 2 || Op(index).params.contains("all_experts")) {
      report_.whole.push_back(Op(index).name);
      return;
    }
    CutExperts(Op(index), Mine(*cut), experts);
    const std::string name = Op(index).name;
    std::vector<int> read = Op(index).inputs;  // the input, the router, and perhaps an addend
    graph_.SetInputs(index, {read[0], read[1]});
    const int whole = Op(index).outputs[0];
    read[0] = Detach(index, name + ".part");
    if (!options_.exact) {
      read.erase(read.begin() + 1);
      AddExchange("oort.AllReduce", name + ".sum", std::move(read), whole);
    } else {
      Op(index).params["sum"] = Parameter::FromValue(Value(false));
      const int gather =
          AddExchange("oort.GatherExperts", name + ".gather", std::move(read), whole);
      SetParts(gather, *cut);
      for (const char* param :
           {"used", "normalized", "sigmoid", "factor", "groups", "groups_used", "scales_inputs"}) {
        const auto found = Op(index).params.find(param);
        if (found != Op(index).params.end()) Op(gather).params[param] = found->second;
      }
      const auto correction = Op(index).attributes.find("correction");
      if (correction != Op(index).attributes.end()) {
        Op(gather).attributes["correction"] = correction->second;
      }
    }
    Place(whole, {});
  }

  void CutExperts(Operator& op, const AxisRange& mine, int64_t experts) {
    for (size_t part = 0; part < 3; ++part) {
      const int64_t rows = IntOf(op, part == 2 ? "in_features" : "intermediate");
      cutter_.CutRows(op, SuffixOf(part), {mine.begin * rows, mine.end * rows});
    }
    SetInt(op, "experts", mine.size());
    SetInt(op, "first_expert", mine.begin);
    SetInt(op, "all_experts", experts);
  }

  /// Whether it is tokens, or what stands for those that a table does not have.
  bool IsOfTokens(int operand) {
    const int producer = graph_.operands[static_cast<size_t>(operand)].producer;
    if (producer < 0) return false;
    const Operator& op = Op(producer);
    if (op.type == "pnnx.Expression" && op.inputs.size() == 1) return IsOfTokens(op.inputs[0]);
    return op.name == "pnnx_input_0";
  }

  /// Of the table of tokens a rank has the rows of its part of the vocabulary.
  void Embed(int index) {
    GatherInputs(index);
    Operator& op = Op(index);
    const int64_t rows = IntOf(op, "num_embeddings");
    const auto cut = CutEvenly(rows, kRowUnit, options_.ranks);
    if (!IsOfTokens(op.inputs[0]) || !cut) {
      report_.whole.push_back(op.name);
      return;
    }
    const AxisRange mine = Mine(*cut);
    cutter_.CutRows(op, "", mine);
    SetInt(op, "num_embeddings", mine.size());
    SetInt(op, "first_row", mine.begin);
    SetInt(op, "all_rows", rows);
    const std::string name = op.name;
    const int whole = op.outputs[0], part = Detach(index, name + ".part");
    AddExchange("oort.AllReduce", name + ".sum", {part}, whole);
  }

  void Turn(int index) {
    const Operator& op = Op(index);
    const Placement query = PlaceOf(op.inputs[0]), key = PlaceOf(op.inputs[1]);
    const int64_t dim = IntOf(op, "head_dim");
    const bool split = query.kind == Placement::kSplit && key.kind == Placement::kSplit &&
                       IsMultiple(query.ranges, dim) && IsMultiple(key.ranges, dim);
    if (!split) return GatherInputs(index);
    Place(op.outputs[0], query);
    Place(op.outputs[1], key);
  }

  void Attend(int index) {
    report_.kv_heads = IntOf(Op(index), "kv_heads");
    if (!split_heads_) return GatherInputs(index);
    Operator& op = Op(index);
    const int64_t dim = IntOf(op, "head_dim"), heads = IntOf(op, "heads");
    const std::optional<HeadRanges> cut = HeadsOf(op);
    const Placement query{Placement::kSplit, Scaled(cut->queries, dim), heads * dim};
    const AxisRanges keys = Scaled(cut->keys, dim);
    const bool planned = PlaceOf(op.inputs[0]) == query && PlaceOf(op.inputs[1]).ranges == keys &&
                         PlaceOf(op.inputs[2]).ranges == keys;
    if (!planned || op.inputs.size() != 3) throw HeadsStayWhole();
    const AxisRange mine = Mine(cut->queries);
    const int64_t group = heads / report_.kv_heads;
    const bool has_whole_groups = mine.begin % group == 0 && mine.end % group == 0;
    if (!has_whole_groups && !options_.even_groups) {
      SetInt(op, "group", group);
      SetInt(op, "first_query", mine.begin % group);
    }
    report_.kv_heads = Mine(cut->keys).size();
    SetInt(op, "heads", mine.size());
    SetInt(op, "kv_heads", report_.kv_heads);
    cutter_.CutSinks(op, mine);
    Place(op.outputs[0], query);
  }

  /// Between (tokens, width) and (tokens, heads, elements), around a norm of heads.
  void Reshape(int index) {
    Operator& op = Op(index);
    std::vector<int64_t> shape = IntsOf(op, "shape");
    const Placement place = PlaceOf(op.inputs[0]);
    const bool to_heads = place.kind == Placement::kSplit && shape.size() == 3 && shape[0] == -1 &&
                          shape[1] * shape[2] > 0 && IsMultiple(place.ranges, shape[2]) &&
                          FeedsNorms(op.outputs[0]);
    const bool from_heads = place.kind == Placement::kHeads && shape.size() == 2 && shape[0] == -1;
    if (!to_heads && !from_heads) return GatherInputs(index);
    shape[1] = to_heads ? Mine(place.ranges).size() / shape[2] : Mine(place.ranges).size();
    op.params["shape"] = Parameter::FromValue(Value::Ints(shape));
    Place(op.outputs[0],
          {to_heads ? Placement::kHeads : Placement::kSplit, place.ranges, place.width});
  }

  /// Who else reads heads wants those of all ranks.
  bool FeedsNorms(int operand) {
    return std::ranges::all_of(
        graph_.operands[static_cast<size_t>(operand)].consumers, [&](int reader) {
          return Op(reader).type == "nn.RMSNorm" || Op(reader).type == "nn.LayerNorm";
        });
  }

  void Norm(int index) {
    const Placement place = PlaceOf(Op(index).inputs[0]);
    if (place.kind != Placement::kHeads) return GatherInputs(index);
    Place(Op(index).outputs[0], place);
  }

  /// Whether it is (rows, 1), which goes with each rank's part of the rows.
  bool IsColumn(int operand) {
    const int producer = graph_.operands[static_cast<size_t>(operand)].producer;
    if (producer < 0 || Op(producer).type != "Tensor.reshape") return false;
    const std::vector<int64_t> shape = IntsOf(Op(producer), "shape");
    return shape.size() == 2 && shape[1] == 1 && PlaceOf(operand).kind == Placement::kWhole;
  }

  static bool ReadsShapes(const Operator& op) {
    return ParameterText(op, "expr").find("size") != std::string::npos;
  }

  /// Whether it changes each row of its first input by numbers for the whole row, as queries that
  /// grow with their position are: it goes with each rank's part of the rows.
  bool ChangesRows(const Operator& op) {
    return op.type == "pnnx.Expression" && !op.inputs.empty() && !ReadsShapes(op) &&
           std::all_of(op.inputs.begin() + 1, op.inputs.end(),
                       [&](int operand) { return IsColumn(operand); });
  }

  /// Element by element, so each rank can do its part.
  void Express(int index) {
    const Operator& op = Op(index);
    const Placement place = op.inputs.empty() ? Placement() : PlaceOf(op.inputs[0]);
    const bool alike = std::ranges::all_of(
        op.inputs, [&](int operand) { return PlaceOf(operand) == place || IsColumn(operand); });
    if (place.kind != Placement::kSplit || !alike || ReadsShapes(op)) return GatherInputs(index);
    Place(op.outputs[0], place);
  }

  void Pick(int index) {
    const Placement place = PlaceOf(Op(index).inputs[0]);
    if (place.kind != Placement::kSplit || !IsPartition(place.ranges, place.width)) {
      return GatherInputs(index);
    }
    Operator& op = Op(index);
    op.type = "oort.RankArgmax";
    SetInt(op, "first", Mine(place.ranges).begin);
    ++report_.exchanges;
  }

  /// The best of its rows and its product, of which the best of all ranks is the answer.
  void PickProduct(int index) {
    GatherInputs(index);
    const int64_t rows = IntOf(Op(index), "out_features");
    const auto cut = CutEvenly(rows, kRowUnit, options_.ranks);
    if (!cut || Op(index).outputs.size() != 1) {
      report_.whole.push_back(Op(index).name);
      return;
    }
    const AxisRange mine = Mine(*cut);
    cutter_.CutRows(Op(index), "", mine);
    SetInt(Op(index), "out_features", mine.size());
    const std::string name = Op(index).name;
    const int token = Op(index).outputs[0];
    const int found = Detach(index, name + ".part"), product = graph_.AddOperand(name + ".product");
    graph_.SetOutputs(index, {found, product});
    const int pick = AddExchange("oort.RankArgmax", name + ".pick", {product, found}, token);
    SetInt(Op(pick), "first", mine.begin);
  }

  Graph& graph_;
  const ShardOptions options_;
  const bool split_heads_;
  WeightCutter cutter_;
  std::map<int, Placement> places_;  // of operands that are not whole
  std::map<int, AxisRanges> hints_;  // of operands that attention wants by heads
  std::map<int, int> gathered_;      // operands, by those that they are the parts of
  ShardReport report_;
};

}  // namespace

ShardReport Shard(Graph& graph, const ShardOptions& options) {
  Graph sharded = graph;
  try {
    const ShardReport report = Sharder(sharded, options, true).Run();
    graph = std::move(sharded);
    return report;
  } catch (const HeadsStayWhole&) {
    sharded = graph;
  }
  const ShardReport report = Sharder(sharded, options, false).Run();
  graph = std::move(sharded);
  return report;
}

}  // namespace oort
