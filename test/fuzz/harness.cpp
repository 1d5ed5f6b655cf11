// SPDX-License-Identifier: MIT
#include "harness.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "byte_mutator.h"

extern "C" {
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
// Of the sanitizers, where the build has them.
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(
    void (*malloc_hook)(const volatile void*, size_t), void (*free_hook)(const volatile void*));
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes();
}

namespace oort::fuzz {
namespace {

constexpr size_t kMaxInput = 16384;
constexpr size_t kMaxMemory = size_t{1} << 30;  ///< more for some KB of input is a bug
constexpr unsigned kMaxSeconds = 120;           ///< hundreds of times what an input may take

std::string g_input, g_name;  // what runs now, for who has to tell of its failure
size_t g_whole = 0;

const Target& TheTarget() {
  static const Target target = MakeTarget();
  return target;
}

void SaveInput() {
  std::string path = "crash-" + g_name;
  std::replace(path.begin(), path.end(), '/', '-');
  std::replace(path.begin(), path.end(), ':', '-');
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const bool saved = file >= 0 && write(file, g_input.data(), g_input.size()) ==
                                      static_cast<ssize_t>(g_input.size());
  std::fprintf(stderr, "failed: %s (%zu bytes), %s ./%s\n", g_name.c_str(), g_input.size(),
               saved ? "saved as" : "could not be saved as", path.c_str());
}

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  SaveInput();
  _exit(1);
}

void OnAllocation(const volatile void*, size_t size) {
  if (size < size_t{1} << 20) return;
  if (size > kMaxMemory || __sanitizer_get_current_allocated_bytes() > kMaxMemory) {
    Fail("an input needs over 1 GiB of memory");
  }
}

void WatchFailures() {
  TheTarget();  // before there are other processes
  std::signal(SIGABRT, [](int) { Fail("aborted"); });
  std::signal(SIGALRM, [](int) { Fail("an input takes minutes"); });
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(SaveInput);
  if (__sanitizer_install_malloc_and_free_hooks != nullptr &&
      __sanitizer_get_current_allocated_bytes != nullptr) {
    __sanitizer_install_malloc_and_free_hooks(OnAllocation, [](const volatile void*) {});
  }
}

/// The files of a folder by name.
std::map<std::string, std::string> ReadFolder(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

struct FixedOptions {
  explicit FixedOptions(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) {
      const size_t equal = argument.find('=');
      const std::string value = equal == argument.npos ? "" : argument.substr(equal + 1);
      if (argument.starts_with("--fixed=")) {
        count = std::stoul(value);
      } else if (argument.starts_with("--first=")) {
        first = std::stoul(value);
      } else if (argument == "--keep-going") {
        keep_going = true;
      } else if (argument.starts_with("-dict=")) {
        words = ReadDictionary(value);
      } else if (argument.starts_with("--replay=")) {
        replay = ReadFolder(value);
      } else {
        seeds.push_back(ReadFolder(argument));
      }
    }
  }

  size_t count = 0, first = 0;
  bool keep_going = false;
  std::vector<std::string> words;
  std::map<std::string, std::string> replay;
  std::vector<std::map<std::string, std::string>> seeds;
};

class FixedRun {
 public:
  explicit FixedRun(const FixedOptions& options) : options_(options), bytes_(options.words) {
    WatchFailures();
  }

  /// Whether no input failed.
  bool All() {
    for (const auto& file : options_.replay) Alone([&] { Run(file.first, file.second); });
    for (const auto& folder : options_.seeds) {
      for (const auto& file : folder) Alone([&] { RunSeed(file.first, file.second); });
    }
    for (const std::string& name : TheTarget().generators) {
      Alone([&] {
        RunVariants(name, [&](Random& random) { return TheTarget().generate(name, random); });
      });
    }
    std::printf("ran %zu inputs, %zu of them to the end; checksum %016llx\n", count_, g_whole,
                static_cast<unsigned long long>(checksum_));
    return failures_ == 0;
  }

 private:
  /// In another process if a failure must not end the run; what is counted there is lost.
  template <typename Body>
  void Alone(const Body& body) {
    if (!options_.keep_going) return body();
    const pid_t child = fork();
    if (child == 0) {
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) ++failures_;
  }

  void RunSeed(const std::string& name, const std::string& input) {
    Run(name, input);
    RunVariants(name, [&](Random& random) {
      const bool blind = !TheTarget().mutate || random.OneIn(8);
      return blind ? bytes_.Mutate(input, random) : TheTarget().mutate(input, random);
    });
  }

  /// What is made of a seed does not depend on the other seeds: who adds one changes nothing else.
  template <typename Make>
  void RunVariants(const std::string& name, const Make& make) {
    for (size_t i = options_.first; i < options_.first + options_.count; ++i) {
      const std::string variant = name + ":" + std::to_string(i);
      Random random(Hash(variant));
      Run(variant, make(random));
    }
  }

  void Run(const std::string& name, std::string input) {
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    g_name = name;
    g_input = std::move(input);
    checksum_ = Hash(g_input, Hash(g_name, checksum_));
    ++count_;
    alarm(kMaxSeconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(g_input.data()), g_input.size());
    alarm(0);
  }

  const FixedOptions& options_;
  size_t count_ = 0, failures_ = 0;
  uint64_t checksum_ = Hash("");
  ByteMutator bytes_;
};

}  // namespace

void CountWhole() { ++g_whole; }

}  // namespace oort::fuzz

/// The first thing that libFuzzer's main calls.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::vector<std::string> arguments(*argv + 1, *argv + *argc);
  if (arguments.empty() || !arguments[0].starts_with("--fixed=")) return 0;
  const oort::fuzz::FixedOptions options(arguments);
  std::exit(oort::fuzz::FixedRun(options).All() ? 0 : 1);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace oort::fuzz;
  const Target& target = TheTarget();
  Random random(seed);
  if (!target.mutate || random.OneIn(8)) return LLVMFuzzerMutate(data, size, max_size);
  const std::string input(reinterpret_cast<const char*>(data), size);
  const bool fresh = !target.generators.empty() && random.OneIn(8);
  const std::string changed = fresh ? target.generate(random.Pick(target.generators), random)
                                    : target.mutate(input, random);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
