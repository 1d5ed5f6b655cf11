// SPDX-License-Identifier: MIT
#include <string>

#include "c_api/border.h"
#include "core/version.h"
#include "cuda/device.h"
#include "oort/log.h"

namespace oort::c_api {
namespace {

constexpr const char* kLevels[] = {"debug", "info", "warning", "error"};

log::Level LevelOf(std::string_view name) {
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (kLevels[i] == name) return static_cast<log::Level>(i);
  }
  throw Error(ErrorCode::kInvalidArgument,
              "level is debug, info, warning or error, not '" + std::string(name) + "'");
}

const char* NameOfLevel(log::Level level) {
  const auto index = static_cast<size_t>(level);
  return index < std::size(kLevels) ? kLevels[index] : "error";
}

}  // namespace
}  // namespace oort::c_api

const char* oort_version(void) { return oort::LibraryVersion(); }

int32_t oort_abi_version(void) { return OORT_ABI_VERSION; }

int32_t oort_cuda_device_count(void) {
  return oort::c_api::Quietly(int32_t{0}, [] {
    std::string reason;
    return static_cast<int32_t>(oort::cuda::Devices(&reason).size());
  });
}

oort_code oort_log(const char* level, oort_on_log on_log, void* user, oort_error** error) {
  return oort::c_api::AtBorder(error, [&] {
    if (on_log == nullptr) {
      oort::log::SetSink({});
      return;
    }
    oort::c_api::Need(level, "level");
    oort::log::SetSink(
        [on_log, user](oort::log::Level which, std::string_view message) {
          on_log(oort::c_api::NameOfLevel(which), std::string(message).c_str(), user);
        },
        oort::c_api::LevelOf(level));
  });
}
