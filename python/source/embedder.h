// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace oort::python {

void BindEmbedder(nanobind::module_& module);

}  // namespace oort::python
