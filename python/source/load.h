// SPDX-License-Identifier: MIT
// From files or bytes and keywords of Python to a network.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "oort/session.h"

namespace oort::python {

struct LoadedNetwork {
  std::shared_ptr<const RuntimeGraph> graph;
  SessionOptions session;
};

/// `param` and `bin` are paths as text or bytes of these files; `bin` may be None. `options` has
/// the keywords of oort.load, all of them.
LoadedNetwork LoadNetwork(nanobind::handle param, nanobind::handle bin,
                          const nanobind::dict& options);
/// Reads the graph alone, with its weights.
Graph ReadNetwork(nanobind::handle param, nanobind::handle bin);
/// A function of Python that is told how far a load has come; empty for None.
ProgressFunction ProgressOf(nanobind::handle function);

}  // namespace oort::python
