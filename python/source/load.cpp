// SPDX-License-Identifier: MIT
#include "load.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <shared_mutex>
#include <string>

#include "network.h"
#include "oort/pnnx.h"
#include "unlocked.h"

namespace oort::python {
namespace {

std::shared_mutex& OperatorsMutex() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

/// A path, or the bytes of a file.
std::shared_ptr<const ByteSource> SourceOf(nb::handle object) {
  if (nb::isinstance<nb::bytes>(object)) {
    const auto bytes = nb::cast<nb::bytes>(object);
    return ByteSource::Owned(std::string(bytes.c_str(), bytes.size()));
  }
  return ByteSource::File(nb::cast<std::string>(object));
}

/// A function of Python that any thread may call and forget.
class Callback {
 public:
  explicit Callback(nb::handle function) : function_(function.ptr()) { Py_INCREF(function_); }
  ~Callback() {
    if (IsExiting()) return;
    const Locked locked;
    Py_DECREF(function_);
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  template <typename... T>
  void operator()(const T&... values) const {
    const Locked locked;
    try {
      const nb::handle function = function_;
      function(values...);
    } catch (const nb::python_error& error) {
      // What it raises ends the load, as the engine's own errors do.
      throw Error(ErrorCode::kCancelled, std::string("progress: ") + error.what());
    }
  }

 private:
  PyObject* function_;
};

void CheckPasses(const std::vector<std::string>& names) {
  const std::vector<std::string> known = RuntimeGraph::PassNames();
  for (const std::string& name : names) {
    if (name == "all" || std::ranges::find(known, name) != known.end()) continue;
    std::string text = "there is no pass '" + name + "' to leave out; there are all";
    for (const std::string& other : known) text += ", " + other;
    throw Error(ErrorCode::kInvalidArgument, text);
  }
}

LoadOptions LoadOptionsOf(const nb::dict& options) {
  LoadOptions load;
  load.device = DeviceOfName(nb::cast<std::string>(options["device"]));
  load.precision = PrecisionOf(nb::cast<std::string>(options["precision"]));
  if (!options["isa"].is_none()) load.isa = IsaOf(nb::cast<std::string>(options["isa"]));
  load.conv_algorithm = nb::cast<std::string>(options["conv"]);
  load.disabled_passes = nb::cast<std::vector<std::string>>(options["without"]);
  CheckPasses(load.disabled_passes);
  load.verify_checksums = nb::cast<bool>(options["checksums"]);
  load.progress = ProgressOf(options["progress"]);
  return load;
}

SessionOptions SessionOptionsOf(const nb::dict& options) {
  SessionOptions session;
  session.threads = nb::cast<int>(options["threads"]);
  session.memory_limit = nb::cast<size_t>(options["memory_limit"]);
  if (session.threads < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "threads is 0 (all) or more, got " + std::to_string(session.threads));
  }
  return session;
}

}  // namespace

ProgressFunction ProgressOf(nb::handle function) {
  if (function.is_none()) return {};
  auto callback = std::make_shared<Callback>(function);
  return [callback](const Progress& progress) {
    (*callback)(std::string(progress.phase), progress.done, progress.total);
  };
}

LoadedNetwork LoadNetwork(nb::handle param, nb::handle bin, const nb::dict& options) {
  LoadOptions load = LoadOptionsOf(options);
  LoadedNetwork loaded;
  loaded.session = SessionOptionsOf(options);
  const std::shared_ptr<const ByteSource> graph = SourceOf(param);
  const std::shared_ptr<const ByteSource> weights = bin.is_none() ? nullptr : SourceOf(bin);
  RunUnlocked(true, [&](const std::stop_token& stop) {
    const ReadingOperators reading;
    load.stop = stop;
    loaded.graph = RuntimeGraph::Load(*graph, weights, load);
  });
  return loaded;
}

Graph ReadNetwork(nb::handle param, nb::handle bin) {
  const std::shared_ptr<const ByteSource> source = SourceOf(param);
  const std::shared_ptr<const ByteSource> weights = bin.is_none() ? nullptr : SourceOf(bin);
  std::optional<Graph> graph;
  RunUnlocked(true, [&](const std::stop_token& stop) {
    ReadOptions options;
    options.stop = stop;
    graph = ReadPnnx(*source, weights, options);
  });
  return std::move(*graph);
}

ReadingOperators::ReadingOperators() { OperatorsMutex().lock_shared(); }
ReadingOperators::~ReadingOperators() { OperatorsMutex().unlock_shared(); }

void AddOperator(OperatorSchema schema, LayerCreator creator, bool replace) {
  RunUnlocked(false, [&](const std::stop_token&) {
    const std::unique_lock lock(OperatorsMutex());
    LayerRegistry& registry = LayerRegistry::Global();
    replace ? registry.Replace(std::move(schema), std::move(creator))
            : registry.Add(std::move(schema), std::move(creator));
  });
}

}  // namespace oort::python
