// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <map>
#include <numeric>
#include <string>

#include "cli/inputs.h"
#include "cli/memory_growth.h"
#include "cli/model.h"
#include "cli/text.h"

namespace oort::cli {
namespace {

struct BenchArguments {
  ModelOptions model;
  MeasuredRuns measured;
  bool json = false;
};

struct Timing {
  double min = 0, mean = 0, median = 0, p90 = 0;  // milliseconds
};

Timing Summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t count = times.size();
  Timing timing;
  timing.min = times.front();
  timing.mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(count);
  timing.median = (times[(count - 1) / 2] + times[count / 2]) / 2;
  timing.p90 = times[(count * 9 + 9) / 10 - 1];
  return timing;
}

/// Milliseconds of each run: by the clock, and of all processors together.
struct Times {
  std::vector<double> wall, cpu;
};

Times MeasureTimes(Session& session, const std::vector<Tensor>& inputs,
                   const BenchArguments& options) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Value> values(inputs.begin(), inputs.end());
  for (int i = 0; i < options.measured.warmup; ++i) session.Run(values);
  Times times;
  for (int i = 0; i < options.measured.runs; ++i) {
    const Clock::time_point start = Clock::now();
    const std::clock_t cpu_start = std::clock();
    session.Run(values);
    const std::clock_t cpu_end = std::clock();
    times.wall.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    times.cpu.push_back(1e3 * static_cast<double>(cpu_end - cpu_start) / CLOCKS_PER_SEC);
  }
  return times;
}

/// Which algorithms the convolutions of a plan take.
class ConvReport {
 public:
  ConvReport(const PlanReport& plan, const std::string& wanted) : wanted_(wanted) {
    for (const NodeReport& node : plan.nodes) {
      const std::string algorithm(node.work.algorithm);
      if (algorithm.empty()) continue;
      ++counts_[algorithm];
      ++all_;
      if (algorithm != wanted) others_.push_back({{"name", node.name}, {"algorithm", algorithm}});
    }
  }

  /// Throws where one is wanted and no convolution takes it.
  void Check() const {
    if (wanted_.empty() || counts_.contains(wanted_)) return;
    const std::string why = all_ == 0 ? "the model has no convolution"
                                      : "none of the model's " + std::to_string(all_) +
                                            " convolutions can be computed by it here; they take " +
                                            Text();
    throw Error(ErrorCode::kUnsupported, "--conv " + wanted_ + ": " + why);
  }

  void Add(Json& json) const {
    json["convolutions"] = counts_;
    if (wanted_.empty()) return;
    json["conv"] = wanted_;
    json["fallbacks"] = others_;
  }

  /// "conv winograd-f4 12 of 20; not accepted by it: direct 7, depthwise 1"
  void Print(std::ostream& out) const {
    if (wanted_.empty()) return;
    out << "conv " << wanted_ << ' ' << counts_.at(wanted_) << " of " << all_;
    if (!others_.empty()) out << "; not accepted by it: " << Text();
    out << '\n';
  }

 private:
  std::string Text() const {
    std::vector<std::string> parts;
    for (const auto& [name, count] : counts_) {
      if (name != wanted_) parts.push_back(name + " " + std::to_string(count));
    }
    return Join(parts, ", ");
  }

  std::string wanted_;
  std::map<std::string, int> counts_;
  int all_ = 0;
  Json others_ = Json::array();
};

int Bench(const BenchArguments& options) {
  using Clock = std::chrono::steady_clock;
  LayerRegistry::Global();  // no part of the model
  MemoryGrowth growth;
  const Clock::time_point start = Clock::now();
  const auto graph = options.model.LoadModel();
  const double load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const std::vector<Tensor> inputs = options.measured.Inputs(graph->inputs());
  Session session(graph, options.model.ForSession());
  const ConvReport convolutions(graph->Plan(inputs, session.threads()), options.model.conv);
  convolutions.Check();
  const Times times = MeasureTimes(session, inputs, options);
  const Timing timing = Summarize(times.wall);
  // What the plan says that model and session hold, and how much the process has really grown.
  growth.Measure();
  const MemoryReport memory = graph->Plan(inputs, session.threads()).memory;
  size_t input_bytes = 0;
  for (const Tensor& input : inputs) input_bytes += input.bytes();
  const size_t planned = memory.Held() + input_bytes;
  const size_t planned_peak = std::max(memory.Peak(), planned);
  std::vector<std::string> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.ToString());
  if (options.json) {
    Json json = {{"model", options.model.model},
                 {"inputs", shapes},
                 {"isa", Name(graph->isa())},
                 {"precision", Name(graph->precision())},
                 {"threads", session.threads()},
                 {"warmup", options.measured.warmup},
                 {"runs", options.measured.runs},
                 {"load_ms", load_ms},
                 {"memory",
                  {{"weights", memory.weights},
                   {"structures", memory.structures},
                   {"arena", memory.arena},
                   {"outputs", memory.outputs},
                   {"inputs", input_bytes},
                   {"planned", planned},
                   {"resident", growth.resident()},
                   {"planned_peak", planned_peak},
                   {"peak", growth.peak()}}},
                 {"min_ms", timing.min},
                 {"mean_ms", timing.mean},
                 {"p90_ms", timing.p90},
                 {"median_ms", timing.median},
                 {"times_ms", times.wall},
                 {"cpu_times_ms", times.cpu}};
    convolutions.Add(json);
    Print(std::cout, json);
    return 0;
  }
  std::cout << options.model.model << "  inputs " << (shapes.empty() ? "none" : Join(shapes, " "))
            << "  isa " << Name(graph->isa()) << "  precision " << Name(graph->precision())
            << "  threads " << session.threads() << "  runs " << options.measured.runs << '\n';
  convolutions.Print(std::cout);
  std::cout << "load_ms " << FormatFixed(load_ms, 3) << '\n'
            << "memory_planned " << planned << " (weights " << memory.weights << ", structures "
            << memory.structures << ", arena " << memory.arena << ", outputs " << memory.outputs
            << ", inputs " << input_bytes << "), at most " << planned_peak << '\n'
            << "memory_resident " << growth.resident() << ", at most " << growth.peak() << '\n'
            << "min_ms " << FormatFixed(timing.min, 3) << '\n'
            << "mean_ms " << FormatFixed(timing.mean, 3) << '\n'
            << "p90_ms " << FormatFixed(timing.p90, 3) << '\n'
            << "median_ms " << FormatFixed(timing.median, 3) << '\n';
  return 0;
}

}  // namespace

Action AddBench(CLI::App& app) {
  auto options = std::make_shared<BenchArguments>();
  BenchArguments& o = *options;
  o.model.AddModel(app);
  o.model.AddThreads(app);
  o.measured.Add(app, 10000000);
  o.model.AddLoad(app);
  o.model.AddConv(app);
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "Inputs are random, of the traced shapes, unless given. The last line is 'median_ms X'.\n"
      "Example: one thread, half the size\n"
      "  oort bench resnet18.pnnx.param --threads 1 --runs 50 --shape in0=1,3,112,112\n"
      "Example: all 3x3 convolutions by Winograd's F(4,3), beside what would be taken\n"
      "  oort bench resnet18.pnnx.param --conv winograd-f4");
  return [options] { return Bench(*options); };
}

}  // namespace oort::cli
