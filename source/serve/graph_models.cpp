// SPDX-License-Identifier: MIT
#include "serve/graph_models.h"

#include "core/problems.h"
#include "openai/request_error.h"

namespace oort::serve {

std::vector<ModelSource> GraphModels::Sources() const {
  std::vector<ModelSource> sources;
  for (const GraphSource& source : sources_) {
    const auto load = [&source]() -> std::unique_ptr<Resident> {
      return std::make_unique<GraphRunner>(source.load(), source.options, source.guessed_bytes);
    };
    sources.push_back({source.name, load, source.guessed_bytes});
  }
  return sources;
}

size_t GraphModels::Find(std::string_view name) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].name == name) return first_ + i;
  }
  throw openai::RequestError({404, "there is no graph " + Quote(name) + " here",
                              "invalid_request_error", "model", "model_not_found"});
}

}  // namespace oort::serve
