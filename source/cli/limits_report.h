// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "cli/text.h"
#include "limits/limits.h"

namespace oort::cli {

struct LimitsReport {
  limits::ModelShape shape;
  std::string name;
  std::vector<limits::Machine> machines;
  std::vector<limits::BitWidths> precisions;
  double prompt = 512, context = 4096;
  std::vector<int> ranks;          ///< machines, or GPUs, that compute an answer together
  std::vector<std::string> links;  ///< between them; none where nobody asks
  limits::CacheReads reads = limits::CacheReads::kOnce;

  limits::TimeLimit Prefill(const limits::BitWidths& precision, const limits::Machine& machine,
                            double length, limits::Head head = limits::Head::kOnce) const {
    return limits::PrefillLimit(shape, precision, machine, length, head, reads);
  }
  std::vector<double> Turns(const limits::BitWidths& precision, const limits::Machine& machine,
                            limits::Head head = limits::Head::kOnce) const {
    return limits::PrefillTurns(shape, precision, machine, head, reads);
  }
};

/// "w4kv16"
std::string PrecisionName(const limits::BitWidths& precision);

/// What several of a machine can do for one answer.
void PrintRanks(const LimitsReport& report, const limits::Machine& machine);
Json RanksJson(const LimitsReport& report, const limits::Machine& machine);

/// Time of a prompt by its length and of a token by its position, for each machine and precision,
/// as one picture; or as a page that holds it.
std::string LimitsSvg(const LimitsReport& report);
std::string LimitsHtml(const LimitsReport& report);

}  // namespace oort::cli
