// SPDX-License-Identifier: MIT
#include "decoder/shard.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "decoder/cut_weights.h"
#include "decoder/decoder_graph.h"
#include "decoder/rank_graph.h"
#include "decoder/scan_cut.h"
#include "decoder/shard_plan.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// Rows of a weight that kernels hold together; a cut elsewhere would pack a few in vain.
constexpr int64_t kRowUnit = 16;

/// What is tried to share out.
struct SharedHeads {
  bool attention = true, scans = true;
};

std::string SuffixOf(size_t part) { return part == 0 ? "" : "_" + std::to_string(part); }

bool IsMultiple(const AxisRanges& ranges, int64_t unit) {
  return unit > 0 && std::ranges::all_of(ranges, [&](const AxisRange& range) {
           return range.begin % unit == 0 && range.end % unit == 0;
         });
}

class Sharder : private RankGraph {
 public:
  Sharder(Graph& graph, const ShardOptions& options, SharedHeads shared)
      : RankGraph(graph, options), shared_(shared) {}

  ShardReport Run() {
    const std::vector<int> order = graph_.TopologicalOrder();
    if (shared_.attention) PlanHeads();
    if (shared_.scans) PlanScans();
    for (const int index : order) Visit(index);
    for (const Operator& op : graph_.operators) {
      for (const auto& [name, tensor] : op.attributes) report_.weight_bytes += tensor.bytes();
    }
    return report_;
  }

 private:
  // Heads.

  void PlanHeads() {
    for (size_t i = 0; i < graph_.operators.size(); ++i) {
      const Operator& op = graph_.operators[i];
      const bool of_text = op.type == "oort.TextAttention";
      if (op.type != "oort.PagedAttention" && !of_text) continue;
      const int64_t dim = IntParameter(op, "head_dim");
      const std::optional<HeadRanges> cut = HeadsOf(op);
      const bool cuts_all = op.attributes.size() == op.attributes.count("sinks") +
                                                        op.attributes.count("key_centre") +
                                                        op.attributes.count("distance_bias");
      if (!cut || op.inputs.size() < (of_text ? 1 : 3) || !cuts_all) throw HeadsStayWhole();
      Hint(op.inputs[0], Scaled(cut->queries, dim));
      if (of_text) continue;  // its keys and values come with the text
      Hint(op.inputs[1], Scaled(cut->keys, dim));
      Hint(op.inputs[2], Scaled(cut->keys, dim));
      HintGates(op.outputs[0], Scaled(cut->queries, dim));
    }
  }

  /// A text has as many heads of keys as of queries.
  static const char* KeyHeadsOf(const Operator& attention) {
    return attention.type == "oort.TextAttention" ? "heads" : "kv_heads";
  }

