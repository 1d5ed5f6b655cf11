// SPDX-License-Identifier: MIT
#include "quantize/equalize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
bool PassesFactors(const Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  for (const char* type : {"nn.ReLU", "F.relu", "torch.relu", "nn.LeakyReLU", "F.leaky_relu",
                           "nn.Dropout", "F.dropout", "nn.Identity"}) {
    if (op.type == type) return true;
  }
  return false;
}

/// The same of images.
bool PoolsImages(const Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
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

bool AddsAlike(const Graph& graph, const Operator& op) {
  const bool adds = ParameterText(op, "expr") == "add(@0,@1)" ||
                    (op.type == "torch.add" && op.params.count("alpha") == 0);
  if (!adds || op.inputs.size() != 2 || op.outputs.size() != 1) return false;
  const Operand& a = graph.operands[static_cast<size_t>(op.inputs[0])];
  const Operand& b = graph.operands[static_cast<size_t>(op.inputs[1])];
  return a.has_shape && b.has_shape && a.shape == b.shape;
}

/// Operands that must have the same factors are one set; one of which something else reads or makes
/// a member has none.
class GroupFinder {
 public:
  explicit GroupFinder(const Graph& graph)
      : graph_(graph),
        same_(graph.operands.size()),
        fixed_(graph.operands.size(), false),
        pooled_(graph.operands.size(), false) {
    std::iota(same_.begin(), same_.end(), size_t{0});
  }

  std::vector<EqualGroup> Run() {
    const std::vector<int> order = graph_.TopologicalOrder();
    for (const int index : order) Link(Op(index));
    std::map<size_t, EqualGroup> groups;
    std::vector<size_t> roots;  // in the order of their first makers
    for (const int index : order) {
      const Operator& op = Op(index);
      if (!IsLayer(op)) continue;
      const size_t made = Root(op.outputs[0]);
      if (groups[made].makers.empty()) roots.push_back(made);
      groups[made].makers.push_back(index);
      groups[Root(op.inputs[0])].readers.push_back(index);
    }
    for (size_t i = 0; i < graph_.operands.size(); ++i) {
      groups[Root(static_cast<int>(i))].operands.push_back(static_cast<int>(i));
    }
    std::vector<EqualGroup> found;
    for (const size_t root : roots) {
      if (!fixed_[root] && AreAlike(groups[root], pooled_[root]))
        found.push_back(std::move(groups[root]));
    }
    return found;
  }

 private:
  const Operator& Op(int index) const { return graph_.operators[static_cast<size_t>(index)]; }
  static bool IsLayer(const Operator& op) {
    return IsLayerOf(op, "nn.Conv2d") || IsLayerOf(op, "nn.Linear");
  }

  size_t Root(int operand) {
    auto at = static_cast<size_t>(operand);
    while (same_[at] != at) at = same_[at] = same_[same_[at]];
    return at;
  }
  void Join(int one, int other) {
    const size_t a = Root(one), b = Root(other);
    same_[b] = a;
    fixed_[a] = fixed_[a] || fixed_[b];
    pooled_[a] = pooled_[a] || pooled_[b];
  }

  void Link(const Operator& op) {
    if (IsLayer(op)) return;
    if (PassesFactors(op) || PoolsImages(op) || AddsAlike(graph_, op)) {
      for (const int input : op.inputs) Join(op.outputs[0], input);
      if (PoolsImages(op)) pooled_[Root(op.outputs[0])] = true;
      return;
    }
    for (const int operand : op.inputs) fixed_[Root(operand)] = true;
    for (const int operand : op.outputs) fixed_[Root(operand)] = true;
  }

  /// Layers of one kind and as many channels, which some make and some read.
  bool AreAlike(const EqualGroup& group, bool pooled) const {
    if (group.makers.empty() || group.readers.empty()) return false;
    const Operator& first = Op(group.makers[0]);
    if (pooled && first.type != "nn.Conv2d") return false;
    const int64_t channels = first.attributes.at("weight").dim(0);
    return std::all_of(group.makers.begin(), group.makers.end(),
                       [&](int maker) {
                         const Operator& op = Op(maker);
                         return op.type == first.type &&
                                op.attributes.at("weight").dim(0) == channels;
                       }) &&
           std::all_of(group.readers.begin(), group.readers.end(), [&](int reader) {
             return Op(reader).type == first.type && Takes(Op(reader), channels);
           });
  }

  const Graph& graph_;
  std::vector<size_t> same_;  // towards the root of each operand's set
  std::vector<bool> fixed_;   // by root
  std::vector<bool> pooled_;  // by root: as images, whose channels are not the last axis
};

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

/// The largest magnitude that each channel meets, as a share of the largest of all: layers of which
/// one has larger weights count alike.
void WidenReach(const Tensor& weight, std::vector<double>& reach) {
  const size_t channels = reach.size();
  const auto taps = static_cast<size_t>(weight.elements() / weight.dim(0)) / channels;
  const std::span<const float> values = weight.span<float>();
  std::vector<double> own(channels, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    double& most = own[i / taps % channels];
    most = std::max(most, std::abs(static_cast<double>(values[i])));
  }
  const double widest = *std::max_element(own.begin(), own.end());
  if (widest == 0) return;
  for (size_t i = 0; i < channels; ++i) reach[i] = std::max(reach[i], own[i] / widest);
}

}  // namespace

