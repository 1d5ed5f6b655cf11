// SPDX-License-Identifier: MIT
// Ranks that are processes, over a transport of transport.h.
#pragma once

#include <memory>

#include "collectives/collective.h"
#include "collectives/transport.h"

namespace oort {

/// Joins the group of the transport, for whose ranks it waits up to `join` seconds. `keep` lives as
/// long, and a little longer: the plug-in.
std::unique_ptr<Collective> MakeTransportGroup(const OortTransport& transport,
                                               std::shared_ptr<void> keep, double deadline,
                                               double join);

}  // namespace oort