  std::optional<HeadRanges> HeadsOf(const Operator& attention) {
    HeadCut cut{.heads = IntParameter(attention, "heads"),
                .kv_heads = IntParameter(attention, KeyHeadsOf(attention)),
                .ranks = options_.ranks,
                .even_groups = options_.even_groups};
    const int64_t dim = std::max<int64_t>(1, IntParameter(attention, "head_dim"));
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
        hints_[operand] = {ranges};
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

  /// Scans that read what products give, by way of a convolution, go with rows of these.
  void PlanScans() {
    for (size_t i = 0; i < graph_.operators.size(); ++i) {
      const Operator& scan = graph_.operators[i];
      if (!IsScan(scan) || scan.inputs.size() < 2) continue;
      const std::optional<ScanCut> cut = CutScan(scan, options_.ranks);
      const int convolution = Producer(scan.inputs[0], "oort.ShortConvolution");
      if (!cut || convolution < 0) continue;
      const int channels = Op(convolution).inputs[0];
      std::vector<int> of_heads;  // steps, and betas of a delta rule
      for (size_t j = 1; j < scan.inputs.size(); ++j) {
        of_heads.push_back(BeforeScale(scan.inputs[j]));
      }
      if (!IsProduct(channels) ||
          !std::ranges::all_of(of_heads, [&](int operand) { return IsProduct(operand); })) {
        continue;
      }
      scans_[scan.inputs[0]] = *cut;
      hints_[channels] = cut->columns;
      for (const int operand : of_heads) hints_[operand] = {cut->heads};
      HintGates(scan.outputs[0], cut->inner);
    }
  }

  /// What an expression makes an operand of, if of nothing else: it goes with each rank's part.
  int BeforeScale(int operand) {
    const int producer = Producer(operand, "pnnx.Expression");
    const bool scales =
        producer >= 0 && Op(producer).inputs.size() == 1 && !ReadsShapes(Op(producer));
    return scales ? Op(producer).inputs[0] : operand;
  }

  /// What is multiplied with the elements of an operand, one by one, is cut as they are.
  void HintGates(int operand, const AxisRanges& ranges) {
    for (const int reader : graph_.operands[static_cast<size_t>(operand)].consumers) {
      const std::string& type = Op(reader).type;  // a norm of each head may come before
      if (type == "Tensor.reshape" || type == "nn.RMSNorm") {
        HintGates(Op(reader).outputs[0], ranges);
      }
      if (type != "pnnx.Expression") continue;
      for (const int other : Op(reader).inputs) {
        if (IsProduct(other)) hints_.try_emplace(other, RangesInTurn{ranges});
      }
    }
  }

  // Rules.

  void Visit(int index) {
    using Rule = void (Sharder::*)(int);
    static const std::map<std::string, Rule, std::less<>> kRules = {
        {"oort.QuantizedLinear", &Sharder::Linear},
        {"oort.QuantizedEmbedding", &Sharder::Embed},
        {"oort.PagedAttention", &Sharder::Attend},
        {"oort.TextAttention", &Sharder::AttendText},
        {"oort.ExpertMixture", &Sharder::Mix},
        {"oort.Rotary", &Sharder::Turn},
        {"oort.ShortConvolution", &Sharder::Convolve},
        {"oort.StateScan", &Sharder::Scan},
        {"oort.DeltaScan", &Sharder::Scan},
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
    const std::optional<std::vector<RangesInTurn>> cut = CutsOf(Op(index));
    const bool finishes = inputs.addend >= 0 && (HasActivation(Op(index)) || InParts(cut));
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
    SetParts(AddExchange("oort.AllGather", name + ".gather", {part, addend}, whole), (*cut)[0][0]);
    Place(whole, {});
  }

  /// Whether it chooses experts: an exchange would take longer than its few rows.
  bool IsRouter(const Operator& op) {
    if (op.outputs.size() != 1) return false;
    const auto& readers = graph_.operands[static_cast<size_t>(op.outputs[0])].consumers;
    return std::ranges::any_of(readers, [&](int reader) {
      return Op(reader).type == "oort.ExpertMixture" && Op(reader).inputs[1] == op.outputs[0];
    });
  }

  static bool InParts(const std::optional<std::vector<RangesInTurn>>& cuts) {
    return cuts && std::ranges::any_of(*cuts, [](const auto& cut) { return cut.size() > 1; });
  }

  /// Ranges of the rows of each weight; nothing where they are too few to share out.
  std::optional<std::vector<RangesInTurn>> CutsOf(const Operator& op) {
    const std::vector<int64_t> rows = IntsOf(op, "out_features");
    std::vector<RangesInTurn> cuts;
    for (size_t part = 0; part < rows.size(); ++part) {
      const size_t output = IsGated(op) ? 0 : part;
      if (output >= op.outputs.size()) return {};
      const auto hint = hints_.find(op.outputs[output]);
      RangesInTurn cut;
      if (hint != hints_.end()) {
        cut = hint->second;
      } else if (auto even = CutEvenly(rows[part], UnitFor(op.outputs[output]), options_.ranks)) {
        cut = {*even};
      }
      if (cut.empty() || cut.back().back().end != rows[part]) return {};
      cuts.push_back(std::move(cut));
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
      const int64_t columns = IntParameter(op, "in_features");
      const int64_t block = WeightCutter::ColumnUnit(op, "", columns);
      if (block > 0) unit = std::lcm(unit, block);
    }
    return unit;
  }

  void CutParts(int index, const std::vector<RangesInTurn>& cuts) {
    Operator& op = Op(index);
    Value::List sizes;
    for (size_t part = 0; part < cuts.size(); ++part) {
      std::vector<AxisRange> mine;
      for (const AxisRanges& ranges : cuts[part]) mine.push_back(Mine(ranges));
      cutter_.CutRows(op, SuffixOf(part), mine);
      int64_t size = 0;
      for (const AxisRange& range : mine) size += range.size();
      sizes.emplace_back(size);
    }
    op.params["out_features"] = Parameter::FromValue(Value(sizes));
    for (size_t i = 0; i < op.outputs.size(); ++i) Place(op.outputs[i], RankPlacement::Of(cuts[i]));
  }

  /// Whether each rank can multiply its columns, of which the sum is the product.
  bool CanSum(const Operator& op, const RankPlacement& place) const {
    const int64_t columns = IntParameter(op, "in_features");
    return place.kind == RankPlacement::kSplit && IsPartition(place.ranges, columns) &&
           op.outputs.size() == 1 && IntsOf(op, "out_features").size() == 1 && !HasActivation(op) &&
           !IsGated(op) && !op.attributes.contains("norm") &&
           IsMultiple(place.ranges, WeightCutter::ColumnUnit(op, "", columns));
  }

  void Sum(int index, const LinearInputs& inputs) {
    const AxisRange mine = Mine(PlaceOf(inputs.input).ranges);
    const int addend = inputs.addend < 0 ? -1 : Whole(inputs.addend);
    Operator& op = Op(index);
    cutter_.CutColumns(op, "", IntParameter(op, "in_features"), mine);
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
    const int64_t experts = IntParameter(Op(index), "experts");
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
      const int64_t rows = IntParameter(op, part == 2 ? "in_features" : "intermediate");
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
    const int64_t rows = IntParameter(op, "num_embeddings");
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
    const RankPlacement query = PlaceOf(op.inputs[0]), key = PlaceOf(op.inputs[1]);
    const int64_t dim = IntParameter(op, "head_dim");
    const bool split = query.kind == RankPlacement::kSplit && key.kind == RankPlacement::kSplit &&
                       IsMultiple(query.ranges, dim) && IsMultiple(key.ranges, dim);
    if (!split) return GatherInputs(index);
    Place(op.outputs[0], query);
    Place(op.outputs[1], key);
  }

  void Attend(int index) {
    report_.kv_heads = IntParameter(Op(index), "kv_heads");
    if (!shared_.attention) return GatherInputs(index);
    Operator& op = Op(index);
    const int64_t dim = IntParameter(op, "head_dim"), heads = IntParameter(op, "heads");
    const std::optional<HeadRanges> cut = HeadsOf(op);
    const RankPlacement query{RankPlacement::kSplit, Scaled(cut->queries, dim), heads * dim};
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
    cutter_.CutHeads(op, mine, Mine(keys));
    Place(op.outputs[0], query);
  }

  /// All layers have the same heads, of which the encoder makes keys and values.
  void AttendText(int index) {
    Operator& op = Op(index);
    const int64_t dim = IntParameter(op, "head_dim"), heads = IntParameter(op, "heads");
    report_.text_heads = {0, heads};
    if (!shared_.attention) return GatherInputs(index);
    const std::optional<HeadRanges> cut = HeadsOf(op);
    const RankPlacement query{RankPlacement::kSplit, Scaled(cut->queries, dim), heads * dim};
    if (text_heads_.empty()) text_heads_ = cut->queries;
    if (PlaceOf(op.inputs[0]) != query || text_heads_ != cut->queries) throw HeadsStayWhole();
    report_.text_heads = Mine(cut->queries);
    SetInt(op, "heads", report_.text_heads.size());
    Place(op.outputs[0], query);
  }

  /// A rank has the channels of its heads, and of the groups that these read.
  void Convolve(int index) {
    const auto cut = scans_.find(Op(index).outputs[0]);
    const bool planned = cut != scans_.end() &&
                         PlaceOf(Op(index).inputs[0]) == RankPlacement::Of(cut->second.columns);
    if (!planned) {
      report_.whole.push_back(Op(index).name);
      return GatherInputs(index);
    }
    TakeConvolution(Op(index), cut->second, options_.rank);
    Place(Op(index).outputs[0], RankPlacement::Of(cut->second.columns));
  }

  void Scan(int index) {
    const auto cut = scans_.find(Op(index).inputs[0]);
    const auto& inputs = Op(index).inputs;
    const auto of_heads = [&](int operand) {
      return PlaceOf(operand) == RankPlacement::Of({cut->second.heads});
    };
    const bool planned = cut != scans_.end() &&
                         PlaceOf(inputs[0]) == RankPlacement::Of(cut->second.columns) &&
                         std::all_of(inputs.begin() + 1, inputs.end(), of_heads);
    if (!planned) {
      report_.whole.push_back(Op(index).name);
      return GatherInputs(index);
    }
    TakeScan(Op(index), cut->second, options_.rank);
    Place(Op(index).outputs[0], RankPlacement::Of({cut->second.inner}));
  }

  /// Between (tokens, width) and (tokens, heads, elements), around a norm of heads.
  void Reshape(int index) {
    Operator& op = Op(index);
    std::vector<int64_t> shape = IntsOf(op, "shape");
    const RankPlacement place = PlaceOf(op.inputs[0]);
    const bool to_heads = place.kind == RankPlacement::kSplit && shape.size() == 3 &&
                          shape[0] == -1 && shape[1] * shape[2] > 0 &&
                          IsMultiple(place.ranges, shape[2]) && FeedsNorms(op.outputs[0]);
    const bool from_heads =
        place.kind == RankPlacement::kHeads && shape.size() == 2 && shape[0] == -1;
    if (!to_heads && !from_heads) return GatherInputs(index);
    shape[1] = to_heads ? Mine(place.ranges).size() / shape[2] : Mine(place.ranges).size();
    op.params["shape"] = Parameter::FromValue(Value::Ints(shape));
    Place(op.outputs[0],
          {to_heads ? RankPlacement::kHeads : RankPlacement::kSplit, place.ranges, place.width});
  }

  /// Who else reads heads wants those of all ranks.
  bool FeedsNorms(int operand) {
    return std::ranges::all_of(
        graph_.operands[static_cast<size_t>(operand)].consumers, [&](int reader) {
          return Op(reader).type == "nn.RMSNorm" || Op(reader).type == "nn.LayerNorm";
        });
  }

  void Norm(int index) {
    const RankPlacement place = PlaceOf(Op(index).inputs[0]);
    if (place.kind != RankPlacement::kHeads) return GatherInputs(index);
    Place(Op(index).outputs[0], place);
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
    const RankPlacement place = op.inputs.empty() ? RankPlacement() : PlaceOf(op.inputs[0]);
    const bool alike = std::ranges::all_of(op.inputs, [&](int operand) {
      return PlaceOf(operand) == place || IsColumn(operand) || IsWeight(operand, place.width);
    });
    if (place.kind != RankPlacement::kSplit || !alike || ReadsShapes(op))
      return GatherInputs(index);
    for (const int operand : op.inputs) {
      if (!IsWeight(operand, place.width) || PlaceOf(operand) == place) continue;
      TakeRows(Op(Producer(operand, "pnnx.Attribute")), "data", {Mine(place.ranges)});
      Place(operand, place);
    }
    Place(op.outputs[0], place);
  }

  void Pick(int index) {
    const RankPlacement place = PlaceOf(Op(index).inputs[0]);
    if (place.kind != RankPlacement::kSplit || !IsPartition(place.ranges, place.width)) {
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
    const int64_t rows = IntParameter(Op(index), "out_features");
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

  const SharedHeads shared_;
  WeightCutter cutter_;
  std::map<int, RangesInTurn> hints_;  // of operands that attention and scans want by heads
  AxisRanges text_heads_;
  std::map<int, ScanCut> scans_;  // by what convolutions give them
};

}  // namespace

ShardReport Shard(Graph& graph, const ShardOptions& options) {
  SharedHeads shared;
  while (true) {
    Graph sharded = graph;
    try {
      const ShardReport report = Sharder(sharded, options, shared).Run();
      graph = std::move(sharded);
      return report;
    } catch (const HeadsStayWhole&) {
      if (!shared.attention && !shared.scans) {
        throw Error(ErrorCode::kInternal, "ranks cannot share a graph that they share nothing of");
      }
      (shared.attention ? shared.attention : shared.scans) = false;
    } catch (const ScansStayWhole&) {
      shared.scans = false;
    }
  }
}

}  // namespace oort
