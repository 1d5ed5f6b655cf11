// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include "oort/error.h"

namespace oort::python {

/// What a function of Python raised, as an Error. When that comes back to Python, the exception is
/// its cause. Needs Python's lock.
Error ErrorOf(nanobind::python_error& raised);

/// An oort::Error becomes the exception of oort/_errors.py for its code.
void BindErrors(nanobind::module_& module);

}  // namespace oort::python
