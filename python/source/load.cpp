// SPDX-License-Identifier: MIT
#include "load.h"

#include <algorithm>
#include <optional>
#include <string>

#include "errors.h"
#include "oort/pnnx.h"
#include "options.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// A path, or the bytes of a file.
std::shared_ptr<const ByteSource> SourceOf(nb::handle object) {
  if (nb::isinstance<nb::bytes>(object)) {
    const auto bytes = nb::cast<nb::bytes>(object);
    return ByteSource::Owned(std::string(bytes.c_str(), bytes.size()));
  }
  // As Python spells it to the system: names of files need not be UTF-8.
  const nb::object path = nb::steal(PyUnicode_EncodeFSDefault(object.ptr()));
  if (!path.is_valid()) throw nb::python_error();
  return ByteSource::File(std::string(PyBytes_AsString(path.ptr())));
}

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
  SetDevice(load.device, options);
  SetNamed(load.precision, options, "precision", PrecisionOf);
  SetNamed(load.isa, options, "isa", IsaOf);
  Set(load.conv_algorithm, options, "conv");
  Set(load.disabled_passes, options, "without");
  CheckPasses(load.disabled_passes);
  Set(load.verify_checksums, options, "checksums");
  load.progress = ProgressOf(options["progress"]);
  return load;
}

SessionOptions SessionOptionsOf(const nb::dict& options) {
  SessionOptions session;
  Set(session.threads, options, "threads");
  Set(session.memory_limit, options, "memory_limit");
  if (session.threads < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "threads is 0 (all) or more, got " + std::to_string(session.threads));
  }
  return session;
}

}  // namespace

ProgressFunction ProgressOf(nb::handle function) {
  if (function.is_none()) return {};
  if (PyCallable_Check(function.ptr()) == 0) ThrowCannotBe("progress", function);
  auto callback = std::make_shared<const SharedObject>(nb::borrow(function));
  return [callback](const Progress& progress) {
    const Locked locked;
    try {
      callback->get()(std::string(progress.phase), progress.done, progress.total);
    } catch (nb::python_error& error) {
      // What it raises ends the load, as the engine's own errors do.
      throw ErrorOf(error, ErrorCode::kCancelled, "progress: ");
    }
  };
}

LoadedNetwork LoadNetwork(nb::handle param, nb::handle bin, const nb::dict& options) {
  LoadOptions load = LoadOptionsOf(options);
  LoadedNetwork loaded;
  loaded.session = SessionOptionsOf(options);
  const std::shared_ptr<const ByteSource> graph = SourceOf(param);
  const std::shared_ptr<const ByteSource> weights = bin.is_none() ? nullptr : SourceOf(bin);
  RunUnlocked(true, [&](const std::stop_token& stop) {
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

}  // namespace oort::python
