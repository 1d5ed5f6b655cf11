// SPDX-License-Identifier: MIT
// Ranks that are processes of one or of several machines, over TCP: no library but the system's.
#pragma once

#include <memory>
#include <string>

#include "collectives/collective.h"

namespace oort {

struct TcpOptions {
  int rank = 0, ranks = 1;
  /// Where rank 0 listens: HOST:PORT. The others connect to it, and to each other.
  std::string address;
  /// What all ranks know and nobody else does; 16 bytes at least.
  std::string secret;
  double deadline = 10;
  /// Seconds until all ranks have come together; they are started one after the other.
  double join = 60;
};

/// Joins the others. Each pair of ranks has a connection, on which both have proved that they know
/// the secret. Numbers are then sent as they are, neither encrypted nor signed.
std::unique_ptr<Collective> JoinTcp(const TcpOptions& options);

}  // namespace oort