std::vector<EqualGroup> FindEqualGroups(const Graph& graph) { return GroupFinder(graph).Run(); }

std::vector<float> EqualFactors(std::span<const double> maxima,
                                std::span<const EqualReader> readers) {
  const size_t channels = maxima.size();
  const bool depthwise = std::all_of(readers.begin(), readers.end(),
                                     [](const EqualReader& reader) { return reader.depthwise; });
  std::vector<double> reach(channels, depthwise ? 1.0 : 0.0);
  for (const EqualReader& reader : readers) {
    if (!reader.depthwise) WidenReach(*reader.weight, reach);
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
  const auto op = [&](int index) -> const Operator& {
    return graph.operators[static_cast<size_t>(index)];
  };
  const std::vector<EqualGroup> groups = FindEqualGroups(graph);
  std::vector<std::vector<double>> maxima(groups.size());  // of each channel
  std::map<int, size_t> group_of;                          // by operand
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int operand : groups[i].operands) {
      if (points.class_of[static_cast<size_t>(operand)] >= 0) group_of[operand] = i;
    }
    const Tensor& weight = op(groups[i].makers[0]).attributes.at("weight");
    maxima[i].assign(static_cast<size_t>(weight.dim(0)), 0);
  }
  if (group_of.empty()) return {};
  Watch(session, points, samples, numbers, "equalize", watcher,
        [&](int operand, const Tensor& tensor) {
          const auto found = group_of.find(operand);
          if (found == group_of.end()) return;
          std::vector<double>& most = maxima[found->second];
          const auto channels = static_cast<int64_t>(most.size());
          // Images have their channels third from the end, rows have them last.
          const bool images = op(groups[found->second].makers[0]).type == "nn.Conv2d";
          const int64_t step = images ? tensor.dim(-1) * tensor.dim(-2) : 1;
          const float* values = tensor.data<float>();
          for (int64_t i = 0; i < tensor.elements(); ++i) {
            double& one = most[static_cast<size_t>(i / step % channels)];
            one = std::max(one, std::abs(static_cast<double>(values[i])));
          }
        });
  Equalization factors;
  for (const auto& [operand, i] : group_of) {
    const std::string& name = op(groups[i].makers[0]).name;
    if (factors.count(name) > 0) continue;
    std::vector<EqualReader> readers;
    for (const int reader : groups[i].readers) {
      readers.push_back({&op(reader).attributes.at("weight"), IsDepthwise(op(reader))});
    }
    factors[name] = EqualFactors(maxima[i], readers);
  }
  return factors;
}

Graph Equalized(Graph graph, const Equalization& factors) {
  std::map<std::string, EqualGroup> groups;  // by first maker
  for (EqualGroup& group : FindEqualGroups(graph)) {
    const std::string name = graph.operators[static_cast<size_t>(group.makers[0])].name;
    groups[name] = std::move(group);
  }
  for (const auto& entry : factors) {
    const std::string& name = entry.first;
    const std::vector<float>& each = entry.second;
    const auto found = groups.find(name);
    const auto wrong = [&](const std::string& why) {
      return Error(ErrorCode::kInvalidArgument,
                   "recipe: the equalization of '" + name + "' " + why);
    };
    if (found == groups.end()) {
      throw wrong(
          "fits no layer: it has none behind it that takes its channels, or is not the "
          "first of those that make them");
    }
    const auto op = [&](int index) -> Operator& {
      return graph.operators[static_cast<size_t>(index)];
    };
    const int64_t channels = op(found->second.makers[0]).attributes.at("weight").dim(0);
    if (static_cast<int64_t>(each.size()) != channels) {
      throw wrong("has " + std::to_string(each.size()) + " factors for " +
                  std::to_string(channels) + " channels");
    }
    for (const float factor : each) {
      if (!(factor > 0) || !std::isfinite(factor)) throw wrong("has a factor that is not above 0");
    }
    for (const int index : found->second.makers) {
      Operator& maker = op(index);
      ScaleRows(maker.attributes.at("weight"), each, true);
      if (maker.attributes.count("bias") > 0) ScaleRows(maker.attributes.at("bias"), each, true);
    }
    for (const int index : found->second.readers) {
      Tensor& weight = op(index).attributes.at("weight");
      if (IsDepthwise(op(index))) {
        ScaleRows(weight, each, false);
      } else {
        ScaleColumns(weight, each);
      }
    }
  }
  return graph;
}

}  // namespace oort::quantize
