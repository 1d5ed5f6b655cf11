// SPDX-License-Identifier: MIT
// Settings by name, and what the C++ interfaces make of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "oort/c_network.h"
#include "oort/engine_loop.h"
#include "oort/grammar.h"
#include "oort/session.h"

struct oort_options {
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  oort_on_progress on_progress = nullptr;
  void* progress_user = nullptr;
};

namespace oort::c_api {

/// What the values of an option look like.
enum class OptionKind : unsigned char {
  kFlag,      ///< true or false
  kInteger,   ///< from `least` on
  kUnsigned,  ///< 64 bits
  kNumber,
  kChoice,  ///< one of `choices`, which stand between bars
  kText,
  kTexts,    ///< several
  kBiases,   ///< several ID=NUMBER
  kFiles,    ///< several NAME=PATH
  kDevice,   ///< cpu, cuda or cuda:N
  kNumbers,  ///< several integers
};

struct OptionSpec {
  const char* name;
  OptionKind kind;
  const char* help;
  int64_t least = 0;
  const char* choices = "";
};

/// All options, by what reads them.
std::span<const OptionSpec> OptionTable();

/// Throws kInvalidArgument for an unknown name, with those that look like it, or a wrong value.
void SetOption(oort_options& options, std::string_view name, const char* value);

/// Reads options, which may be null: then everything is unset.
class Settings {
 public:
  explicit Settings(const oort_options* options) : options_(options) {}

  std::optional<bool> Flag(std::string_view name) const;
  std::optional<int64_t> Integer(std::string_view name) const;
  std::optional<uint64_t> Unsigned(std::string_view name) const;
  std::optional<double> Number(std::string_view name) const;
  std::optional<std::string> Text(std::string_view name) const;
  const std::vector<std::string>& Texts(std::string_view name) const;

  Device GetDevice() const;
  Isa GetIsa() const;

 private:
  const oort_options* options_;
};

/// Loads with the caller's progress function, whose answer stops `stop`; both outlive the load.
LoadOptions LoadOptionsOf(const oort_options* options, std::stop_source& stop);
LanguageModelOptions ModelOptionsOf(const oort_options* options, std::stop_source& stop);
SessionOptions SessionOptionsOf(const oort_options* options);
EngineLoopOptions EngineOptionsOf(const oort_options* options);
/// All but the prompt, callbacks and the constraint.
GenerateRequest RequestOf(const oort_options* options);
/// What the answer is held to, if anything.
std::optional<GrammarSpec> GrammarOf(const oort_options* options);

}  // namespace oort::c_api
