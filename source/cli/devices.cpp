// SPDX-License-Identifier: MIT
#include <iostream>

#include "cli/command.h"
#include "cli/text.h"
#include "core/machine.h"
#include "core/parallel.h"
#include "cpu/features.h"
#include "cuda/device.h"
#include "oort/layer.h"

namespace oort::cli {
namespace {

Json DeviceJson(const cuda::DeviceInfo& device) {
  return {{"name", device.name},
          {"compute",
           std::to_string(device.compute_major) + "." + std::to_string(device.compute_minor)},
          {"multiprocessors", device.multiprocessors},
          {"memory", device.total_memory}};
}

Json MachineJson(const Machine& machine) {
  Json json = {{"kind", machine.kind}, {"known", machine.known}};
  for (const MachineField& field : FieldsOf(machine)) json[std::string(field.name)] = field.value;
  return json;
}

std::string CoresText(const Machine& machine) {
  std::string text = std::to_string(machine.cores);
  if (machine.processors > machine.cores) {
    text += " (" + std::to_string(machine.processors) + " hyperthreads)";
  }
  if (machine.nodes > 1) text += ", " + std::to_string(machine.nodes) + " nodes of memory";
  return text;
}

std::string CachesText(const Machine& machine) {
  std::string text = "L1 " + FormatBytes(static_cast<double>(machine.l1)) + ", L2 " +
                     FormatBytes(static_cast<double>(machine.l2));
  if (machine.l3 > 0) text += ", L3 " + FormatBytes(static_cast<double>(machine.l3));
  return text;
}

/// What kernels assume, for people.
void AddMachine(const Machine& machine, Table& table) {
  const std::string kind = machine.kind.empty() ? "unknown" : machine.kind;
  table.Row({"processor", kind + (machine.known ? "" : " (taken to be like most)")});
  table.Row({"cores", CoresText(machine)});
  table.Row({"caches", CachesText(machine)});
  table.Row({"assumed", FormatNumber(machine.clock) + " GHz, " + FormatNumber(machine.pipes) +
                            " vector pipes, " + FormatNumber(machine.memory) +
                            " GB/s from memory to a core, " + FormatNumber(machine.join / 1e3) +
                            " us to share a loop, " + FormatNumber(machine.wake / 1e3) +
                            " where threads sleep"});
}

int Devices(bool json) {
  std::vector<std::string> isas;
  for (const Isa isa : SupportedIsas()) isas.emplace_back(Name(isa));
  const std::string chosen(Name(DefaultIsa()));
  const std::vector<std::string> features = ThisCpu().Names();
  std::string reason;
  const std::vector<cuda::DeviceInfo> gpus = cuda::Devices(&reason);
  if (json) {
    Json list = Json::array();
    for (const cuda::DeviceInfo& gpu : gpus) list.push_back(DeviceJson(gpu));
    Print(std::cout,
          {{"cpu",
            {{"isas", isas},
             {"default_isa", chosen},
             {"features", features},
             {"threads", AvailableThreads()},
             {"machine", MachineJson(ThisMachine())}}},
           {"cuda", {{"built_in", cuda::BuiltIn()}, {"devices", list}, {"reason", reason}}}});
    return 0;
  }
  Table table({{""}, {""}});
  table.Row({"instruction sets", Join(isas, " ") + " (used: " + chosen + ")"});
  table.Row({"also", features.empty() ? "no units for bf16" : Join(features, ", ")});
  AddMachine(ThisMachine(), table);
  table.Row({"threads", std::to_string(AvailableThreads())});
  for (size_t i = 0; i < gpus.size(); ++i) {
    table.Row({"cuda:" + std::to_string(i),
               gpus[i].name + ", compute " + std::to_string(gpus[i].compute_major) + "." +
                   std::to_string(gpus[i].compute_minor) + ", " +
                   std::to_string(gpus[i].multiprocessors) + " multiprocessors, " +
                   FormatBytes(static_cast<double>(gpus[i].total_memory))});
  }
  if (gpus.empty()) table.Row({"cuda", "none: " + SingleLine(reason)});
  table.Print(std::cout);
  return 0;
}

}  // namespace

Action AddDevices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print JSON");
  app.footer(
      "The environment variable OORT_ISA, or --isa, picks another instruction set;\n"
      "OORT_CPU_WITHOUT=amx (or avx512_bf16, arm_i8mm, …; several with commas) goes without "
      "units;\n"
      "OORT_MACHINE=l2=256K,cores=4 changes what kernels assume about the machine (the names are "
      "those of --json).\n"
      "Example:\n"
      "  OORT_ISA=scalar oort bench net.pnnx.param");
  return [json] { return Devices(*json); };
}

}  // namespace oort::cli
