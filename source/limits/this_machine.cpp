// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>

#include "limits/limits.h"
#include "oort/profile.h"

namespace oort::limits {

Machine MeasureThisMachine(int threads) {
  const MachineRoofs roofs = MeasureRoofs(threads);
  Machine machine;
  machine.name = "this";
  for (const MachineRoofs::Compute& compute : roofs.compute)
    machine.flops = std::max(machine.flops, compute.flops_all);
  if (!roofs.memory.empty()) machine.bandwidth = roofs.memory.back().all;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0)
    machine.memory = static_cast<double>(pages) * static_cast<double>(page);
  machine.title = "this machine, measured with " + std::to_string(roofs.threads) +
                  (roofs.threads == 1 ? " thread" : " threads");
  return machine;
}

}  // namespace oort::limits
