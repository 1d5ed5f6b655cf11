// SPDX-License-Identifier: MIT
// Operators that are written in Python: for prototypes, as every call takes the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

namespace oort::python {

void BindOperator(nanobind::module_& module);

}  // namespace oort::python
