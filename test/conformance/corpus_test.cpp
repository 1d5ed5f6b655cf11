// SPDX-License-Identifier: MIT
// Whole graphs that pnnx wrote, against torch's answers: the project's own cases in test/corpus,
// and a larger collection beside the checkout where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "kit/paths.h"
#include "oort/testing.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> CasesIn(const fs::path& folder) {
  std::vector<fs::path> cases;
  if (!fs::is_directory(folder)) return cases;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.pnnx.param")) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::vector<fs::path> OwnCases() { return CasesIn(TestData() / "corpus"); }

std::vector<fs::path> SharedCases() {
  return CasesIn(SourceTree() / ".." / "shared" / "corpus" / "cases");
}

std::string TestName(const ::testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.filename().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

class OwnCorpus : public ::testing::TestWithParam<fs::path> {};
TEST_P(OwnCorpus, AnswersLikeTorch) { testing::ExpectCasePasses(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Cases, OwnCorpus, ::testing::ValuesIn(OwnCases()), TestName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OwnCorpus);

TEST(OwnCorpusFolder, HasCases) { EXPECT_GE(OwnCases().size(), 40u); }

class SharedCorpus : public ::testing::TestWithParam<fs::path> {};
TEST_P(SharedCorpus, AnswersLikeTorch) { testing::ExpectCasePasses(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Cases, SharedCorpus, ::testing::ValuesIn(SharedCases()), TestName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedCorpus);

}  // namespace
}  // namespace oort
