// SPDX-License-Identifier: MIT
#include "collectives/collective.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "oort/error.h"

namespace oort {
namespace {

thread_local Collective* current_group = nullptr;

}  // namespace

GroupScope::GroupScope(Collective& group) : before_(current_group), watch_(group.on_device()) {
  current_group = &group;
}
GroupScope::~GroupScope() { current_group = before_; }
Collective* GroupScope::Current() { return current_group; }

void Collective::AllReduce(std::string_view what, std::span<float> values) {
  const std::vector<size_t> sizes(static_cast<size_t>(ranks()), values.size_bytes());
  Exchange(what, std::as_bytes(values), sizes, [&](int from, std::span<const std::byte> bytes) {
    const float* numbers = reinterpret_cast<const float*>(bytes.data());
    if (from == 0) {
      std::copy_n(numbers, values.size(), values.data());
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) values[i] += numbers[i];
  });
}

void Collective::AllGather(std::string_view what, std::span<const float> mine,
                           std::span<const size_t> counts, std::span<float> all) {
  size_t total = 0;
  std::vector<size_t> sizes;
  for (const size_t count : counts) {
    total += count;
    sizes.push_back(count * sizeof(float));
  }
  if (sizes.size() != static_cast<size_t>(ranks()) || total != all.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the numbers of all ranks are " + std::to_string(total) +
                    ", and there is room for " + std::to_string(all.size()));
  }
  float* to = all.data();
  Exchange(what, std::as_bytes(mine), sizes, [&](int, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size() / sizeof(float);
  });
}

void Collective::Barrier(std::string_view what) {
  const std::vector<size_t> sizes(static_cast<size_t>(ranks()), 0);
  Exchange(what, {}, sizes, [](int, std::span<const std::byte>) {});
}

std::string RankName(int rank, std::string_view host) {
  return "rank " + std::to_string(rank) + " (" + std::string(host) + ")";
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "this machine";
  return name.data();
}

}  // namespace oort
