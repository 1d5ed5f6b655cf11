// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oort/tensor.h"

namespace oort::pnnx {

/// Payloads begin at multiples of this, so that any kernel can read them where they are mapped.
inline constexpr size_t kPayloadAlignment = 64;

struct ZipItem {
  std::string name;
  std::span<const std::byte> bytes;
  /// Where it is set, it makes the bytes when they are written: as many as `promised`.
  std::function<Tensor()> make = {};
  size_t promised = 0;

  size_t size() const { return make ? promised : bytes.size(); }
};

using ZipSink = std::function<void(std::span<const std::byte>)>;

/// Whether sizes or the number of entries pass the limits of a classic zip.
bool NeedsZip64(std::span<const ZipItem> items);

/// Writes a stored zip. With `zip64` every entry is ZIP64, in the form that pnnx writes.
void WriteZip(std::span<const ZipItem> items, bool zip64, const ZipSink& sink);

}  // namespace oort::pnnx
