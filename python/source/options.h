// SPDX-License-Identifier: MIT
// Keywords of Python as options of the engine: what cannot be one is refused in a sentence that
// names it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "oort/device.h"

namespace oort::python {

namespace nb = nanobind;

/// Throws kInvalidArgument: "threads cannot be 'many'".
[[noreturn]] void ThrowCannotBe(std::string_view name, nb::handle given);

template <typename T>
struct OptionReader {
  static T Read(nb::handle given, std::string_view name) {
    T value{};
    if (!nb::try_cast(given, value)) ThrowCannotBe(name, given);
    return value;
  }
};

/// Of a list that is wrong, the first wrong entry is told.
template <typename T>
struct OptionReader<std::vector<T>> {
  static std::vector<T> Read(nb::handle given, std::string_view name) {
    std::vector<T> values;
    if (nb::try_cast(given, values)) return values;
    if (PyList_Check(given.ptr()) == 0 && PyTuple_Check(given.ptr()) == 0) {
      ThrowCannotBe(name, given);
    }
    size_t index = 0;
    for (const nb::handle entry : given) {
      OptionReader<T>::Read(entry, std::string(name) + "[" + std::to_string(index++) + "]");
    }
    ThrowCannotBe(name, given);
  }
};

template <typename T>
T As(nb::handle given, std::string_view name) {
  return OptionReader<T>::Read(given, name);
}

/// A keyword, of which Python gives all. None leaves the option as it is: at its default.
template <typename T>
void Set(T& option, const nb::dict& given, const char* key) {
  const nb::object value = given[key];
  if (!value.is_none()) option = As<T>(value, key);
}

/// The same of a keyword that is a name; `parse` makes the option of it.
template <typename T, typename Parse>
void SetNamed(T& option, const nb::dict& given, const char* key, const Parse& parse) {
  const nb::object value = given[key];
  if (!value.is_none()) option = parse(As<std::string>(value, key));
}

/// "cpu", "cuda", "cuda:1"; throws kInvalidArgument.
Device DeviceOfName(const std::string& name);
/// The keyword `device`: such a name, or an object whose text is one (torch.device).
void SetDevice(Device& device, const nb::dict& given);

}  // namespace oort::python
