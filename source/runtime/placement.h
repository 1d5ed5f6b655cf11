// SPDX-License-Identifier: MIT
// Where the nodes of a graph run, and how tensors get from one device to another.
#pragma once

#include <set>
#include <vector>

#include "runtime/device_backend.h"
#include "runtime/runtime_impl.h"

namespace oort {

/// Operators that only copies are made of.
inline constexpr std::string_view kToDeviceType = "oort.ToDevice";
inline constexpr std::string_view kToHostType = "oort.ToHost";

/// Inserts copies wherever a node reads what is on another device: those of the graph's inputs come
/// first, those of its results last, so that what runs on the device is in one piece. Constants
/// that nodes of the device read, and do not pack, are uploaded once. `slot_of` (by operand) grows
/// with the graph. Returns the slots of constants that the device has copies of.
std::set<int> PlaceCopies(RuntimeImpl& graph, std::vector<int>& slot_of, DeviceBackend& backend);

}  // namespace oort
