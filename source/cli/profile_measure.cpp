// SPDX-License-Identifier: MIT
#include "cli/profile_measure.h"

#include <chrono>
#include <filesystem>

#include "cuda/device.h"
#include "cuda/roofs.h"

namespace oort::cli {
namespace {

/// The shapes and dtypes of this run in place of those of the trace.
void NoteShapes(Graph& graph, const Operator& op, std::span<const Value> values) {
  for (size_t i = 0; i < values.size() && i < op.outputs.size(); ++i) {
    if (!values[i].IsTensor()) continue;
    Operand& operand = graph.operands[static_cast<size_t>(op.outputs[i])];
    operand.has_shape = true;
    operand.shape = values[i].AsTensor().shape();
    operand.dtype = values[i].AsTensor().dtype();
  }
}

/// One run that looks at every result: sizes that depend on data are known only then.
void TakeGraph(ProfileReport& report, Session& session, const std::vector<Value>& inputs,
               RunOptions options) {
  report.graph = session.graph().graph();
  const std::vector<int> ports = report.graph.InputOperators();
  for (size_t i = 0; i < ports.size() && i < inputs.size(); ++i) {
    NoteShapes(report.graph, report.graph.operators[static_cast<size_t>(ports[i])],
               std::span(inputs).subspan(i, 1));
  }
  options.observer = [&](const NodeEvent& event) {
    NoteShapes(report.graph, event.op, event.outputs);
    auto& outputs = report.plan.nodes[static_cast<size_t>(event.index)].outputs;
    for (size_t i = 0; i < event.outputs.size(); ++i) {
      if (event.outputs[i].IsTensor()) outputs[i] = event.outputs[i].ToString();
    }
  };
  session.Run(inputs, options);
}

/// Profiled runs and others in turns, so that both see the same machine.
void MeasureRuns(ProfileReport& report, Session& session, const std::vector<Value>& inputs,
                 const MeasuredRuns& measured, const ProfiledRun& base) {
  using Clock = std::chrono::steady_clock;
  std::vector<Profile> runs(static_cast<size_t>(measured.runs));
  std::vector<double> walls;
  for (int i = 0; i < measured.warmup; ++i) session.Run(inputs, base.options);
  for (Profile& profile : runs) {
    const Clock::time_point start = Clock::now();
    session.Run(inputs, base.options);
    walls.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    RunOptions profiled = base.options;
    profiled.profile = &profile;
    session.Run(inputs, profiled);
    for (size_t i = 0; i < profile.work.size(); ++i) {
      const auto more = base.more.find(report.plan.nodes[i].type);
      if (more == base.more.end()) continue;
      profile.work[i].flops += more->second.flops;
      profile.work[i].bytes += more->second.bytes;
    }
  }
  Analyze(report, runs, std::move(walls));
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string WithStep(const std::string& path, const std::string& step) {
  if (path.empty()) return path;
  std::filesystem::path named = path;
  const std::string extension = named.extension().string();
  return named.replace_extension("." + step + extension).string();
}

}  // namespace

MachineRoofs MeasureRoofsOf(const RuntimeGraph& graph, int threads) {
  if (graph.device().type == DeviceType::kCpu) return MeasureRoofs(threads);
  const cuda::Roofs measured = cuda::MeasureRoofs(graph.device().index);
  MachineRoofs roofs;
  if (measured.bf16_flops > 0) {
    roofs.compute = {{graph.isa(), DType::kBF16, measured.bf16_flops, measured.bf16_flops}};
  }
  roofs.memory = {{"memory", SIZE_MAX, SIZE_MAX, measured.read_bandwidth, measured.read_bandwidth}};
  roofs.loop_seconds = 2e-6;  // a kernel that does nothing, behind another
  return roofs;
}

ProfileReport MeasureProfile(Session& session, const std::vector<Tensor>& inputs,
                             const MeasuredRuns& measured, const MachineRoofs& roofs,
                             const ProfiledRun& base) {
  ProfileReport report;
  report.isa = session.graph().isa();
  report.device = session.graph().device();
  if (report.on_gpu()) {
    std::string reason;
    report.gpu = cuda::Devices(&reason).at(static_cast<size_t>(report.device.index)).name;
  }
  report.threads = session.threads();
  report.runs = measured.runs;
  report.roofs = roofs;
  for (const Tensor& input : inputs) report.inputs.push_back(input.ToString());
  report.plan = session.graph().Plan(inputs, session.threads());
  const std::vector<Value> values(inputs.begin(), inputs.end());
  TakeGraph(report, session, values, base.options);
  MeasureRuns(report, session, values, measured, base);
  return report;
}

void ProfileFiles::Write(const ProfileReport& report) const {
  if (!html.empty()) WriteTextFile(html, ProfileHtml(report));
  if (!trace.empty()) WriteTextFile(trace, Dump(TraceJson(report)));
  if (!dot.empty()) WriteTextFile(dot, ProfileDot(report));
  if (!param.empty()) WriteTextFile(param, ProfileParam(report));
  if (svg.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(svg, error);
  const std::filesystem::path folder = svg;
  WriteTextFile((folder / "roofline.svg").string(), RooflineSvg(report));
  WriteTextFile((folder / "memory.svg").string(), MemorySvg(report));
  WriteTextFile((folder / "graph.svg").string(), GraphSvg(report));
}

ProfileFiles ProfileFiles::For(const std::string& step) const {
  const auto named = [&](const std::string& path) { return WithStep(path, step); };
  return {named(html), named(trace), named(dot), named(param),
          svg.empty() ? svg : (std::filesystem::path(svg) / step).string()};
}

}  // namespace oort::cli
