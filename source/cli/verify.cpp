// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "cli/compare.h"
#include "cli/model.h"
#include "cli/text.h"
#include "core/parallel.h"

namespace oort::cli {
namespace {

namespace fs = std::filesystem;

struct VerifyArguments {
  std::vector<std::string> cases;
  Tolerance limits;
  bool own_limits = false;
  ModelOptions model;
  int jobs = 1;
  bool skip_unsupported = false, json = false;
};

struct Result {
  enum Status { kPassed, kFailed, kSkipped } status = kFailed;
  std::string name, reason;
  double max_absolute = 0, max_relative = 0;
  std::optional<double> from_f32;  // largest difference over the largest output
  std::vector<std::string> unsupported;
  std::map<std::string, int> on_cpu;  // operators that another device left to the CPU
};

bool IsCase(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().ends_with(".pnnx.param")) return true;
  }
  return false;
}

/// The folder itself, or the case folders in it, sorted by name.
std::vector<fs::path> Expand(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> cases;
  if (!IsCase(folder) && fs::is_directory(folder, error)) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (IsCase(entry.path())) cases.push_back(entry.path());
    }
    std::sort(cases.begin(), cases.end());
  }
  if (cases.empty()) cases.push_back(folder);  // it passes or says what is wrong with it
  return cases;
}

std::string CaseName(const fs::path& folder) {
  const fs::path path = folder.lexically_normal();
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return SingleLine(name.string());
}

/// inN.npy for pnnx_input_N: pnnx may have dropped an input, so the numbers can have gaps.
std::vector<Tensor> ReadCaseInputs(const fs::path& folder, const std::vector<Port>& ports) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::string& name = ports[i].name;
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    fs::path file = folder / ("in" + name.substr(digits) + ".npy");
    if (digits == name.size() || !fs::exists(file)) {
      file = folder / ("in" + std::to_string(i) + ".npy");
    }
    inputs.push_back(ReadNpy(file));
  }
  return inputs;
}

std::vector<Tensor> ReadExpected(const fs::path& folder) {
  std::vector<Tensor> outputs;
  for (;;) {
    const fs::path file = folder / ("out" + std::to_string(outputs.size()) + ".npy");
    if (!fs::exists(file)) break;
    outputs.push_back(ReadNpy(file));
  }
  if (outputs.empty()) throw Error(ErrorCode::kNotFound, "the folder has no out0.npy");
  return outputs;
}

std::vector<std::string> UnknownOperators(const ModelFiles& files) {
  std::set<std::string> unknown;
  const LayerRegistry& registry = LayerRegistry::Global();
  for (const Operator& op : ReadPnnxParam(*files.OpenParam()).operators) {
    if (!op.IsPort() && registry.Schema(op.type) == nullptr) unknown.insert(op.type);
  }
  return {unknown.begin(), unknown.end()};
}

/// Largest difference over the largest output, of all outputs.
double ShareOfLargest(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  double share = 0;
  for (size_t i = 0; i < got.size() && i < want.size(); ++i) {
    const Comparison comparison = Compare(got[i], want[i], {});
    if (comparison.max_absolute == 0) continue;
    share = std::max(share, comparison.max_absolute / comparison.largest);
  }
  return share;
}

/// What a precision below f32 may cost where the user does not say: a share of the largest output.
void LoosenLimits(const std::vector<Tensor>& want, Tolerance& limits) {
  constexpr double kShare = 0.02;
  double largest = 0;
  for (const Tensor& tensor : want) {
    largest = std::max(largest, Compare(tensor, tensor, {}).largest);
  }
  limits.absolute = std::max(limits.absolute, kShare * largest);
}

void CompareOutputs(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                    const Tolerance& limits, Result& result) {
  if (got.size() != want.size()) {
    result.reason =
        std::to_string(got.size()) + " outputs, expected " + std::to_string(want.size());
    return;
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const Comparison comparison = Compare(got[i], want[i], limits);
    result.max_absolute = std::max(result.max_absolute, comparison.max_absolute);
    result.max_relative = std::max(result.max_relative, comparison.max_relative);
    if (!comparison.difference.empty() && result.reason.empty()) {
      result.reason = "out" + std::to_string(i) + comparison.difference;
    }
  }
  if (result.reason.empty()) result.status = Result::kPassed;
}

