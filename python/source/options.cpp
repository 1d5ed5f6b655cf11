// SPDX-License-Identifier: MIT
#include "options.h"

#include <charconv>

#include "errors.h"
#include "oort/error.h"

namespace oort::python {

void ThrowCannotBe(std::string_view name, nb::handle given) {
  throw Error(ErrorCode::kInvalidArgument, std::string(name) + " cannot be " + ShortReprOf(given));
}

Device DeviceOfName(const std::string& name) {
  if (name == "cpu") return Device::Cpu();
  if (name == "cuda") return Device::Cuda(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (name.starts_with(kPrefix)) {
    int index = -1;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (error == std::errc() && rest == end && index >= 0) return Device::Cuda(index);
  }
  throw Error(ErrorCode::kInvalidArgument, "device '" + name + "' is not cpu, cuda or cuda:N");
}

void SetDevice(Device& device, const nb::dict& given) {
  const nb::object value = given["device"];
  if (!value.is_none()) device = DeviceOfName(StrOf(value));
}

}  // namespace oort::python
