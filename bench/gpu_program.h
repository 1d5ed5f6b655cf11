// SPDX-License-Identifier: MIT
// What programs that measure on a GPU begin and end with.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cuda/device.h"

namespace oort::bench {

/// Calls `run` with the arguments of main, if there is a GPU, and gives what main returns: says why
/// there is none, and what is wrong where it throws.
inline int RunOnGpu(int count, char** arguments, void (*run)(const std::vector<std::string>&)) {
  try {
    std::string reason;
    if (cuda::Devices(&reason).empty()) {
      std::printf("no GPU: %s\n", reason.c_str());
    } else {
      run({arguments + 1, arguments + count});
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// The numbers among arguments from `first` on, or those given where there are none.
inline std::vector<int64_t> NumbersFrom(const std::vector<std::string>& arguments, size_t first,
                                        std::vector<int64_t> otherwise) {
  std::vector<int64_t> numbers;
  for (size_t i = first; i < arguments.size(); ++i) numbers.push_back(std::stol(arguments[i]));
  return numbers.empty() ? otherwise : numbers;
}

}  // namespace oort::bench
