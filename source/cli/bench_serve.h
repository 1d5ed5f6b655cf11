// SPDX-License-Identifier: MIT
// What a run of `oort bench-serve` found, and how it is told.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "cli/load_client.h"
#include "cli/text.h"

namespace oort::cli {

/// A value that p percent do not exceed, between the two nearest; 0 of none. Sorts the values.
double Percentile(std::vector<double>& values, double p);

/// How late a request may be and still count for the goodput, in seconds; 0: as late as it likes.
struct LatencyLimits {
  double first_token = 0, per_token = 0, whole = 0;
  bool any() const { return first_token > 0 || per_token > 0 || whole > 0; }
};

/// One load and what came of it. Times are in seconds.
struct LoadReport {
  std::string name;  ///< "8 clients", "2.5 requests/s"
  double load = 0;   ///< clients, or requests a second
  double seconds = 0;
  size_t requests = 0, good = 0;  ///< that ended well; of them within the limits
  int64_t prompt_tokens = 0, new_tokens = 0, cached_tokens = 0;
  std::map<std::string, size_t> errors;  ///< what was said, how often
  /// From the moment a request was due: a server that is behind is not forgiven its queue.
  std::vector<double> first_token, between_tokens, per_token, whole;
  std::vector<double> tokens_at;  ///< new tokens in each second of the run

  double TokenRate() const { return seconds > 0 ? static_cast<double>(new_tokens) / seconds : 0; }
  double RequestRate() const { return seconds > 0 ? static_cast<double>(requests) / seconds : 0; }
  double Goodput() const { return seconds > 0 ? static_cast<double>(good) / seconds : 0; }
  size_t Failed() const;
};

LoadReport Summarize(std::vector<LoadResult> results, const LatencyLimits& limits);

Json ToJson(LoadReport& report, const LatencyLimits& limits);
void PrintReport(std::ostream& out, LoadReport& report, const LatencyLimits& limits);
/// Latencies by how many were faster, and tokens a second over the run.
std::string DrawReports(std::vector<LoadReport>& reports, const std::string& title);

}  // namespace oort::cli
