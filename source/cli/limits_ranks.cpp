// SPDX-License-Identifier: MIT
#include <iostream>

#include "cli/limits_report.h"
#include "limits/rank_limits.h"

namespace oort::cli {

Json RanksJson(const LimitsReport& report, const limits::Machine& machine) {
  Json list = Json::array();
  for (const std::string& name : report.links) {
    const limits::Link& link = limits::FindLink(name);
    for (const limits::BitWidths& precision : report.precisions) {
      for (const int ranks : report.ranks) {
        const limits::RankTime time =
            limits::DecodeOnRanks(report.shape, precision, machine, link, ranks, 1);
        list.push_back({{"link", link.name},
                        {"precision", PrecisionName(precision)},
                        {"ranks", ranks},
                        {"own_seconds", time.own},
                        {"exchange_seconds", time.exchange},
                        {"tokens_per_second", 1 / time.seconds()}});
      }
    }
  }
  return list;
}

void PrintRanks(const LimitsReport& report, const limits::Machine& machine) {
  for (const std::string& name : report.links) {
    const limits::Link& link = limits::FindLink(name);
    std::cout << "\n  several of " << machine.name << ", " << link.title << ": "
              << FormatNumber(1e6 * link.latency) << " us, " << FormatNumber(link.bandwidth / 1e9)
              << " GB/s; tokens/s at most, and the gain over one\n";
    std::vector<Table::Column> columns = {{""}};
    for (const int ranks : report.ranks) {
      columns.push_back({std::to_string(ranks), Table::kRight});
    }
    Table table(columns);
    for (const limits::BitWidths& precision : report.precisions) {
      std::vector<std::string> cells = {PrecisionName(precision)};
      const double alone =
          limits::DecodeOnRanks(report.shape, precision, machine, link, 1, 1).seconds();
      for (const int ranks : report.ranks) {
        const double seconds =
            limits::DecodeOnRanks(report.shape, precision, machine, link, ranks, 1).seconds();
        const double gain = alone / seconds, rate = 1 / seconds;
        cells.push_back((rate < 1000 ? FormatNumber(rate, 3) : FormatFixed(rate, 0)) + " (" +
                        FormatFixed(gain, 2) + "x" + (gain < 1 ? ", slower than one)" : ")"));
      }
      table.Row(cells);
    }
    table.Print(std::cout, "  ");
  }
}

}  // namespace oort::cli
