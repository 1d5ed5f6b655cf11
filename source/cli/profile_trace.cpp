// SPDX-License-Identifier: MIT
// The timeline of one run as trace events: operators on one track, the pieces of each thread on
// tracks of their own, the bytes of activations in use as a counter.
#include <algorithm>

#include "cli/profile_report.h"

namespace oort::cli {
namespace {

constexpr int kProcess = 1, kOperators = 1, kFirstThread = 2;

Json Named(const char* what, int track, const std::string& name) {
  return {
      {"ph", "M"}, {"pid", kProcess}, {"tid", track}, {"name", what}, {"args", {{"name", name}}}};
}

Json SliceEvent(const Profile::Slice& slice, int track, const ProfileOperator& op) {
  return {{"ph", "X"},
          {"pid", kProcess},
          {"tid", track},
          {"name", op.name},
          {"cat", op.type},
          {"ts", slice.begin * 1e6},
          {"dur", slice.seconds() * 1e6}};
}

Json Details(const ProfileOperator& op) {
  Json details = {{"type", op.type},          {"module", op.module},
                  {"inputs", op.inputs},      {"outputs", op.outputs},
                  {"bound", op.bound},        {"GFLOP/s", op.cost.gflops()},
                  {"GB/s", op.cost.gbytes()}, {"roof", op.cost.roof()}};
  if (!op.algorithm.empty()) details["algorithm"] = op.algorithm;
  return details;
}

void AddMemory(const ProfileReport& report, Json& events) {
  for (const Profile::Slice& step : report.timeline.steps) {
    double bytes = 0;
    for (const MemoryBlock& block : report.plan.blocks) {
      const bool used = block.first <= step.node && step.node <= block.last;
      if (used) bytes += static_cast<double>(block.bytes);
    }
    events.push_back({{"ph", "C"},
                      {"pid", kProcess},
                      {"name", "activations in use"},
                      {"ts", step.begin * 1e6},
                      {"args", {{"bytes", bytes}}}});
  }
}

}  // namespace

Json TraceJson(const ProfileReport& report) {
  Json events = Json::array();
  events.push_back(Named("process_name", kOperators, "oort " + report.model));
  events.push_back(Named("thread_name", kOperators, "operators"));
  int threads = 0;
  for (const Profile::Slice& piece : report.timeline.pieces) {
    threads = std::max(threads, piece.thread + 1);
  }
  for (int i = 0; i < threads; ++i) {
    events.push_back(Named("thread_name", kFirstThread + i, "thread " + std::to_string(i)));
  }
  for (const Profile::Slice& step : report.timeline.steps) {
    const ProfileOperator& op = report.operators[static_cast<size_t>(step.node)];
    Json event = SliceEvent(step, kOperators, op);
    event["args"] = Details(op);
    events.push_back(std::move(event));
  }
  for (const Profile::Slice& piece : report.timeline.pieces) {
    events.push_back(SliceEvent(piece, kFirstThread + piece.thread,
                                report.operators[static_cast<size_t>(piece.node)]));
  }
  AddMemory(report, events);
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace oort::cli
