// SPDX-License-Identifier: MIT
// The connections between all ranks of a group.
#pragma once

#include <vector>

#include "collectives/tcp/socket.h"
#include "collectives/tcp/tcp_group.h"

namespace oort::tcp {

/// One for each rank; that of this one is not open. Throws what is wrong with the options, or who
/// did not come.
std::vector<Socket> ConnectRanks(const TcpOptions& options);

}  // namespace oort::tcp
