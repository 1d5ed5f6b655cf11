// SPDX-License-Identifier: MIT
// Stands for a GPU that draws tokens: where one is made, steps take the ways that they take there,
// on logits of the host. It sorts, which shows easily that it is right.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "llm/sampling/token_drawer.h"
#include "oort/error.h"

namespace oort {

/// What the drawers of a test did.
struct DrawLog {
  int64_t begun = 0;      ///< calls of Begin
  int64_t open = 0;       ///< of these, not ended
  int64_t most_open = 0;  ///< at a time
  int64_t draws = 0, masks = 0, changes = 0, reports = 0;
  std::set<int64_t> failing;  ///< calls of Begin that throw
  /// Hears of each, with the rows of its logits.
  std::function<void(int64_t rows)> at_failure;
};

class HostDrawer final : public cuda::TokenDrawer {
 public:
  explicit HostDrawer(DrawLog& log) : log_(log) {}

  void Begin(size_t turn, const Tensor& logits, std::span<const cuda::TokenDraw> draws,
             int32_t* tokens) override {
    if (log_.failing.contains(log_.begun++)) {
      if (log_.at_failure) log_.at_failure(logits.dim(0));
      throw Error(ErrorCode::kDevice, "a draw failed");
    }
    Check(turn, logits, draws);
    std::vector<cuda::DrawReport>& reports = reports_.at(turn);
    reports.clear();
    const size_t count = static_cast<size_t>(logits.dim(1));
    for (const cuda::TokenDraw& draw : draws) {
      const auto row = logits.span<float>().subspan(static_cast<size_t>(draw.row) * count, count);
      const int32_t token = TokenOf(row, draw);
      tokens[draw.row] = token;
      reports.push_back(draw.reported < 0 || token < 0 ? cuda::DrawReport{.row = draw.row}
                                                       : ReportOf(row, draw, token));
      ++log_.draws;
      log_.masks += draw.allowed.empty() ? 0 : 1;
      log_.changes += draw.changes.empty() ? 0 : 1;
      log_.reports += draw.reported < 0 ? 0 : 1;
    }
    is_open_.at(turn) = true;
    log_.open = std::ranges::count(is_open_, true);
    log_.most_open = std::max(log_.most_open, log_.open);
  }
  std::span<const cuda::DrawReport> End(size_t turn) override {
    is_open_.at(turn) = false;
    log_.open = std::ranges::count(is_open_, true);
    return reports_.at(turn);
  }

  static int32_t TokenOf(std::span<const float> row, const cuda::TokenDraw& draw) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    std::vector<float> logits(row.begin(), row.end());
    for (const LogitChange& change : draw.changes) {
      float& logit = logits[static_cast<size_t>(change.token)];
      logit = change.Of(logit);
    }
    for (size_t i = 0; i < logits.size() && !draw.allowed.empty(); ++i) {
      if ((draw.allowed[i / 32] >> (i % 32) & 1) == 0) logits[i] = kNone;
    }
    const std::vector<size_t> ranks = Ranked(logits);
    const float max = logits[ranks[0]];
    if (max == kNone) return -1;
    if (draw.top_k == 1 && draw.uniform == 0) return static_cast<int32_t>(ranks[0]);
    const auto weight = [&](size_t i) {
      return std::exp(static_cast<double>(logits[i] - max) / static_cast<double>(draw.temperature));
    };
    size_t kept = ranks.size();
    if (draw.top_k > 0 && static_cast<size_t>(draw.top_k) < kept) {
      kept = static_cast<size_t>(draw.top_k);
      while (kept < ranks.size() && logits[ranks[kept]] == logits[ranks[kept - 1]]) ++kept;
    }
    if (draw.top_p < 1) {
      double total = 0, before = 0;
      for (size_t i = 0; i < kept; ++i) total += weight(ranks[i]);
      size_t reached = 0;
      while (reached < kept && before < static_cast<double>(draw.top_p) * total) {
        before += weight(ranks[reached++]);
      }
      kept = std::max<size_t>(reached, 1);
    }
    std::vector<size_t> ids(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(kept));
    if (draw.min_p > 0) {
      const float least = max + draw.temperature * std::log(draw.min_p);
      std::erase_if(ids, [&](size_t i) { return logits[i] < least; });
    }
    std::ranges::sort(ids);
    double left = 0;
    for (const size_t i : ids) left += weight(i);
    left *= draw.uniform;
    for (const size_t i : ids) {
      left -= weight(i);
      if (left < 0) return static_cast<int32_t>(i);
    }
    return static_cast<int32_t>(ids.back());
  }

  static cuda::DrawReport ReportOf(std::span<const float> row, const cuda::TokenDraw& draw,
                                   int32_t token) {
    const std::vector<size_t> ranks = Ranked(row);
    cuda::DrawReport report{.row = draw.row, .max = row[ranks[0]], .weights = 0};
    report.drawn = row[static_cast<size_t>(token)];
    for (const float logit : row)
      report.weights += std::exp(static_cast<double>(logit - report.max));
    report.count = static_cast<int32_t>(std::min(ranks.size(), static_cast<size_t>(draw.reported)));
    for (size_t i = 0; i < static_cast<size_t>(report.count); ++i) {
      // In any order.
      const size_t rank = ranks[static_cast<size_t>(report.count) - 1 - i];
      report.top[i] = {row[rank], static_cast<int32_t>(rank)};
    }
    return report;
  }

 private:
  /// The likeliest first.
  static std::vector<size_t> Ranked(std::span<const float> logits) {
    std::vector<size_t> ranks(logits.size());
    std::iota(ranks.begin(), ranks.end(), size_t{0});
    std::ranges::stable_sort(ranks, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    return ranks;
  }

  DrawLog& log_;
  std::array<std::vector<cuda::DrawReport>, kTurns> reports_;
  std::array<bool, kTurns> is_open_ = {};
};

/// As long as it lives, decoders on the CPU draw as those of a GPU do.
class HostDrawing {
 public:
  DrawLog log;

 private:
  cuda::TokenDrawerOverride override_{[this] { return std::make_unique<HostDrawer>(log); }};
};

}  // namespace oort
