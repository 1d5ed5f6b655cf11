// SPDX-License-Identifier: MIT
#include "decoder/rank_graph.h"

#include <algorithm>

#include "graph/passes/rewrite.h"

namespace oort {

AxisRange RankGraph::Mine(const AxisRanges& ranges) {
  for (const AxisRange& range : ranges) {
    for (const int64_t edge : {range.begin, range.end}) {
      report_.plan = (report_.plan ^ static_cast<uint64_t>(edge)) * 0x9E3779B97F4A7C15;
      report_.plan ^= report_.plan >> 32;
    }
  }
  return ranges[static_cast<size_t>(options_.rank)];
}

std::vector<int64_t> RankGraph::IntsOf(const Operator& op, const std::string& name) {
  const Value value = ParameterValue(op, name);
  if (value.IsInt()) return {value.AsInt()};
  const auto is_int = [](const Value& item) { return item.IsInt(); };
  if (!value.IsList() || !std::ranges::all_of(value.AsList(), is_int)) return {};
  return value.AsInts();
}

void RankGraph::SetInt(Operator& op, const std::string& name, int64_t value) {
  op.params[name] = Parameter::FromValue(Value(value));
}

int RankGraph::Producer(int operand, std::string_view type) {
  const int producer = graph_.operands[static_cast<size_t>(operand)].producer;
  return producer >= 0 && Op(producer).type == type ? producer : -1;
}

bool RankGraph::IsColumn(int operand) {
  const int producer = Producer(operand, "Tensor.reshape");
  if (producer < 0) return false;
  const std::vector<int64_t> shape = IntsOf(Op(producer), "shape");
  return shape.size() == 2 && shape[1] == 1 && PlaceOf(operand).kind == RankPlacement::kWhole;
}

bool RankGraph::IsWeight(int operand, int64_t width) {
  const int producer = Producer(operand, "pnnx.Attribute");
  if (producer < 0 || graph_.operands[static_cast<size_t>(operand)].consumers.size() != 1) {
    return false;
  }
  const auto data = Op(producer).attributes.find("data");
  return data != Op(producer).attributes.end() && data->second.shape() == Shape{width};
}

int RankGraph::AddExchange(const std::string& type, const std::string& name,
                           std::vector<int> inputs, int output, const Tensor& bias) {
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

void RankGraph::SetParts(int gather, const AxisRanges& ranges) {
  Value::List parts;
  for (const AxisRange& range : ranges) parts.emplace_back(range.size());
  Op(gather).params["parts"] = Parameter::FromValue(Value(parts));
}

int RankGraph::Whole(int operand) {
  const RankPlacement place = PlaceOf(operand);
  if (place.kind == RankPlacement::kWhole) return operand;
  if (place.kind == RankPlacement::kParts) throw ScansStayWhole();
  if (place.kind == RankPlacement::kHeads || !IsPartition(place.ranges, place.width)) {
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

void RankGraph::GatherInputs(int index) {
  for (size_t i = 0; i < Op(index).inputs.size(); ++i) {
    const int operand = Op(index).inputs[i], whole = Whole(operand);
    if (whole != operand) graph_.ReplaceInput(index, i, whole);
  }
}

int RankGraph::Detach(int index, const std::string& name) {
  const int raw = graph_.AddOperand(name);
  graph_.ReplaceOutput(index, 0, raw);
  return raw;
}

void RankGraph::Place(int operand, RankPlacement place) {
  graph_.operands[static_cast<size_t>(operand)].has_shape = false;  // that of all ranks
  places_[operand] = std::move(place);
}

}  // namespace oort
