// SPDX-License-Identifier: MIT
// Tensors as KServe's inference protocol (version 2) sends them: in JSON, or as bytes behind it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/runtime_graph.h"
#include "openai/generate_call.h"

namespace oort::serve {

/// "FP32"; empty for what the protocol has no name for.
std::string_view V2Name(DType dtype);

/// A request for one run of a graph.
struct InferCall {
  std::string id;
  std::vector<Tensor> inputs;  ///< in the order of the graph's
  struct Output {
    size_t index = 0;
    bool binary = false;
  };
  std::vector<Output> outputs;  ///< that are wanted
};

/// `json_bytes`: so much of the body is JSON, and the bytes of tensors follow; none: all of it is.
/// Throws a RequestError that names the field.
InferCall ParseInferRequest(std::string_view body, std::optional<size_t> json_bytes,
                            const RuntimeGraph& graph, const openai::Limits& limits);

struct InferAnswer {
  std::string body;
  std::optional<size_t> json_bytes;  ///< set where bytes follow
};

/// Throws a RequestError for numbers that JSON cannot say.
InferAnswer WriteInferAnswer(const InferCall& call, const std::vector<Tensor>& outputs,
                             const RuntimeGraph& graph, std::string_view model);

}  // namespace oort::serve
