// SPDX-License-Identifier: MIT
#include "cli/profile_report.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "cli/results.h"

namespace oort::cli {
namespace {

// What a step costs that computes nothing: measured as under a microsecond.
constexpr double kStepSeconds = 0.5e-6;

double Fastest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

const MachineRoofs::Memory& LevelFor(const ProfileReport& report, double bytes) {
  const auto& levels = report.roofs.memory;
  const auto found = std::find_if(levels.begin(), levels.end(), [&](const auto& level) {
    return bytes <= static_cast<double>(report.Size(level));
  });
  return found == levels.end() ? levels.back() : *found;
}

/// The least seconds for the memory traffic of an operator, and where most of it comes from.
/// Activations were just written: they are where the operator's own bytes fit. Weights were read
/// one whole Forward ago: they are where the whole model fits.
struct Traffic {
  double seconds = 0;
  std::string level;
};
Traffic TrafficOf(const ProfileReport& report, double bytes, double weights) {
  const double everything =
      static_cast<double>(report.plan.memory.weights + report.plan.memory.arena);
  weights = std::min(weights, bytes);
  const MachineRoofs::Memory& near = LevelFor(report, bytes);
  const MachineRoofs::Memory& far = LevelFor(report, everything);
  const double activations = (bytes - weights) / report.Read(near);
  const double constants = weights / report.Read(far);
  return {activations + constants, activations >= constants ? near.name : far.name};
}

void Judge(const ProfileReport& report, double weights, ProfileOperator& op) {
  if (op.cost.flops <= 0 && op.cost.bytes <= 0) {
    op.bound = "-";
    return;
  }
  const double compute = op.cost.flops / report.Peak(op.dtype);
  const Traffic traffic = TrafficOf(report, op.cost.bytes, weights);
  const bool starts_more = op.threads > 1 || report.on_gpu();
  const double overhead = starts_more ? report.roofs.loop_seconds : kStepSeconds;
  op.cost.ideal = std::max(compute, traffic.seconds);
  if (overhead > op.cost.ideal) {
    op.bound = "overhead";
  } else {
    op.bound = compute >= traffic.seconds ? "compute" : traffic.level;
  }
}

/// Constant tensors that an operator reads: its attributes and those of its inputs.
double WeightBytes(const Graph& graph, const Operator& op) {
  double bytes = 0;
  for (const auto& [name, tensor] : op.attributes) bytes += static_cast<double>(tensor.bytes());
  for (const int input : op.inputs) {
    const int producer = graph.operands[static_cast<size_t>(input)].producer;
    if (producer < 0) continue;
    const Operator& source = graph.operators[static_cast<size_t>(producer)];
    if (source.type != "pnnx.Attribute") continue;
    for (const auto& [name, tensor] : source.attributes) {
      bytes += static_cast<double>(tensor.bytes());
    }
  }
  return bytes;
}

std::vector<int> TeamSizes(const std::vector<Profile>& runs, size_t nodes) {
  std::vector<std::set<int>> teams(nodes);
  for (const Profile& run : runs) {
    for (const Profile::Slice& piece : run.pieces) {
      teams[static_cast<size_t>(piece.node)].insert(piece.thread);
    }
  }
  std::vector<int> sizes;
  for (const auto& team : teams) sizes.push_back(std::max(1, static_cast<int>(team.size())));
  return sizes;
}

void TakeTimes(ProfileReport& report, const std::vector<Profile>& runs) {
  for (size_t i = 0; i < report.operators.size(); ++i) {
    ProfileOperator& op = report.operators[i];
    std::vector<double> seconds;
    for (const Profile& run : runs) {
      if (i < run.steps.size()) seconds.push_back(run.steps[i].seconds());
    }
    op.cost.seconds = Fastest(seconds);
    op.median = Median(std::move(seconds));
    op.algorithm = runs.front().work[i].algorithm;
    op.cost.flops = runs.front().work[i].flops;
    op.cost.bytes = runs.front().work[i].bytes;
  }
}

void TakeWalls(ProfileReport& report, const std::vector<Profile>& runs, std::vector<double> walls) {
  std::vector<double> profiled, explained;
  for (const Profile& run : runs) {
    const double steps = std::accumulate(
        run.steps.begin(), run.steps.end(), 0.0,
        [](double sum, const Profile::Slice& slice) { return sum + slice.seconds(); });
    profiled.push_back(run.seconds);
    explained.push_back(run.seconds > 0 ? steps / run.seconds : 0);
  }
  report.profiled_wall = Fastest(profiled);
  report.explained = Median(explained);
  report.wall = Fastest(walls);
  report.median_wall = Median(std::move(walls));
  report.timeline =
      *std::min_element(runs.begin(), runs.end(),
                        [](const Profile& a, const Profile& b) { return a.seconds < b.seconds; });
}

}  // namespace

void ProfileCost::Add(const ProfileCost& other) {
  seconds += other.seconds;
  flops += other.flops;
  bytes += other.bytes;
  ideal += other.ideal;
}

std::string ProfileReport::Place() const {
  if (on_gpu()) return "device " + device.ToString() + ", " + gpu;
  return "isa " + std::string(Name(isa)) + "  threads " + std::to_string(threads);
}

double ProfileReport::Peak(DType dtype) const {
  if (on_gpu()) {
    return roofs.compute.empty() ? std::numeric_limits<double>::infinity()
                                 : Flops(roofs.compute.front());
  }
  double peak = 1;
  for (const MachineRoofs::Compute& compute : roofs.compute) {
    const bool usable = compute.dtype == DType::kF32 || compute.dtype == dtype;
    if (compute.isa == isa && usable) peak = std::max(peak, Flops(compute));
  }
  return peak;
}

std::string RoofName(const ProfileReport& report, const MachineRoofs::Compute& compute) {
  const std::string name = report.on_gpu() ? "tensor cores" : std::string(Name(compute.isa));
  return compute.dtype == DType::kF32 ? name : name + " " + std::string(Name(compute.dtype));
}

double ProfileReport::Read(const MachineRoofs::Memory& m) const {
  return threads > 1 ? m.all : m.one;
}

size_t ProfileReport::Size(const MachineRoofs::Memory& m) const {
  return threads > 1 ? m.size_all : m.size_one;
}

void Analyze(ProfileReport& report, const std::vector<Profile>& runs, std::vector<double> walls) {
  for (const NodeReport& node : report.plan.nodes) {
    ProfileOperator& op = report.operators.emplace_back();
    op.name = node.name;
    op.type = node.type;
    op.inputs = node.inputs;
    op.outputs = node.outputs;
    op.sharing = node.sharing;
  }
  TakeTimes(report, runs);
  TakeWalls(report, runs, std::move(walls));
  const std::vector<int> teams = TeamSizes(runs, report.operators.size());
  for (size_t i = 0; i < report.operators.size(); ++i) {
    ProfileOperator& op = report.operators[i];
    op.threads = teams[i];
    double weights = 0;
    if (const int index = report.graph.FindOperator(op.name); index >= 0) {
      const Operator& source = report.graph.operators[static_cast<size_t>(index)];
      weights = WeightBytes(report.graph, source);
      if (!source.outputs.empty()) {
        op.dtype = report.graph.operands[static_cast<size_t>(source.outputs.front())].dtype;
      }
    }
    Judge(report, weights, op);
    report.total.Add(op.cost);
  }
  for (ProfileOperator& op : report.operators) {
    op.share = report.total.seconds > 0 ? op.cost.seconds / report.total.seconds : 0;
  }
}

std::vector<ProfileGroup> GroupByType(const ProfileReport& report) {
  std::map<std::string, ProfileGroup> types;
  for (const ProfileOperator& op : report.operators) {
    ProfileGroup& group = types[op.type];
    group.name = op.type;
    ++group.count;
    group.cost.Add(op.cost);
    group.share += op.share;
  }
  std::vector<ProfileGroup> groups;
  for (auto& [type, group] : types) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.cost.seconds > b.cost.seconds; });
  return groups;
}

