// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

namespace oort::python {

void BindReranker(nanobind::module_& module);

}  // namespace oort::python
