// SPDX-License-Identifier: MIT
#include "quantize/equalize.h"

#include <algorithm>
#include <cmath>

#include "graph/passes/rewrite.h"

namespace oort::quantize {
namespace {

/// Channels that hardly speak are left alone, and no factor is larger than this.
constexpr double kSilent = 1e-6, kLargestFactor = 64;

bool IsLayerOf(const Operator& op, const char* type) {
  const Tensor* weight = FindAttribute(op, "weight");
  return op.type == type && op.inputs.size() == 1 && op.outputs.size() == 1 && weight != nullptr &&
         weight->dtype() == DType::kF32 && weight->has_data() && weight->elements() > 0 &&
         IsFloatOrAbsent(FindAttribute(op, "bias"));
}

/// f(t x) = t f(x) for t > 0, channel by channel.
bool PassesFactors(const Operator& op, bool images) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  for (const char* type : {"nn.ReLU", "F.relu", "torch.relu", "nn.LeakyReLU", "F.leaky_relu",
                           "nn.Dropout", "F.dropout", "nn.Identity"}) {
    if (op.type == type) return true;
  }
  if (!images) return false;
  for (const char* type : {"nn.MaxPool2d", "F.max_pool2d", "nn.AvgPool2d", "F.avg_pool2d",
                           "nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool2d"}) {
    if (op.type == type) return true;
  }
  return false;
}

int64_t GroupsOf(const Operator& op) {
  const Value groups = ParameterValue(op, "groups");
  return groups.IsInt() ? groups.AsInt() : 1;
}

bool IsDepthwise(const Operator& op) {
  const Tensor& weight = op.attributes.at("weight");
  const int64_t groups = GroupsOf(op);
  return op.type == "nn.Conv2d" && groups > 1 && weight.dim(1) == 1 && weight.dim(0) == groups;
}

bool Takes(const Operator& op, int64_t channels) {
  const Tensor& weight = op.attributes.at("weight");
  if (IsDepthwise(op)) return weight.dim(0) == channels;
  return GroupsOf(op) == 1 && weight.dim(1) == channels;
}

/// The layer that alone reads what `index` gives; -1 where there is none.
int ReaderOf(const Graph& graph, int index) {
  const Operator& first = graph.operators[static_cast<size_t>(index)];
  int operand = first.outputs[0];
  for (size_t steps = 0; steps < graph.operators.size(); ++steps) {
    const Operand& made = graph.operands[static_cast<size_t>(operand)];
    if (made.consumers.size() != 1) return -1;
    const int reader = made.consumers[0];
    const Operator& op = graph.operators[static_cast<size_t>(reader)];
    if (IsLayerOf(op, first.type.c_str())) {
      return Takes(op, first.attributes.at("weight").dim(0)) ? reader : -1;
    }
    if (!PassesFactors(op, first.type == "nn.Conv2d")) return -1;
    operand = op.outputs[0];
  }
  return -1;
}

/// Multiplies each of `rows` equal parts by its factor, or divides.
void ScaleRows(Tensor& tensor, std::span<const float> factors, bool divide) {
  const auto rows = static_cast<int64_t>(factors.size());
  const int64_t each = tensor.elements() / rows;
  Tensor scaled = tensor.Clone();
  float* values = scaled.data<float>();
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const float factor = factors[static_cast<size_t>(i / each)];
    values[i] = divide ? values[i] / factor : values[i] * factor;
  }
  tensor = scaled;
}

void ScaleColumns(Tensor& weight, std::span<const float> factors) {
  const auto columns = static_cast<int64_t>(factors.size());
  const int64_t taps = weight.elements() / weight.dim(0) / columns;
  Tensor scaled = weight.Clone();
  float* values = scaled.data<float>();
  for (int64_t i = 0; i < weight.elements(); ++i) {
    values[i] *= factors[static_cast<size_t>(i / taps % columns)];
  }
  weight = scaled;
}

}  // namespace

std::vector<EqualPair> FindEqualPairs(const Graph& graph) {
  std::vector<EqualPair> pairs;
  for (const int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (!IsLayerOf(op, "nn.Conv2d") && !IsLayerOf(op, "nn.Linear")) continue;
    const int reader = ReaderOf(graph, index);
    if (reader >= 0) pairs.push_back({index, reader});
  }
  return pairs;
}

