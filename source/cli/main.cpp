// SPDX-License-Identifier: MIT
#include <array>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/language.h"
#include "cli/log_level.h"
#include "cli/text.h"
#include "cli/version.h"
#include "core/similar.h"
#include "oort/error.h"

namespace oort::cli {
namespace {

constexpr const char* kOverview =
    "Oort runs neural networks that PyTorch exported through pnnx, and language models.\n"
    "MODEL is a .pnnx.param file (its .pnnx.bin is found beside it) or a folder that holds one;\n"
    "language models are GGUF files, folders of Hugging Face and llama2.c checkpoints, too.";

constexpr const char* kFooter =
    "First steps:\n"
    "  oort doctor net.pnnx.param                      would it run here?\n"
    "  oort info net.pnnx.param                        what is in it, what does it cost?\n"
    "  oort run net.pnnx.param --input cat.jpg --labels labels.txt\n"
    "  oort bench net.pnnx.param --threads 4           how fast is it?\n"
    "  oort profile net.pnnx.param --html net.html     where does the time go?\n"
    "  oort chat SmolLM2.gguf                          talk with a language model\n"
    "  oort serve SmolLM2.gguf                         the same in a browser, and for programs\n"
    "'oort COMMAND --help' explains a command with an example.\n"
    "Exit codes: 0 success, 1 failure (one line on stderr), 2 wrong usage, 130 ended by Ctrl-C.";

struct Entry {
  const char* name;
  const char* summary;
  Action (*add)(CLI::App&);
};

constexpr std::array kCommands = {
    Entry{"run", "Run a model on .npy files or pictures", AddRun},
    Entry{"verify", "Compare models with the answers torch gave", AddVerify},
    Entry{"info", "Show operators, shapes, work and the memory plan", AddInfo},
    Entry{"doctor", "List everything that keeps a model from running", AddDoctor},
    Entry{"bench", "Measure how long a model takes", AddBench},
    Entry{"profile", "Show where the time goes, beside what the machine can do", AddProfile},
    Entry{"convert", "Rewrite a network or a language model as .pnnx.param with aligned weights",
          AddConvert},
    Entry{"quantize",
          "Put a network into 8 bits or a language model into 4 to 8, and say what that costs",
          AddQuantize},
    Entry{"generate", "Let a language model answer a prompt", AddGenerate},
    Entry{"chat", "Talk with a language model", AddChat},
    Entry{"serve", "Serve a language model to clients of OpenAI's API and to browsers", AddServe},
    Entry{"batch", "Answer a file of requests, many at once", AddBatch},
    Entry{"embed", "Turn texts into vectors with an encoder", AddEmbed},
    Entry{"rerank", "Sort texts by how well they answer a query", AddRerank},
    Entry{"bench-llm", "Measure how many tokens a second a language model reads and writes",
          AddBenchLlm},
    Entry{"bench-serve", "Measure a server of OpenAI's API under load", AddBenchServe},
    Entry{"perplexity", "Measure how well a language model predicts a text", AddPerplexity},
    Entry{"tokenize", "Show the tokens of a text as a language model sees it", AddTokenize},
    Entry{"operators", "List the operators that this build knows", AddOperators},
    Entry{"devices", "Show instruction sets, threads and GPUs", AddDevices},
    Entry{"limits", "Show the fastest that a language model can be on a machine", AddLimits},
};

int Fail(int code, const std::string& message) {
  std::cout.flush();
  std::cerr << "oort: " << SingleLine(message) << '\n';
  return code;
}

int Finish(int code) {
  if (!std::cout.flush()) return Fail(1, "cannot write to the standard output");
  return code;
}

/// "; did you mean X?", or nothing.
std::string Suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::vector<std::string> nearest = NearestNames(word, views, 1);
  return nearest.empty() ? "" : "; did you mean " + nearest.front() + "?";
}

/// CLI11 would only say that the word was not expected.
void CheckCommand(std::string_view word) {
  std::vector<std::string> names;
  for (const Entry& entry : kCommands) {
    if (word == entry.name) return;
    names.emplace_back(entry.name);
  }
  const std::string suggestion = Suggestion(word, names);
  throw UsageError("unknown command '" + std::string(word) + "'" +
                   (suggestion.empty() ? "; commands: " + Join(names, ", ") : suggestion));
}

/// The first option that `app` does not have, among what was left over. A slip there is why other
/// things are missing, so it is told before them.
std::optional<std::string> UnknownOption(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    const bool option = word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
    if (!option) continue;
    std::vector<std::string> names;
    for (const CLI::Option* known : app.get_options()) {
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    }
    const std::string name = word.substr(0, word.find('='));
    return "unknown option " + name + Suggestion(name, names);
  }
  return {};
}

int Main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') CheckCommand(argv[1]);
  CLI::App app{kOverview, "oort"};
  app.footer(kFooter);
  bool version = false, json = false;
  app.add_flag("--version", version, "Show the version and what is in this build");
  app.add_flag("--json", json, "With --version: print JSON");
  app.require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Entry& entry : kCommands) {
    CLI::App* command = app.add_subcommand(entry.name, entry.summary);
    const Action action = entry.add(*command);
    actions.emplace_back(command, [action, start_log = AddLogLevel(*command)] {
      start_log();
      return action();
    });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Finish(app.exit(error));  // --help
    const auto parsed = app.get_subcommands();
    const CLI::App& command = parsed.empty() ? app : *parsed.front();
    const std::string help = parsed.empty() ? "oort" : "oort " + command.get_name();
    return Fail(2, UnknownOption(command).value_or(error.what()) + " (see '" + help + " --help')");
  }
  if (version) return Finish(PrintVersion(json));
  for (const auto& [command, action] : actions) {
    if (command->parsed()) return Finish(action());
  }
  std::cout << app.help();
  return Finish(0);
}

}  // namespace
}  // namespace oort::cli

int main(int argc, char** argv) {
  using oort::cli::Fail;
  try {
    return oort::cli::Main(argc, argv);
  } catch (const oort::cli::UsageError& error) {
    return Fail(2, error.what());
  } catch (const oort::cli::LedToTheEnd&) {
    return 0;
  } catch (const oort::Error& error) {
    const bool interrupted = error.code() == oort::ErrorCode::kCancelled;
    return Fail(interrupted ? oort::cli::kInterrupted : 1, oort::cli::Summary(error));
  } catch (const std::bad_alloc&) {
    return Fail(1, "out of memory");
  } catch (const std::exception& error) {
    return Fail(1, error.what());
  }
}
