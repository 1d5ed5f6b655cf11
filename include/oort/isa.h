// SPDX-License-Identifier: MIT
// Which vector instructions kernels use.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace oort {

/// Instruction sets that kernels are compiled for, slowest first.
enum class Isa : unsigned char { kScalar, kNeon, kAvx2, kAvx512 };
std::string_view Name(Isa isa);
/// Those that this build holds and this processor runs, slowest first; none where a build for
/// another processor (OORT_KERNELS) is run on this one.
std::span<const Isa> SupportedIsas();
/// The one of this name; throws kInvalidArgument and says which ones there are.
Isa IsaOf(std::string_view name);
/// The fastest supported one, or what the environment variable OORT_ISA names.
Isa DefaultIsa();

}  // namespace oort
