// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "oort/error.h"

namespace oort::python {

/// What a function of Python raised, as an Error of this code with `context` before it. When that
/// comes back to Python, the exception is its cause; KeyboardInterrupt, SystemExit and others that
/// are no `Exception` come back themselves. Needs Python's lock.
Error ErrorOf(nanobind::python_error& raised, ErrorCode code = ErrorCode::kInvalidArgument,
              const std::string& context = {});

/// Text of an object for a message: str() of it, and repr() of it cut where it gets long. Neither
/// throws.
std::string StrOf(nanobind::handle object) noexcept;
std::string ShortReprOf(nanobind::handle object) noexcept;

/// An oort::Error becomes the exception of oort/_errors.py for its code.
void BindErrors(nanobind::module_& module);

}  // namespace oort::python
