// SPDX-License-Identifier: MIT
// The graphs of a server, which answer by KServe's inference protocol.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/graph_runner.h"
#include "serve/model_pool.h"

namespace oort::serve {

/// A graph that is loaded when somebody asks for it.
struct GraphSource {
  std::string name;
  std::function<std::shared_ptr<const RuntimeGraph>()> load;
  GraphOptions options = {};
  size_t guessed_bytes = 0;
};

/// Thread contract: immutable.
class GraphModels {
 public:
  /// In the pool their numbers begin with `first`.
  GraphModels(std::vector<GraphSource> sources, size_t first)
      : sources_(std::move(sources)), first_(first) {}

  std::vector<ModelSource> Sources() const;
  /// The number of that model in the pool. Throws 404.
  size_t Find(std::string_view name) const;
  const std::vector<GraphSource>& list() const { return sources_; }

 private:
  const std::vector<GraphSource> sources_;
  const size_t first_;
};

}  // namespace oort::serve
