// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "core/problems.h"
#include "oort/graph.h"

namespace oort::pnnx {

inline constexpr std::string_view kMagic = "7767517";

/// What a parse of the text leaves behind.
struct ParamContent {
  Graph graph;
  /// Whether every operator line could be read so far that the edges are known; if not, what
  /// Graph::Check() finds would mostly be echoes.
  bool edges_known = true;
};

/// Reads a .param text. Attributes get a shape and a dtype but no elements. What is wrong goes
/// to `problems`; throws only where the text is no pnnx .param at all.
ParamContent ParseParam(std::string_view text, ProblemList& problems);

}  // namespace oort::pnnx
