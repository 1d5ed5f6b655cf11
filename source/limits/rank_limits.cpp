// SPDX-License-Identifier: MIT
#include "limits/rank_limits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "oort/error.h"

namespace oort::limits {

std::span<const Link> KnownLinks() {
  // Latencies of sums of some kilobytes: of one kernel over NVLink as published for two to eight
  // GPUs, of calls over PCIe, and of small messages over the networks. docs/several-machines.md
  // names what was measured.
  static const std::array<Link, 6> kLinks = {{
      {"nvlink", "GPUs over NVLink", 5e-6, 450e9},
      {"pcie", "GPUs over PCIe 4", 20e-6, 25e9},
      {"memory", "processors of one machine", 3e-6, 10e9},
      {"100gbe", "100 gigabit Ethernet with RDMA", 4e-6, 12.5e9},
      {"10gbe", "10 gigabit Ethernet", 25e-6, 1.25e9},
      {"1gbe", "gigabit Ethernet", 60e-6, 0.125e9},
  }};
  return kLinks;
}

const Link& FindLink(std::string_view name) {
  std::string names;
  for (const Link& link : KnownLinks()) {
    if (link.name == name) return link;
    names += (names.empty() ? "" : ", ") + link.name;
  }
  throw Error(ErrorCode::kNotFound,
              "there is no link '" + std::string(name) + "'; known are " + names);
}

namespace {

/// That a rank waits for in a token.
struct Exchanges {
  double count = 0, bytes = 0;
};

Exchanges ExchangesOf(const ModelShape& shape, double ranks) {
  const double states = static_cast<double>(shape.state_layers), others = ranks - 1;
  const double hidden = sizeof(float) * static_cast<double>(shape.hidden), sum = others * hidden;
  const double feed_forwards = static_cast<double>(shape.layers) - (shape.state_alone ? states : 0);
  // Those of attention and feed-forward, the embeddings, and the token, of a few bytes.
  const double sums = static_cast<double>(shape.attention_layers()) + feed_forwards + 1;
  Exchanges all{sums + 1, sums * sum};
  if (shape.state_size == 0) return all;
  if (std::fmod(static_cast<double>(shape.state_groups), ranks) == 0) {
    all.count += states;
    all.bytes += states * sum;
  } else {  // a norm needs what others have, and its product is shared out by rows
    const double inner =
        sizeof(float) * static_cast<double>(shape.state_heads * shape.state_head_dim);
    all.count += 2 * states;
    all.bytes += states * (inner + hidden) * others / ranks;
  }
  return all;
}

}  // namespace

RankTime DecodeOnRanks(const ModelShape& shape, BitWidths precision, const Machine& machine,
                       const Link& link, int ranks, double position) {
  RankTime time;
  const double others = static_cast<double>(std::max(ranks, 1) - 1);
  time.own = DecodeLimit(shape, precision, machine, position).seconds() / (others + 1) +
             static_cast<double>(shape.layers) * machine.layer_overhead;
  if (others == 0) return time;
  const Exchanges exchanges = ExchangesOf(shape, others + 1);
  time.exchange = exchanges.count * link.latency + exchanges.bytes / link.bandwidth;
  return time;
}

}  // namespace oort::limits