void RunCase(const fs::path& path, const VerifyArguments& options, const LoadOptions& given,
             int threads, Result& result) {
  const ModelFiles files = FindModel(path.string());
  const fs::path folder = files.param.parent_path();
  if (options.skip_unsupported) {
    result.unsupported = UnknownOperators(files);
    if (!result.unsupported.empty()) {
      result.status = Result::kSkipped;
      return;
    }
  }
  const std::vector<Tensor> want = ReadExpected(folder);
  LoadOptions load = given;
  if (options.model.IsAuto()) {
    load.precision = options.model.ChooseModel(files, load).chosen.precision;
  }
  Tolerance limits = options.limits;
  const auto run = [&](const LoadOptions& how) {
    const auto graph = LoadModel(files, how);
    Session session(graph, {.threads = threads});
    const std::vector<Tensor> inputs = ReadCaseInputs(folder, graph->inputs());
    if (graph->device() == Device::Cpu()) return Forward(session, inputs);
    for (const NodeReport& node : graph->Plan(inputs).nodes) {
      if (!node.fallback.empty()) ++result.on_cpu[node.type];
    }
    // The second run is recorded, and the third is a replay.
    for (int i = 0; i < 2; ++i) Forward(session, inputs);
    return Forward(session, inputs);
  };
  const std::vector<Tensor> got = run(load);
  if (load.precision != Precision::kF32) {
    LoadOptions exact = load;
    exact.precision = Precision::kF32;
    result.from_f32 = ShareOfLargest(got, run(exact));
    if (!options.own_limits) LoosenLimits(want, limits);
  }
  CompareOutputs(got, want, limits, result);
}

Result Check(const fs::path& folder, const VerifyArguments& options, const LoadOptions& load,
             int threads) {
  Result result;
  result.name = CaseName(folder);
  try {
    RunCase(folder, options, load, threads, result);
  } catch (const Error& error) {
    result.reason = SingleLine(Summary(error));
  } catch (const std::bad_alloc&) {
    result.reason = "out of memory";
  } catch (const std::exception& error) {
    result.reason = SingleLine(error.what());
  }
  return result;
}

void PrintLine(const Result& result, int width) {
  std::string name = result.name;
  name.resize(std::max(name.size(), static_cast<size_t>(width)), ' ');
  switch (result.status) {
    case Result::kPassed:
      std::cout << "ok   " << name << "  max_abs " << FormatNumber(result.max_absolute, 3)
                << "  max_rel " << FormatNumber(result.max_relative, 3);
      if (result.from_f32) std::cout << "  from_f32 " << FormatNumber(*result.from_f32, 3);
      std::cout << '\n';
      break;
    case Result::kFailed: std::cout << "FAIL " << name << "  " << result.reason << '\n'; break;
    case Result::kSkipped:
      std::cout << "skip " << name << "  unsupported: " << Join(result.unsupported, ", ") << '\n';
      break;
  }
  std::cout.flush();
}

/// Runs all cases on options.jobs threads; `done` sees the results in order.
std::vector<Result> RunAll(const std::vector<fs::path>& cases, const VerifyArguments& options,
                           const std::function<void(const Result&)>& done) {
  const LoadOptions load = options.model.Load();
  const int jobs = std::min(options.jobs, static_cast<int>(cases.size()));
  const int threads = options.model.threads == 0 && jobs > 1
                          ? std::max(1, AvailableThreads() / jobs)
                          : options.model.threads;
  std::vector<Result> results(cases.size());
  std::vector<bool> ready(cases.size());
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      results[i] = Check(cases[i], options, load, threads);
      const std::lock_guard lock(mutex);
      ready[i] = true;
      changed.notify_one();
    }
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < jobs; ++i) workers.emplace_back(work);
  for (size_t i = 0; i < cases.size(); ++i) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready[i]; });
    lock.unlock();
    done(results[i]);
  }
  return results;
}

