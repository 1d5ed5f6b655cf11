// SPDX-License-Identifier: MIT
// Measuring one Forward again and again, and writing down what came out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/profile_report.h"

namespace oort::cli {

/// Of where the graph runs: the processor, or a GPU.
MachineRoofs MeasureRoofsOf(const RuntimeGraph& graph, int threads);

/// What every run is given besides its inputs.
struct ProfiledRun {
  RunOptions options;
  /// What operators of a type do that their arguments do not tell, in each run.
  std::map<std::string, Cost> more;
};

/// Runs the session on these inputs; the caller names the model and the modules.
ProfileReport MeasureProfile(Session& session, const std::vector<Tensor>& inputs,
                             const MeasuredRuns& measured, const MachineRoofs& roofs,
                             const ProfiledRun& base = {});

/// Where to write which form of a report; empty for nowhere.
struct ProfileFiles {
  std::string html, trace, dot, param, svg;

  void Write(const ProfileReport& report) const;
  /// Names for one of several reports: page.prefill.html for page.html, folder/prefill.
  ProfileFiles For(const std::string& step) const;
};

}  // namespace oort::cli