std::vector<float> EqualFactors(std::span<const double> maxima, const Tensor& weight,
                                bool depthwise) {
  const size_t channels = maxima.size();
  std::vector<double> reach(channels, depthwise ? 1.0 : 0.0);
  if (!depthwise) {
    const int64_t taps = weight.elements() / weight.dim(0) / static_cast<int64_t>(channels);
    const std::span<const float> values = weight.span<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      double& most = reach[i / static_cast<size_t>(taps) % channels];
      most = std::max(most, std::abs(static_cast<double>(values[i])));
    }
  }
  const double loudest = channels == 0 ? 0 : *std::max_element(maxima.begin(), maxima.end());
  const double widest = channels == 0 ? 0 : *std::max_element(reach.begin(), reach.end());
  std::vector<double> factors(channels, 1);
  std::vector<bool> speaks(channels, false);
  double logarithms = 0, count = 0;
  for (size_t i = 0; i < channels; ++i) {
    speaks[i] = maxima[i] > kSilent * loudest && reach[i] > kSilent * widest;
    if (!speaks[i]) continue;
    factors[i] = depthwise ? maxima[i] : std::sqrt(maxima[i] / reach[i]);
    logarithms += std::log(factors[i]);
    count += 1;
  }
  // A factor that all have would change nothing.
  const double mean = count > 0 ? std::exp(logarithms / count) : 1;
  std::vector<float> result(channels, 1.0f);
  for (size_t i = 0; i < channels; ++i) {
    if (!speaks[i]) continue;
    result[i] =
        static_cast<float>(std::clamp(factors[i] / mean, 1 / kLargestFactor, kLargestFactor));
  }
  return result;
}

Equalization FindEqualization(Session& session, const Points& points, const Samples& samples,
                              const std::vector<size_t>& numbers, const Watcher& watcher) {
  const Graph& graph = session.graph().graph();
  std::map<int, std::vector<double>> maxima;  // by operand: of each channel
  std::map<int, bool> layouts;                // by operand: whether it holds images
  std::vector<EqualPair> pairs;
  for (const EqualPair& pair : FindEqualPairs(graph)) {
    const int input = graph.operators[static_cast<size_t>(pair.second)].inputs[0];
    if (points.class_of[static_cast<size_t>(input)] < 0) continue;
    const Operator& first = graph.operators[static_cast<size_t>(pair.first)];
    maxima[input].assign(static_cast<size_t>(first.attributes.at("weight").dim(0)), 0);
    layouts[input] = first.type == "nn.Conv2d";
    pairs.push_back(pair);
  }
  if (pairs.empty()) return {};
  Watch(session, points, samples, numbers, "equalize", watcher,
        [&](int operand, const Tensor& tensor) {
          const auto found = maxima.find(operand);
          if (found == maxima.end()) return;
          std::vector<double>& most = found->second;
          const auto channels = static_cast<int64_t>(most.size());
          // Images have their channels third from the end, rows have them last.
          const bool images = layouts.at(operand);
          const int64_t step = images ? tensor.dim(-1) * tensor.dim(-2) : 1;
          const float* values = tensor.data<float>();
          for (int64_t i = 0; i < tensor.elements(); ++i) {
            double& one = most[static_cast<size_t>(i / step % channels)];
            one = std::max(one, std::abs(static_cast<double>(values[i])));
          }
        });
  Equalization factors;
  for (const EqualPair& pair : pairs) {
    const Operator& first = graph.operators[static_cast<size_t>(pair.first)];
    const Operator& second = graph.operators[static_cast<size_t>(pair.second)];
    factors[first.name] = EqualFactors(maxima.at(second.inputs[0]), second.attributes.at("weight"),
                                       IsDepthwise(second));
  }
  return factors;
}

Graph Equalized(Graph graph, const Equalization& factors) {
  std::map<std::string, EqualPair> pairs;
  for (const EqualPair& pair : FindEqualPairs(graph)) {
    pairs[graph.operators[static_cast<size_t>(pair.first)].name] = pair;
  }
  for (const auto& entry : factors) {
    const std::string& name = entry.first;
    const std::vector<float>& each = entry.second;
    const auto found = pairs.find(name);
    const auto wrong = [&](const std::string& why) {
      return Error(ErrorCode::kInvalidArgument,
                   "recipe: the equalization of '" + name + "' " + why);
    };
    if (found == pairs.end()) throw wrong("has no layer behind it that takes its channels alone");
    Operator& first = graph.operators[static_cast<size_t>(found->second.first)];
    Operator& second = graph.operators[static_cast<size_t>(found->second.second)];
    if (static_cast<int64_t>(each.size()) != first.attributes.at("weight").dim(0)) {
      throw wrong("has " + std::to_string(each.size()) + " factors for " +
                  std::to_string(first.attributes.at("weight").dim(0)) + " channels");
    }
    for (const float factor : each) {
      if (!(factor > 0) || !std::isfinite(factor)) throw wrong("has a factor that is not above 0");
    }
    ScaleRows(first.attributes.at("weight"), each, true);
    if (first.attributes.count("bias") > 0) ScaleRows(first.attributes.at("bias"), each, true);
    if (IsDepthwise(second)) {
      ScaleRows(second.attributes.at("weight"), each, false);
    } else {
      ScaleColumns(second.attributes.at("weight"), each);
    }
  }
  return graph;
}

}  // namespace oort::quantize
