// SPDX-License-Identifier: MIT
// What `oort profile` found out: one measurement, shown in several forms.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/text.h"
#include "oort/oort.h"

namespace oort::cli {

/// What was done and how long it took, beside the least time that the machine's roofs allow.
struct ProfileCost {
  double seconds = 0;  ///< of the fastest run: what other programs take does not count
  double flops = 0, bytes = 0;
  double ideal = 0;  ///< seconds at the roofs

  void Add(const ProfileCost& other);
  double gflops() const { return seconds > 0 ? flops / seconds / 1e9 : 0; }
  double gbytes() const { return seconds > 0 ? bytes / seconds / 1e9 : 0; }
  double roof() const { return seconds > 0 ? ideal / seconds : 0; }
};

struct ProfileOperator {
  std::string name, type, module;
  std::string algorithm;                     ///< where there are several for the operator
  std::vector<std::string> inputs, outputs;  ///< "(1,3,224,224)f32"
  DType dtype = DType::kF32;                 ///< of the first output
  std::string sharing;                       ///< "", "view of x", "in place of x"
  ProfileCost cost;
  double median = 0;  ///< seconds
  double share = 0;   ///< of the time of all operators
  std::string bound;  ///< "compute", a level of memory, "overhead", or "-" where nothing runs
  int threads = 1;    ///< that took part
};

/// Operators of one type or below one module.
struct ProfileGroup {
  std::string name;
  int depth = 0;  ///< of a module in the tree
  int count = 0;
  ProfileCost cost;
  double share = 0;
};

struct ProfileReport {
  std::string model;
  std::vector<std::string> inputs;
  Isa isa = Isa::kScalar;
  Device device;
  std::string gpu;  ///< its name; empty for the CPU
  int threads = 1, runs = 0;
  MachineRoofs roofs;
  PlanReport plan;
  Graph graph;  ///< as it runs, with the shapes of these inputs
  std::vector<ProfileOperator> operators;
  ProfileCost total;  ///< of all operators
  // Seconds of a whole Forward: the fastest of those that were not profiled, the one in the
  // middle of them, and the fastest of those that were.
  double wall = 0, median_wall = 0, profiled_wall = 0;
  double explained = 0;  ///< operators' share of the profiled wall time
  Profile timeline;      ///< the fastest run

  bool on_gpu() const { return device.type != DeviceType::kCpu; }
  /// "isa neon  threads 2", or the GPU.
  std::string Place() const;
  /// FLOPs a second of all threads together with the instructions in use; those of f32 where
  /// there are none for `dtype`.
  double Peak(DType dtype = DType::kF32) const;
  double Flops(const MachineRoofs::Compute& c) const {
    return threads > 1 ? c.flops_all : c.flops_one;
  }
  double Read(const MachineRoofs::Memory& m) const;  ///< bytes a second
  /// What a cost reaches of the last level of memory, and of the peak.
  double ShareOfMemory(const ProfileCost& cost) const {
    return cost.gbytes() * 1e9 / Read(roofs.memory.back());
  }
  double ShareOfPeak(const ProfileCost& cost) const { return cost.gflops() * 1e9 / Peak(); }
  size_t Size(const MachineRoofs::Memory& m) const;  ///< bytes that fit
};

/// Fills `operators` and what follows from the profiles of some runs and the walls of others.
void Analyze(ProfileReport& report, const std::vector<Profile>& runs, std::vector<double> walls);

/// "neon", or "neon f16" for what is not f32; "tensor cores bf16" of a GPU.
std::string RoofName(const ProfileReport& report, const MachineRoofs::Compute& compute);

/// Slowest first.
std::vector<ProfileGroup> GroupByType(const ProfileReport& report);
/// Every module path with all below it, parents before children, in the order of the graph.
std::vector<ProfileGroup> GroupByModule(const ProfileReport& report);

using ModuleMap = std::map<std::string, std::string>;  ///< module by operator
/// The module of each operator by its name: "layer1.0" for "layer1.0.conv1". Operators that lost
/// their names (pnnx calls a folded convolution "convbn2d_3") are given to their neighbours'.
ModuleMap FindModules(const Graph& graph);

// Forms.
void PrintProfile(std::ostream& out, const ProfileReport& report, const std::string& by, int top);
Json ProfileJson(const ProfileReport& report);
/// Trace events for Perfetto or chrome://tracing.
Json TraceJson(const ProfileReport& report);
std::string ProfileDot(const ProfileReport& report);
/// The graph as it runs as a .param, each operator with its profile_ms.
std::string ProfileParam(const ProfileReport& report);
std::string RooflineSvg(const ProfileReport& report);
std::string MemorySvg(const ProfileReport& report);
std::string GraphSvg(const ProfileReport& report);
std::string ProfileHtml(const ProfileReport& report);

}  // namespace oort::cli
