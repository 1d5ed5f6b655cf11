// SPDX-License-Identifier: MIT
#include "core/guard.h"
#include "oort/pnnx.h"
#include "parser/pnnx/param.h"
#include "parser/pnnx/sniff.h"
#include "parser/pnnx/weights.h"

namespace oort {
namespace {

/// Parses the text and checks the structure.
Graph ReadStructure(const ByteSource& param, ProblemList& problems) {
  pnnx::CheckLooksLikeParam(param);
  const auto buffer = param.MapOrRead(0, param.size());
  const std::string_view text(reinterpret_cast<const char*>(buffer->data()), buffer->size());
  try {
    pnnx::ParamContent content = pnnx::ParseParam(text, problems);
    if (content.edges_known) problems.Add(content.graph.Check());
    return std::move(content.graph);
  } catch (const Error& error) {
    throw error.WithContext(param.name() + ": ");
  }
}

std::string Headline(const ByteSource& param) { return "cannot load " + param.name(); }

}  // namespace

Graph ReadPnnx(const ByteSource& param, std::shared_ptr<const ByteSource> bin,
               const ReadOptions& options) {
  return Guarded([&] {
    pnnx::CheckStop(options.stop);
    ProblemList problems;
    Graph graph = ReadStructure(param, problems);
    pnnx::CheckStop(options.stop);
    pnnx::LoadWeights(bin, options, graph, problems);
    problems.Throw(Headline(param));
    return graph;
  });
}

Graph ReadPnnx(const std::filesystem::path& param, const std::filesystem::path& bin,
               const ReadOptions& options) {
  const auto text = ByteSource::File(param);
  return ReadPnnx(*text, bin.empty() ? nullptr : ByteSource::File(bin), options);
}

Graph ReadPnnxParam(const ByteSource& param) {
  return Guarded([&] {
    ProblemList problems;
    Graph graph = ReadStructure(param, problems);
    problems.Throw(Headline(param));
    return graph;
  });
}

}  // namespace oort
