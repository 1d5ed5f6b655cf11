// SPDX-License-Identifier: MIT
#include "cli/device_option.h"

#include <charconv>

#include "core/cpu_limits.h"

namespace oort::cli {

void DeviceOption::Add(CLI::App& app) {
  app.add_option("--device", text, "Where the model runs: cpu, cuda or cuda:N (see 'oort devices')")
      ->type_name("DEVICE")
      ->capture_default_str();
}

Device DeviceOption::Get() const {
  if (text == "cpu") return Device::Cpu();
  if (text == "cuda") return Device::Cuda(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    int index = -1;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (error == std::errc() && rest == end && index >= 0) return Device::Cuda(index);
  }
  throw UsageError("--device: '" + text + "' is not cpu, cuda or cuda:N");
}

void AddThreads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "Threads; 0, the default: all that the process may use")
      ->type_name("N")
      ->check(CLI::Range(0, kMostThreads));
}

}  // namespace oort::cli