Json ResultToJson(const Result& result) {
  static constexpr const char* kNames[] = {"passed", "failed", "skipped"};
  Json json = {{"name", result.name}, {"status", kNames[result.status]}};
  if (!result.reason.empty()) json["reason"] = result.reason;
  if (!result.unsupported.empty()) json["unsupported"] = result.unsupported;
  if (result.status == Result::kPassed) {
    json["max_abs"] = result.max_absolute;
    json["max_rel"] = result.max_relative;
    if (result.from_f32) json["from_f32"] = *result.from_f32;
  }
  return json;
}

int Verify(const VerifyArguments& options) {
  std::vector<fs::path> cases;
  for (const std::string& folder : options.cases) {
    for (fs::path& path : Expand(folder)) cases.push_back(std::move(path));
  }
  int width = 0;
  for (const fs::path& path : cases)
    width = std::max(width, static_cast<int>(CaseName(path).size()));
  const std::vector<Result> results = RunAll(cases, options, [&](const Result& result) {
    if (!options.json) PrintLine(result, std::min(width, 40));
  });
  int counts[3] = {};
  std::set<std::string> unsupported;
  std::map<std::string, int> on_cpu;
  Json all = Json::array();
  for (const Result& result : results) {
    ++counts[result.status];
    unsupported.insert(result.unsupported.begin(), result.unsupported.end());
    for (const auto& [type, count] : result.on_cpu) on_cpu[type] += count;
    all.push_back(ResultToJson(result));
  }
  const int failed = counts[Result::kFailed] > 0 ? 1 : 0;
  if (options.json) {
    Print(std::cout, {{"passed", counts[Result::kPassed]},
                      {"failed", counts[Result::kFailed]},
                      {"skipped", counts[Result::kSkipped]},
                      {"on_cpu", on_cpu},
                      {"cases", all}});
    return failed;
  }
  if (!unsupported.empty()) {
    std::cout << "unsupported operators: " << Join({unsupported.begin(), unsupported.end()}, ", ")
              << '\n';
  }
  if (!on_cpu.empty()) {
    std::vector<std::string> names;
    for (const auto& [type, count] : on_cpu) names.push_back(type + " x" + std::to_string(count));
    std::cout << "on the CPU: " << Join(names, ", ") << '\n';
  }
  std::cout << counts[Result::kPassed] << " passed, " << counts[Result::kFailed] << " failed";
  if (options.skip_unsupported) std::cout << ", " << counts[Result::kSkipped] << " skipped";
  std::cout << '\n';
  return failed;
}

}  // namespace

Action AddVerify(CLI::App& app) {
  auto options = std::make_shared<VerifyArguments>();
  VerifyArguments& o = *options;
  app.add_option("CASE", o.cases, "Folders of cases, or folders that contain such folders")
      ->required();
  app.add_option("--rtol", o.limits.relative, "Allowed difference relative to torch's value")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--atol", o.limits.absolute, "Allowed difference besides")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--skip-unsupported", o.skip_unsupported,
               "Count cases with unknown operators as skipped, and name the operators");
  app.add_option("--jobs", o.jobs, "Cases at the same time")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  o.model.AddThreads(app);
  o.model.AddLoad(app);
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "A case is a folder with\n"
      "  model.pnnx.param  model.pnnx.bin    the network\n"
      "  in0.npy in1.npy …                   its inputs\n"
      "  out0.npy out1.npy …                 what torch answered\n"
      "It passes when every output has the same shape and dtype, floats with\n"
      "|ours - torch| <= atol + rtol * |torch| (NaN equals NaN), integers exactly.\n"
      "With --precision below f32 each line says besides how far the outputs are from those in "
      "f32:\n"
      "the largest difference over the largest output; unless --rtol or --atol is given, 0.02 of\n"
      "the largest output is allowed.\n"
      "The last line is 'N passed, M failed'; the exit code is 0 if none failed.\n"
      "Example: all cases of a folder\n"
      "  oort verify cases --jobs 4");
  return [options, &app] {
    options->own_limits = app.count("--rtol") + app.count("--atol") > 0;
    return Verify(*options);
  };
}

}  // namespace oort::cli
