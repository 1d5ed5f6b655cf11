// SPDX-License-Identifier: MIT
// What every fuzz target has beside LLVMFuzzerTestOneInput. Linked with libFuzzer, a target
// searches with coverage as long as it is told to; with `--fixed=N` it runs a list of inputs that
// depends on nothing but the seeds: that is the test.
//
//   TARGET --fixed=N [--first=K] [--keep-going] [-dict=FILE] [--replay=DIR] [DIR…]
//
// runs the files of each DIR, mutations K … K+N-1 of each of them and of each generator, and the
// files of the DIR to replay, all in the order of their names. With --keep-going each seed has a
// process of its own, and a failure does not end the run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "random.h"

namespace oort::fuzz {

struct Target {
  /// Another input like this one; empty where bytes are changed without knowing what they mean.
  std::function<std::string(const std::string& input, Random& random)> mutate;
  /// Names of what can be generated without a seed, and an input for one of them.
  std::vector<std::string> generators;
  std::function<std::string(const std::string& name, Random& random)> generate;
};

/// Each target defines it.
Target MakeTarget();

/// Counts the inputs that got all the way, for the summary of a fixed run.
void CountWhole();

}  // namespace oort::fuzz
