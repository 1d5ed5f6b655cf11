// SPDX-License-Identifier: MIT
// Whole graphs that pnnx wrote, against torch's answers: the project's own cases in test/corpus,
// and a larger collection beside the checkout where there is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

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

std::vector<fs::path> OwnCases() { return CasesIn(fs::path(OORT_TEST_DATA) / "corpus"); }

std::vector<fs::path> SharedCases() {
  return CasesIn(fs::path(OORT_SOURCE_DIR) / ".." / "shared" / "corpus" / "cases");
}

/// Operator types that are known to be missing; a case is skipped only for these.
const std::set<std::string>& PlannedOperators() {
  static const std::set<std::string> planned = [] {
    std::set<std::string> types;
    std::ifstream file(fs::path(OORT_TEST_DATA) / "conformance" / "planned_operators.txt");
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.front() != '#') types.insert(line);
    }
    return types;
  }();
  return planned;
}

std::set<std::string> UnknownOperators(const fs::path& folder) {
  const Graph graph = ReadPnnxParam(*ByteSource::File(folder / "model.pnnx.param"));
  std::set<std::string> unknown;
  for (const Operator& op : graph.operators) {
    if (!op.IsPort() && LayerRegistry::Global().Schema(op.type) == nullptr) unknown.insert(op.type);
  }
  return unknown;
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
TEST_P(SharedCorpus, AnswersLikeTorch) {
  std::string missing;
  for (const std::string& type : UnknownOperators(GetParam())) {
    ASSERT_TRUE(PlannedOperators().count(type)) << type << " is not known and not planned";
    missing += " " + type;
  }
  if (!missing.empty()) GTEST_SKIP() << "operators still to come:" << missing;
  testing::ExpectCasePasses(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, SharedCorpus, ::testing::ValuesIn(SharedCases()), TestName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedCorpus);

TEST(PlannedOperators, AreStillMissing) {
  for (const std::string& type : PlannedOperators()) {
    EXPECT_EQ(LayerRegistry::Global().Schema(type), nullptr)
        << type << " is there: remove it from planned_operators.txt";
  }
}

}  // namespace
}  // namespace oort
