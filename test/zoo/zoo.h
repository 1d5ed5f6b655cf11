// SPDX-License-Identifier: MIT
// A test for each broken model: the right error, little memory, nothing left behind.
#pragma once

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "memory_use.h"
#include "model.h"

namespace oort::testing {

struct Broken {
  const char* name;
  void (*spoil)(Model& model);
  ErrorCode code;
  const char* text;  ///< must be part of the message
};

inline std::string BrokenName(const ::testing::TestParamInfo<Broken>& info) {
  return info.param.name;
}
inline void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

/// What a load of these files may take at most, in bytes.
inline size_t MemoryLimit(const Model& model, size_t factor = 32) {
  return (model.param.size() + model.Bin().size()) * factor + (size_t{1} << 20);
}

/// Runs `load`, which must fail, and holds its memory against the limit.
template <typename Load>
void ExpectFailsCheaply(const Model& model, const Load& load, ErrorCode code, const char* text) {
  const auto param = ByteSource::Owned(model.param);
  const auto bin = ByteSource::Owned(model.Bin());
  const MemoryUse use = Measure([&] { ExpectThrows([&] { load(*param, bin); }, code, text); });
  EXPECT_LE(use.peak, MemoryLimit(model));
  EXPECT_EQ(use.left, 0u);
}

/// Models that the reader refuses.
class Zoo : public ::testing::TestWithParam<Broken> {};

}  // namespace oort::testing
