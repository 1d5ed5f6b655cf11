// SPDX-License-Identifier: MIT
// Networks and sessions.
#include <filesystem>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "c_api/border.h"
#include "c_api/cancellation.h"
#include "c_api/options.h"
#include "c_api/tensor.h"
#include "oort/session.h"

struct oort_network {
  std::shared_ptr<const oort::RuntimeGraph> graph;
};

struct oort_session {
  oort::Session session;
  oort::c_api::Cancellation cancellation;
  std::vector<oort::Tensor> inputs, outputs;  // kept, so that a run allocates nothing
};

namespace oort::c_api {
namespace {

const Port* PortOf(const std::vector<Port>& ports, size_t index) {
  return index < ports.size() ? &ports[index] : nullptr;
}
const Port* InputOf(const oort_network* network, size_t index) {
  return network == nullptr ? nullptr : PortOf(network->graph->inputs(), index);
}
const Port* OutputOf(const oort_network* network, size_t index) {
  return network == nullptr ? nullptr : PortOf(network->graph->outputs(), index);
}
const char* NameOf(const Port* port) { return port == nullptr ? nullptr : port->name.c_str(); }
oort_dtype DTypeOf(const Port* port) {
  return port == nullptr ? OORT_UNKNOWN : static_cast<oort_dtype>(port->dtype);
}
int32_t RankOf(const Port* port) {
  return port == nullptr || !port->has_shape ? -1 : port->shape.rank();
}
const int64_t* ExtentsOf(const Port* port) {
  return port == nullptr || !port->has_shape ? nullptr : port->shape.begin();
}

/// The weights beside a .param, if they are there.
std::filesystem::path BinOf(const std::filesystem::path& param) {
  std::filesystem::path bin = param;
  bin.replace_extension(".bin");
  std::error_code error;
  return bin != param && std::filesystem::exists(bin, error) ? bin : std::filesystem::path();
}

/// Tensors of a run go when it ends, and oort_session_cancel ends it.
class Running {
 public:
  explicit Running(oort_session& session) : session_(session), scope_(session.cancellation) {}
  ~Running() {
    session_.inputs.clear();
    session_.outputs.clear();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::stop_token token() const { return scope_.token(); }

 private:
  oort_session& session_;
  Cancellation::Scope scope_;
};

void Run(oort_session& session, std::span<const oort_tensor* const> inputs,
         std::span<oort_tensor*> outputs) {
  const size_t wanted = session.session.graph().outputs().size();
  if (outputs.size() != wanted) {
    throw Error(ErrorCode::kInvalidArgument, "the network has " + std::to_string(wanted) +
                                                 " outputs, and there is room for " +
                                                 std::to_string(outputs.size()));
  }
  const Running running(session);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Need(inputs[i], "input " + std::to_string(i));
    session.inputs.push_back(inputs[i]->tensor);
  }
  std::vector<std::unique_ptr<oort_tensor>> made;  // one for each output that is NULL
  for (oort_tensor* const output : outputs) {
    if (output == nullptr) made.push_back(std::make_unique<oort_tensor>());
    session.outputs.push_back(output == nullptr ? Tensor() : output->tensor);
  }
  RunOptions options;
  options.stop = running.token();
  session.session.ForwardInto(session.inputs, session.outputs, options);
  for (size_t i = 0, next = 0; next < made.size(); ++i) {
    if (outputs[i] != nullptr) continue;
    made[next]->tensor = session.outputs[i];
    outputs[i] = made[next++].release();
  }
}

}  // namespace
}  // namespace oort::c_api

using oort::c_api::AtBorder;
using oort::c_api::InputOf;
using oort::c_api::Need;
using oort::c_api::OutputOf;

oort_code oort_network_load(const char* param, const char* bin, const oort_options* options,
                            oort_network** network, oort_error** error) {
  return AtBorder(error, [&] {
    Need(network, "network");
    *network = nullptr;
    Need(param, "param");
    std::stop_source stop;
    const oort::LoadOptions load = oort::c_api::LoadOptionsOf(options, stop);
    const std::filesystem::path weights = bin == nullptr ? oort::c_api::BinOf(param) : bin;
    auto made = std::make_unique<oort_network>();
    made->graph = oort::RuntimeGraph::Load(param, weights, load);
    *network = made.release();
  });
}

oort_code oort_network_load_memory(const void* param, size_t param_bytes, const void* bin,
                                   size_t bin_bytes, const oort_options* options,
                                   oort_network** network, oort_error** error) {
  return AtBorder(error, [&] {
    Need(network, "network");
    *network = nullptr;
    Need(param, "param");
    if (bin_bytes > 0) Need(bin, "bin");
    std::stop_source stop;
    const oort::LoadOptions load = oort::c_api::LoadOptionsOf(options, stop);
    const auto bytes = [](const void* data, size_t size) {
      return oort::ByteSource::Memory({static_cast<const std::byte*>(data), size});
    };
    auto made = std::make_unique<oort_network>();
    made->graph = oort::RuntimeGraph::Load(*bytes(param, param_bytes),
                                           bin == nullptr ? nullptr : bytes(bin, bin_bytes), load);
    *network = made.release();
  });
}

size_t oort_network_input_count(const oort_network* network) {
  return network == nullptr ? 0 : network->graph->inputs().size();
}

size_t oort_network_output_count(const oort_network* network) {
  return network == nullptr ? 0 : network->graph->outputs().size();
}

const char* oort_network_input_name(const oort_network* network, size_t index) {
  return oort::c_api::NameOf(InputOf(network, index));
}

const char* oort_network_output_name(const oort_network* network, size_t index) {
  return oort::c_api::NameOf(OutputOf(network, index));
}

oort_dtype oort_network_input_dtype(const oort_network* network, size_t index) {
  return oort::c_api::DTypeOf(InputOf(network, index));
}

oort_dtype oort_network_output_dtype(const oort_network* network, size_t index) {
  return oort::c_api::DTypeOf(OutputOf(network, index));
}

int32_t oort_network_input_rank(const oort_network* network, size_t index) {
  return oort::c_api::RankOf(InputOf(network, index));
}

int32_t oort_network_output_rank(const oort_network* network, size_t index) {
  return oort::c_api::RankOf(OutputOf(network, index));
}

const int64_t* oort_network_input_extents(const oort_network* network, size_t index) {
  return oort::c_api::ExtentsOf(InputOf(network, index));
}

const int64_t* oort_network_output_extents(const oort_network* network, size_t index) {
  return oort::c_api::ExtentsOf(OutputOf(network, index));
}

void oort_network_free(oort_network* network) { delete network; }

oort_code oort_session_new(const oort_network* network, const oort_options* options,
                           oort_session** session, oort_error** error) {
  return AtBorder(error, [&] {
    Need(session, "session");
    *session = nullptr;
    Need(network, "network");
    oort::Session made(network->graph, oort::c_api::SessionOptionsOf(options));
    *session = new oort_session{std::move(made), {}, {}, {}};
  });
}

oort_code oort_session_run(oort_session* session, const oort_tensor* const* inputs,
                           size_t input_count, oort_tensor** outputs, size_t output_count,
                           oort_error** error) {
  return AtBorder(error, [&] {
    Need(session, "session");
    if (input_count > 0) Need(inputs, "inputs");
    if (output_count > 0) Need(outputs, "outputs");
    oort::c_api::Run(*session, {inputs, input_count}, {outputs, output_count});
  });
}

void oort_session_cancel(oort_session* session) {
  if (session != nullptr) session->cancellation.Cancel();
}

void oort_session_free(oort_session* session) { delete session; }
