// SPDX-License-Identifier: MIT
// NumPy's .npy files (format 1.0 to 3.0).
#pragma once

#include <filesystem>

#include "oort/source.h"
#include "oort/tensor.h"

namespace oort {

/// Fortran-ordered arrays are transposed on the way in. Throws kInvalidModel for what is no .npy.
Tensor ReadNpy(const std::filesystem::path& path);
Tensor ReadNpy(const ByteSource& source);
/// bf16 has no NumPy type and is written as f32.
void WriteNpy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace oort
