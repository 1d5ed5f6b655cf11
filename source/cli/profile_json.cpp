// SPDX-License-Identifier: MIT
#include "cli/profile_report.h"

namespace oort::cli {
namespace {

Json CostJson(const ProfileCost& cost, double share) {
  return {{"ms", cost.seconds * 1e3},     {"share", share},          {"flops", cost.flops},
          {"bytes", cost.bytes},          {"gflops", cost.gflops()}, {"gbytes", cost.gbytes()},
          {"ideal_ms", cost.ideal * 1e3}, {"roof", cost.roof()}};
}

Json GroupsJson(const std::vector<ProfileGroup>& groups) {
  Json list = Json::array();
  for (const ProfileGroup& group : groups) {
    Json row = {{"name", group.name}, {"depth", group.depth}, {"operators", group.count}};
    row.update(CostJson(group.cost, group.share));
    list.push_back(std::move(row));
  }
  return list;
}

Json RoofsJson(const ProfileReport& report) {
  Json compute = Json::array(), memory = Json::array();
  for (const MachineRoofs::Compute& roof : report.roofs.compute) {
    compute.push_back({{"isa", report.on_gpu() ? "tensor cores" : Name(roof.isa)},
                       {"dtype", Name(roof.dtype)},
                       {"gflops_1", roof.flops_one / 1e9},
                       {"gflops_all", roof.flops_all / 1e9}});
  }
  for (const MachineRoofs::Memory& roof : report.roofs.memory) {
    Json row = {{"level", roof.name}, {"gbytes_1", roof.one / 1e9}, {"gbytes_all", roof.all / 1e9}};
    row["size"] = roof.size_one == SIZE_MAX ? Json(nullptr) : Json(roof.size_one);
    memory.push_back(std::move(row));
  }
  return {{"threads", report.roofs.threads},
          {"compute", compute},
          {"memory", memory},
          {"empty_loop_us", report.roofs.loop_seconds * 1e6}};
}

Json MemoryJson(const ProfileReport& report) {
  Json blocks = Json::array();
  for (const MemoryBlock& block : report.plan.blocks) {
    blocks.push_back({{"name", block.name},
                      {"scratch", block.scratch},
                      {"offset", block.offset},
                      {"bytes", block.bytes},
                      {"first", block.first},
                      {"last", block.last}});
  }
  return {{"arena", report.plan.memory.arena},
          {"weights", report.plan.memory.weights},
          {"structures", report.plan.memory.structures},
          {"held", report.plan.memory.Held()},
          {"peak", report.plan.memory.Peak()},
          {"without_reuse", report.plan.memory.without_reuse},
          {"blocks", blocks}};
}

}  // namespace

Json ProfileJson(const ProfileReport& report) {
  Json operators = Json::array();
  for (const ProfileOperator& op : report.operators) {
    Json row = {{"name", op.name},     {"type", op.type},       {"module", op.module},
                {"inputs", op.inputs}, {"outputs", op.outputs}, {"sharing", op.sharing}};
    row.update(CostJson(op.cost, op.share));
    row["median_ms"] = op.median * 1e3;
    row["of_memory"] = report.ShareOfMemory(op.cost);
    row["of_peak"] = report.ShareOfPeak(op.cost);
    row["threads"] = op.threads;
    row["bound"] = op.bound;
    row["algorithm"] = op.algorithm;
    operators.push_back(std::move(row));
  }
  return {{"model", report.model},
          {"inputs", report.inputs},
          {"isa", Name(report.isa)},
          {"device", report.device.ToString()},
          {"threads", report.threads},
          {"runs", report.runs},
          {"wall_ms", report.wall * 1e3},
          {"median_wall_ms", report.median_wall * 1e3},
          {"profiled_wall_ms", report.profiled_wall * 1e3},
          {"explained", report.explained},
          {"total", CostJson(report.total, 1)},
          {"roofs", RoofsJson(report)},
          {"operators", operators},
          {"types", GroupsJson(GroupByType(report))},
          {"modules", GroupsJson(GroupByModule(report))},
          {"memory", MemoryJson(report)}};
}

}  // namespace oort::cli
