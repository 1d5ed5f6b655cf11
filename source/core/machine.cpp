// SPDX-License-Identifier: MIT
#include "core/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <variant>

#include "core/cpu_limits.h"
#include "core/parallel.h"
#include "oort/error.h"

namespace oort {
namespace {

namespace fs = std::filesystem;

/// Of the words that a processor is told by: implementer and part of an ARM core's MIDR.
struct MachineKind {
  unsigned implementer, part;
  const char* name;
  double clock, pipes, memory;
};

// Rates of the Neoverse-V1 were measured. Those of the others are estimates until somebody measures
// them: published numbers of pipes, usual clocks, and bandwidths of machines that have them.
constexpr MachineKind kMachineKinds[] = {
    {0x41, 0xd40, "Neoverse-V1", 2.6, 4, 25},
    {0x41, 0xd4f, "Neoverse-V2", 2.8, 4, 25},
    {0x41, 0xd49, "Neoverse-N2", 2.7, 2, 25},
    {0x41, 0xd0c, "Neoverse-N1", 2.5, 2, 25},
    {0x41, 0xd08, "Cortex-A72", 1.5, 1, 4},
    {0x41, 0xd0b, "Cortex-A76", 2.4, 2, 10},
    {0x61, 0x22, "Apple M1 (Icestorm)", 2.0, 2, 25},
    {0x61, 0x23, "Apple M1 (Firestorm)", 3.2, 4, 25},
};

/// What a core of this architecture is taken to be where there is no row for it.
Machine UsualMachine() {
  Machine machine;
#if defined(__aarch64__)
  machine.clock = 2.6;
  machine.pipes = 4;
  machine.memory = 25;
  machine.l1 = 64 << 10;
  machine.l2 = 1 << 20;
#else
  machine.clock = 2.8;
#endif
  return machine;
}

/// The first word, or number with a unit ("1024K"), of a small file.
std::string FirstWord(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// What stands behind a name in /proc/cpuinfo, first; "" where it does not.
std::string InfoOf(std::string_view cpuinfo, std::string_view name) {
  std::istringstream lines{std::string(cpuinfo)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

unsigned long HexOf(const std::string& text) { return std::strtoul(text.c_str(), nullptr, 16); }

/// The words that tell the kind: of MIDR's register, else of /proc/cpuinfo.
void ReadKind(const fs::path& cpu, std::string_view cpuinfo, Machine& machine) {
  unsigned long implementer = HexOf(InfoOf(cpuinfo, "CPU implementer"));
  unsigned long part = HexOf(InfoOf(cpuinfo, "CPU part"));
  if (const std::string midr = FirstWord(cpu / "regs/identification/midr_el1"); !midr.empty()) {
    implementer = HexOf(midr) >> 24 & 0xff;
    part = HexOf(midr) >> 4 & 0xfff;
  }
  for (const MachineKind& kind : kMachineKinds) {
    if (kind.implementer != implementer || kind.part != part) continue;
    machine.kind = kind.name;
    machine.known = true;
    machine.clock = kind.clock;
    machine.pipes = kind.pipes;
    machine.memory = kind.memory;
    machine.flops = 4 * kind.pipes;  // of plain loops: less than a multiply-add for each lane
    return;
  }
  machine.kind = InfoOf(cpuinfo, "model name");
  if (machine.kind.empty() && part != 0) {
    std::ostringstream name;
    name << std::hex << "implementer 0x" << implementer << ", part 0x" << part;
    machine.kind = name.str();
  }
}

/// "64K" or "32768K" or "2M".
int64_t SizeOf(const std::string& text) {
  char* end = nullptr;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (number <= 0 || number > 1 << 30) return 0;
  return static_cast<int64_t>(number) << (*end == 'G'   ? 30
                                          : *end == 'M' ? 20
                                          : *end == 'K' ? 10
                                                        : 0);
}

void ReadCaches(const fs::path& cpu, Machine& machine) {
  constexpr int kMostCaches = 8;
  for (int i = 0; i < kMostCaches; ++i) {
    const fs::path cache = cpu / "cache" / ("index" + std::to_string(i));
    const int64_t size = SizeOf(FirstWord(cache / "size"));
    if (size == 0 || FirstWord(cache / "type") == "Instruction") continue;
    const std::string level = FirstWord(cache / "level");
    if (level == "1") machine.l1 = size;
    if (level == "2") machine.l2 = size;
    if (level == "3") machine.l3 = size;
  }
}

int CountNodes(const fs::path& folder) {
  int nodes = 0;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos) {
      ++nodes;
    }
  }
  return std::max(1, nodes);
}

/// A field and what it may be.
struct NamedField {
  std::string_view name;
  std::variant<int Machine::*, int64_t Machine::*, double Machine::*> field;
  double least, most;
};
constexpr double kTerabyte = 1099511627776.0;
constexpr NamedField kMachineFields[] = {
    {"processors", &Machine::processors, 1, kMostThreads},
    {"cores", &Machine::cores, 1, kMostThreads},
    {"nodes", &Machine::nodes, 1, kMostThreads},
    {"l1", &Machine::l1, 1, kTerabyte},
    {"l2", &Machine::l2, 1, kTerabyte},
    {"l3", &Machine::l3, 0, kTerabyte},
    {"clock", &Machine::clock, 1e-3, 1e3},
    {"pipes", &Machine::pipes, 1e-3, 1e3},
    {"memory", &Machine::memory, 1e-3, 1e6},
    {"moves", &Machine::moves, 1e-3, 1e6},
    {"flops", &Machine::flops, 1e-3, 1e6},
    {"join", &Machine::join, 0, 1e12},
    {"join_thread", &Machine::join_thread, 0, 1e12},
    {"wake", &Machine::wake, 0, 1e12},
    {"wake_thread", &Machine::wake_thread, 0, 1e12},
};

[[noreturn]] void ThrowMachine(const std::string& problem) {
  std::string names;
  for (const NamedField& field : kMachineFields) {
    names += (names.empty() ? "" : ", ") + std::string(field.name);
  }
  throw Error(ErrorCode::kInvalidArgument, "OORT_MACHINE: " + problem +
                                               "; write name=number with commas between, as in "
                                               "l2=256K,cores=4; there are " +
                                               names);
}

double NumberOf(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !std::isfinite(number)) return -1;
  if (unit.empty()) return number;
  if (unit == "K") return number * 1024;
  if (unit == "M") return number * 1024 * 1024;
  if (unit == "G") return number * 1024 * 1024 * 1024;
  return -1;
}

void SetMachineField(std::string_view name, std::string_view text, Machine& machine) {
  for (const NamedField& named : kMachineFields) {
    if (named.name != name) continue;
    const double number = NumberOf(text);
    if (!(number >= named.least && number <= named.most)) {
      std::ostringstream range;
      range << named.least << " to " << named.most;
      ThrowMachine("'" + std::string(text) + "' is no number for " + std::string(name) + ", from " +
                   range.str());
    }
    std::visit(
        [&](auto field) {
          machine.*field = static_cast<std::decay_t<decltype(machine.*field)>>(number);
        },
        named.field);
    return;
  }
  ThrowMachine("'" + std::string(name) + "' is not known of a machine");
}

Machine MachineToUse() {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo{std::istreambuf_iterator<char>(file), {}};
  Machine machine = ProbeMachine("/sys/devices/system", cpuinfo, AffinityProcessors());
  if (const char* changes = std::getenv("OORT_MACHINE")) ChangeMachine(changes, machine);
  return machine;
}

}  // namespace

Machine ProbeMachine(const fs::path& sysfs, std::string_view cpuinfo,
                     std::span<const int> processors) {
  Machine machine = UsualMachine();
  machine.processors = static_cast<int>(processors.size());
  machine.cores = CountCores(processors, sysfs / "cpu");
  machine.nodes = CountNodes(sysfs / "node");
  const fs::path cpu =
      sysfs / "cpu" / ("cpu" + std::to_string(processors.empty() ? 0 : processors[0]));
  ReadKind(cpu, cpuinfo, machine);
  ReadCaches(cpu, machine);
  return machine;
}

void ChangeMachine(std::string_view text, Machine& machine) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      ThrowMachine("'" + std::string(part) + "' has no value");
    }
    SetMachineField(part.substr(0, equals), part.substr(equals + 1), machine);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

std::vector<MachineField> FieldsOf(const Machine& machine) {
  std::vector<MachineField> fields;
  for (const NamedField& named : kMachineFields) {
    const auto value = [&](auto field) { return static_cast<double>(machine.*field); };
    fields.push_back({named.name, std::visit(value, named.field)});
  }
  return fields;
}

const Machine& ThisMachine() {
  static const Machine machine = MachineToUse();
  return machine;
}

double GrainProducts() {
  // Of what all lanes of all pipes could do, a part goes into packing and into writing results.
  constexpr double kPart = 0.788;
#if defined(__aarch64__)
  constexpr double kLanes = 4;
#else
  constexpr double kLanes = 8;
#endif
  const Machine& machine = ThisMachine();
  return kGrainNanoseconds * kPart * kLanes * machine.pipes * machine.clock;
}

int64_t CacheBlock(int64_t usual, int64_t cache, double part) {
  return cache == 0 ? usual
                    : std::min(usual, static_cast<int64_t>(part * static_cast<double>(cache)));
}

}  // namespace oort
