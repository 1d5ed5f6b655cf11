// SPDX-License-Identifier: MIT
// Which module of the network an operator belongs to. pnnx keeps the path of a module in the name
// of its operator ("layer1.0.relu"), but not for functions and not where it folded two modules
// into one; those are placed by what stands around them.
#include <algorithm>

#include "cli/profile_report.h"

namespace oort::cli {
namespace {

class ModuleFinder {
 public:
  explicit ModuleFinder(const Graph& graph)
      : graph_(graph), paths_(graph.operators.size()), position_(graph.operators.size()) {
    for (size_t i = 0; i < paths_.size(); ++i) paths_[i] = OwnPath(graph.operators[i]);
    named_ = paths_;
  }

  ModuleMap Run() {
    const std::vector<int> order = graph_.TopologicalOrder();
    for (size_t i = 0; i < order.size(); ++i) {
      position_[static_cast<size_t>(order[i])] = static_cast<int>(i);
    }
    // A layer with weights goes with a neighbour that still has its name.
    for (const int op : order) {
      if (Weighted(op) && At(op).empty())
        At(op) = Deepest(Named(Consumers(op)), Named(Producers(op)));
    }
    for (int round = 0; round < 3; ++round) {
      for (const int op : order) {
        if (!Weighted(op) && At(op).empty()) At(op) = DeepestOf(Paths(Producers(op)));
      }
      for (const int op : order) {
        if (Weighted(op) && At(op).empty()) PlaceWeighted(op);
      }
    }
    for (auto op = order.rbegin(); op != order.rend(); ++op) {
      if (At(*op).empty()) At(*op) = DeepestOf(Paths(Consumers(*op)));
    }
    ModuleMap modules;
    for (size_t i = 0; i < paths_.size(); ++i) modules[graph_.operators[i].name] = paths_[i];
    return modules;
  }

 private:
  /// "layer1.0" of "layer1.0.conv1". Functions are called "F.relu_3": a type is no path.
  static std::string OwnPath(const Operator& op) {
    const bool module = op.type.starts_with("nn.") || op.type.find('.') == std::string::npos;
    if (!module || op.name.starts_with(op.type)) return "";
    if (const size_t dot = op.name.rfind('.'); dot != std::string::npos) {
      return op.name.substr(0, dot);
    }
    // A module of the network itself, unless pnnx made the name up: "convbn2d_3", "pnnx_unique_0".
    const size_t end = op.name.find_last_not_of("0123456789");
    const bool made_up =
        end + 1 < op.name.size() && end != std::string::npos && op.name[end] == '_';
    return made_up ? "" : "(top)";
  }

  std::string& At(int op) { return paths_[static_cast<size_t>(op)]; }
  const Operator& Op(int op) const { return graph_.operators[static_cast<size_t>(op)]; }
  bool Weighted(int op) const { return !Op(op).attributes.empty() && !Op(op).IsPort(); }

  /// The one that ran last comes last.
  std::vector<int> Producers(int op) const {
    std::vector<int> list;
    for (const int input : Op(op).inputs) {
      const int producer = graph_.operands[static_cast<size_t>(input)].producer;
      if (producer >= 0) list.push_back(producer);
    }
    std::sort(list.begin(), list.end(), [&](int a, int b) {
      return position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)];
    });
    return list;
  }

  std::vector<int> Consumers(int op) const {
    std::vector<int> list;
    for (const int output : Op(op).outputs) {
      const auto& readers = graph_.operands[static_cast<size_t>(output)].consumers;
      list.insert(list.end(), readers.begin(), readers.end());
    }
    return list;
  }

  std::string Named(const std::vector<int>& ops) const {
    std::vector<std::string> paths;
    for (const int op : ops) paths.push_back(named_[static_cast<size_t>(op)]);
    return DeepestOf(paths);
  }

  std::vector<std::string> Paths(const std::vector<int>& ops) {
    std::vector<std::string> paths;
    for (const int op : ops) paths.push_back(At(op));
    return paths;
  }

  static auto Depth(const std::string& path) {
    return path.empty() ? -1 : std::count(path.begin(), path.end(), '.');
  }
  /// `a` where both are as deep.
  static std::string Deepest(const std::string& a, const std::string& b) {
    return Depth(b) > Depth(a) ? b : a;
  }
  /// The last of those that are as deep.
  static std::string DeepestOf(const std::vector<std::string>& paths) {
    std::string best;
    for (const std::string& path : paths) best = Deepest(path, best);
    return best;
  }

  /// A shortcut's convolution ends in the sum that it feeds; others follow what came before.
  void PlaceWeighted(int op) {
    std::vector<int> sums = Consumers(op);
    std::erase_if(sums, [&](int reader) { return Weighted(reader); });
    At(op) = DeepestOf(Paths(sums));
    if (At(op).empty()) At(op) = DeepestOf(Paths(Producers(op)));
  }

  const Graph& graph_;
  std::vector<std::string> paths_, named_;
  std::vector<int> position_;  ///< of each operator in the topological order
};

}  // namespace

ModuleMap FindModules(const Graph& graph) { return ModuleFinder(graph).Run(); }

}  // namespace oort::cli
