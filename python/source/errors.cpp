// SPDX-License-Identifier: MIT
#include "errors.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

namespace oort::python {
namespace {

namespace nb = nanobind;

/// The last exception of an operator in Python, until the Error made of it is raised.
PyObject* last_cause = nullptr;
std::string& LastText() {
  static auto* const text = new std::string;
  return *text;
}

nb::object TextOf(std::string_view text) {
  // What comes from files need not be UTF-8, and a message must not fail for it.
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

void Raise(const Error& error) {
  try {
    nb::list problems;
    for (const Problem& problem : error.problems()) {
      problems.append(nb::make_tuple(TextOf(Name(problem.code)), TextOf(problem.message),
                                     TextOf(problem.operator_name), TextOf(problem.operator_type),
                                     problem.line));
    }
    const nb::object made =
        nb::module_::import_("oort._errors")
            .attr("make")(TextOf(Name(error.code())), TextOf(error.what()), problems);
    if (last_cause != nullptr &&
        std::string_view(error.what()).find(LastText()) != std::string_view::npos) {
      PyException_SetCause(made.ptr(), std::exchange(last_cause, nullptr));
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

}  // namespace

Error ErrorOf(nb::python_error& raised) {
  const nb::handle type = raised.type();
  const auto name = nb::cast<std::string>(type.attr("__name__"));
  LastText() = name + ": " + nb::cast<std::string>(nb::str(raised.value()));
  Py_XDECREF(last_cause);
  last_cause = raised.value().inc_ref().ptr();
  return {ErrorCode::kInvalidArgument, LastText()};
}

void BindErrors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      Raise(error);
    }
  });
}

}  // namespace oort::python
