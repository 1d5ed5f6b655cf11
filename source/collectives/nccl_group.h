// SPDX-License-Identifier: MIT
// Ranks whose GPUs hand numbers to each other by a plug-in of device_transport.h, which is NCCL's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/collective.h"
#include "collectives/device_transport.h"

namespace oort {

/// What a rank brings along.
struct NcclPlace {
  /// Null where it has none: then `problem` says why.
  const OortDeviceTransport* transport = nullptr;
  int release = 0;  ///< of the library: 23003 is 2.30.3
  std::string problem;
  std::string gpu;  ///< what no other GPU of the world is called
  /// Runs something with this rank's GPU as that of the thread; on a thread of its own.
  std::function<void(const std::function<void()>&)> on_gpu;
  /// Exchanges something once, on that thread: connections are made at first use.
  std::function<void(DeviceGroup&)> warm_up;
};

/// All ranks call it. Where one has no plug-in, or two have the same GPU, which NCCL refuses, all
/// of them get null, or where it is `required`, an Error with the reason. Else ranks wait for each
/// other as long as `loading`, and later, where they wait for a GPU, as long as `deadline`.
std::unique_ptr<DeviceGroup> JoinNccl(Collective& group, const NcclPlace& place, bool required,
                                      double loading, double deadline);

/// The plug-in liboort-nccl.so and the library that it opens: libnccl.so.2, or what the environment
/// variable OORT_NCCL names. Fills the first three members.
void FindNccl(NcclPlace& place);

}  // namespace oort
