// SPDX-License-Identifier: MIT
#include "errors.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "unlocked.h"

namespace oort::python {
namespace {

namespace nb = nanobind;

/// An exception of Python until the Error made of it is raised.
struct Cause {
  uint64_t call;     ///< in which it was raised; 0 where that is not known
  std::string text;  ///< that the Error's message holds
  PyObject* exception;
};

/// The newest first. There may be one for each call that is under way, so that threads which fail
/// at once all find theirs, and a few more: of an Error that never comes back to Python, such as
/// one that loading tries and gets over, nobody tells, and its exception goes when newer ones come.
/// Never destroyed: it holds objects of an interpreter that is gone by then.
std::deque<Cause>& Causes() {
  static auto* const causes = new std::deque<Cause>;
  return *causes;
}
constexpr size_t kMostForgotten = 8;

nb::object TextOf(std::string_view text) {
  // What comes from files need not be UTF-8, and a message must not fail for it.
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

/// Takes over the reference; null, with an error of Python, where there is no text.
std::string Utf8Of(PyObject* text) {
  const nb::object held = nb::steal(text);
  const nb::object bytes =
      nb::steal(held.is_valid() ? PyUnicode_AsEncodedString(held.ptr(), "utf-8", "backslashreplace")
                                : nullptr);
  if (bytes.is_valid()) {
    return {PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))};
  }
  PyErr_Clear();
  return "(without a text)";
}

/// The exception that this message was made of; null where it is of the engine's own. It is of the
/// call that failed, or of no known one: another thread may have raised the same text. Of these it
/// is the longest text that is in the message: "KeyError: 1" is in "KeyError: 12", too. An Error
/// carries none of it, since on their way several become one.
nb::object TakeCause(std::string_view message) {
  std::deque<Cause>& causes = Causes();
  const uint64_t call = TakeFailedCall();
  const auto rank = [&](const Cause& cause) {
    return std::pair(cause.call == call, cause.text.size());
  };
  auto found = causes.end();
  for (auto cause = causes.begin(); cause != causes.end(); ++cause) {
    const bool anothers = call != 0 && cause->call != 0 && cause->call != call;
    const bool better = found == causes.end() || rank(*cause) > rank(*found);
    if (!anothers && better && message.find(cause->text) != std::string_view::npos) found = cause;
  }
  if (found == causes.end()) return {};
  nb::object exception = nb::steal(found->exception);
  causes.erase(found);
  return exception;
}

void Raise(const Error& error) {
  try {
    nb::object cause = TakeCause(error.what());
    if (cause.is_valid() && PyErr_GivenExceptionMatches(cause.ptr(), PyExc_Exception) == 0) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause.ptr())), cause.ptr());
      return;
    }
    nb::list problems;
    for (const Problem& problem : error.problems()) {
      problems.append(nb::make_tuple(TextOf(Name(problem.code)), TextOf(problem.message),
                                     TextOf(problem.operator_name), TextOf(problem.operator_type),
                                     problem.line));
    }
    const nb::object made =
        nb::module_::import_("oort._errors")
            .attr("make")(TextOf(Name(error.code())), TextOf(error.what()), problems);
    if (cause.is_valid()) PyException_SetCause(made.ptr(), cause.release().ptr());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

}  // namespace

std::string StrOf(nb::handle object) noexcept { return Utf8Of(PyObject_Str(object.ptr())); }

std::string ShortReprOf(nb::handle object) noexcept {
  constexpr Py_ssize_t kMost = 80;
  const nb::object text = nb::steal(PyObject_Repr(object.ptr()));
  if (!text.is_valid() || PyUnicode_GetLength(text.ptr()) <= kMost) {
    return Utf8Of(text.is_valid() ? text.inc_ref().ptr() : nullptr);
  }
  return Utf8Of(PyUnicode_Substring(text.ptr(), 0, kMost)) + "…";
}

Error ErrorOf(nb::python_error& raised, ErrorCode code, const std::string& context) {
  std::string text = StrOf(raised.type().attr("__name__")) + ": " + StrOf(raised.value());
  // What ends the program is not what was passed: nobody may try again without it.
  if (!raised.matches(PyExc_Exception)) code = ErrorCode::kCancelled;
  if (raised.matches(PyExc_MemoryError)) code = ErrorCode::kOutOfMemory;
  std::deque<Cause>& causes = Causes();
  causes.push_front({CurrentCall(), text, raised.value().inc_ref().ptr()});
  while (causes.size() > kMostForgotten + CallsUnderWay()) {
    PyObject* const oldest = causes.back().exception;
    causes.pop_back();
    Py_DECREF(oldest);  // last: it may run anything, this function too
  }
  return {code, context + text};
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
