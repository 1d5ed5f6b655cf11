// SPDX-License-Identifier: MIT
// What a command of the program is: one file each, and one line in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>

namespace oort::cli {

/// The command line itself is wrong: one line on stderr and exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The exit code of a command that Ctrl-C ended, as shells report it.
inline constexpr int kInterrupted = 128 + SIGINT;

/// Runs a parsed command and returns the exit code.
using Action = std::function<int()>;

// Each declares its options on `app` and returns what runs it.
Action AddRun(CLI::App& app);
Action AddVerify(CLI::App& app);
Action AddInfo(CLI::App& app);
Action AddDoctor(CLI::App& app);
Action AddBench(CLI::App& app);
Action AddProfile(CLI::App& app);
Action AddConvert(CLI::App& app);
Action AddQuantize(CLI::App& app);
Action AddTokenize(CLI::App& app);
Action AddOperators(CLI::App& app);
Action AddDevices(CLI::App& app);
Action AddLimits(CLI::App& app);
Action AddGenerate(CLI::App& app);
Action AddChat(CLI::App& app);
Action AddServe(CLI::App& app);
Action AddBatch(CLI::App& app);
Action AddEmbed(CLI::App& app);
Action AddRerank(CLI::App& app);
Action AddBenchLlm(CLI::App& app);
Action AddBenchServe(CLI::App& app);
Action AddPerplexity(CLI::App& app);

}  // namespace oort::cli
