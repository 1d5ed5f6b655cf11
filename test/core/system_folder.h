// SPDX-License-Identifier: MIT
// A folder that stands for one of the system's, as /sys/devices or that of control groups.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "kit/files.h"

namespace oort::testing {

class SystemFolder : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    WriteFile(root_ / file, text + '\n');
  }

 private:
  TemporaryFolder folder_;

 protected:
  const std::filesystem::path& root_ = folder_.path();
};

}  // namespace oort::testing