std::vector<ProfileGroup> GroupByModule(const ProfileReport& report) {
  std::vector<ProfileGroup> groups;
  std::map<std::string, size_t> index;                       // by path
  std::map<std::string, std::vector<std::string>> children;  // by path, "" for the roots
  for (const ProfileOperator& op : report.operators) {
    const std::string path = op.module.empty() ? "(no module)" : op.module;
    std::string parent;
    int depth = 0;
    for (size_t end = path.find('.');; end = path.find('.', end + 1), ++depth) {
      const std::string prefix = path.substr(0, end);
      const auto [found, added] = index.try_emplace(prefix, groups.size());
      if (added) {
        groups.push_back({prefix, depth, 0, {}, 0});
        children[parent].push_back(prefix);
      }
      ProfileGroup& group = groups[found->second];
      ++group.count;
      group.cost.Add(op.cost);
      group.share += op.share;
      if (end == std::string::npos) break;
      parent = prefix;
    }
  }
  std::vector<ProfileGroup> sorted;
  std::vector<std::string> open(children[""].rbegin(), children[""].rend());
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    sorted.push_back(groups[index[path]]);
    const auto& below = children[path];
    open.insert(open.end(), below.rbegin(), below.rend());
  }
  return sorted;
}

}  // namespace oort::cli
