// SPDX-License-Identifier: MIT
#pragma once

namespace oort {

/// A layer of an open schema may be one of these, too: Layer::Packs knows only attributes that a
/// schema declares.
class PacksOpenAttributes {
 public:
  virtual ~PacksOpenAttributes() = default;
  /// Whether the constructor has made copies of all attributes, or holds them itself. Then the
  /// graph lets go of their elements.
  virtual bool PacksAttributes() const { return true; }
};

}  // namespace oort
