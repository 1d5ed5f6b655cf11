// SPDX-License-Identifier: MIT
// Transports that are opened when somebody asks for them.
#pragma once

#include <memory>

#include "collectives/collective.h"

namespace oort {

/// The processes that mpirun has started, by the plug-in liboort-mpi.so: that of the environment
/// variable OORT_MPI, one beside the program or in ../lib of it, or where the loader looks. Throws
/// kUnsupported where there is none.
std::unique_ptr<Collective> OpenMpi(double deadline);

}  // namespace oort
