// SPDX-License-Identifier: MIT
// The module oort._oort, on which the package oort is written.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "cuda/device.h"
#include "embedder.h"
#include "errors.h"
#include "language.h"
#include "network.h"
#include "oort/isa.h"
#include "operator.h"
#include "quantizer.h"
#include "reranker.h"
#include "unlocked.h"

namespace oort::python {
namespace {

/// What this machine can run networks on.
std::vector<std::string> Devices() {
  std::vector<std::string> names = {"cpu"};
  RunUnlocked(false, [&](const std::stop_token&) {
    std::string reason;
    const size_t count = cuda::Devices(&reason).size();
    for (size_t i = 0; i < count; ++i) names.push_back("cuda:" + std::to_string(i));
  });
  return names;
}

std::vector<std::string_view> Isas() {
  std::vector<std::string_view> names;
  for (const Isa isa : SupportedIsas()) names.push_back(Name(isa));
  return names;
}

}  // namespace
}  // namespace oort::python

NB_MODULE(_oort, module) {
  using namespace oort::python;
  nb::set_leak_warnings(false);  // what a program still holds at its end is its own affair
  module.attr("__version__") = OORT_VERSION;
  BindUnlocked(module);
  BindErrors(module);
  BindNetwork(module);
  BindLanguage(module);
  BindEmbedder(module);
  BindReranker(module);
  BindOperator(module);
  BindQuantizer(module);
  module.def("devices", &Devices);
  module.def("isas", &Isas);
}
