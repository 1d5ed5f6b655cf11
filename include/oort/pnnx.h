// SPDX-License-Identifier: MIT
// Reading and writing .pnnx.param and .pnnx.bin.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>

#include "oort/graph.h"
#include "oort/source.h"

namespace oort {

/// How far a load has come; `phase` is "read", "build" or "pack".
struct Progress {
  std::string_view phase;
  uint64_t done = 0;
  uint64_t total = 0;
};
using ProgressFunction = std::function<void(const Progress&)>;

struct ReadOptions {
  /// Compare every weight with its checksum. Costs one pass over the file.
  bool verify_checksums = true;
  std::stop_token stop;
  ProgressFunction progress;
};

/// Reads a model. Throws an Error that lists *all* problems found. Weights share the memory of
/// `bin` where it can be mapped and they are aligned, and are copied otherwise.
/// `bin` may be null for a model without attributes.
Graph ReadPnnx(const ByteSource& param, std::shared_ptr<const ByteSource> bin,
               const ReadOptions& options = {});
Graph ReadPnnx(const std::filesystem::path& param, const std::filesystem::path& bin,
               const ReadOptions& options = {});
/// The structure alone: attributes have a shape and a dtype but no elements.
Graph ReadPnnxParam(const ByteSource& param);

/// The text of a .param file.
std::string PnnxParamText(const Graph& graph);
/// Writes both files, weights aligned to 64 bytes; neither file appears unless both are whole.
void WritePnnx(const Graph& graph, const std::filesystem::path& param,
               const std::filesystem::path& bin);

}  // namespace oort
