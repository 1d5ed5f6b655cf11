// SPDX-License-Identifier: MIT
// The tiny encoders and rerankers of this folder, with what transformers says with them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kit/files.h"
#include "kit/paths.h"

namespace oort {

inline std::filesystem::path TinyEncoder(const std::string& name) {
  return TestData() / "encoders" / name;
}

inline nlohmann::json AnswersOf(const std::string& name) {
  return nlohmann::json::parse(testing::FileBytes(TinyEncoder(name) / "answers.json"));
}

/// A copy of a folder, to change files of.
class EncoderCopy {
 public:
  explicit EncoderCopy(const std::string& name) {
    std::filesystem::copy(TinyEncoder(name), path(), std::filesystem::copy_options::recursive);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
};

/// Changes members of a file of such a copy.
inline void ChangeJson(const std::filesystem::path& file, const nlohmann::json& members) {
  nlohmann::json value = nlohmann::json::parse(testing::FileBytes(file));
  value.update(members);
  testing::WriteFile(file, value.dump());
}

inline void ExpectClose(std::span<const float> got, const std::vector<float>& expected,
                        const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << what << i;
}

}  // namespace oort
