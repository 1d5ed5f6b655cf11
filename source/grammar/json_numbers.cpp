// SPDX-License-Identifier: MIT
// Numbers of a range, digit by digit.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar/json_text.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

constexpr double kGreatestBound = 1e15;

/// A bound without its sign, in decimal digits.
struct Decimal {
  int64_t whole = 0;
  std::string fraction;  ///< digits behind the point, without zeros at the end
  bool exclusive = false;
};

/// From `low` on, up to `high` if there is one.
struct Magnitudes {
  Decimal low;
  std::optional<Decimal> high;
};

void CheckBound(const std::optional<NumberBound>& bound, const std::string& what) {
  if (!bound || std::abs(bound->value) <= kGreatestBound) return;
  throw Error(ErrorCode::kUnsupported,
              what + " has a bound beyond 10^15, which answers cannot be held to");
}

Decimal DecimalOf(const NumberBound& bound) {
  std::array<char, 512> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                 std::abs(bound.value), std::chars_format::fixed)
                       .ptr;
  const std::string digits(buffer.data(), end);
  const size_t point = std::min(digits.find('.'), digits.size());
  Decimal out;
  out.whole = std::stoll(digits.substr(0, point));
  if (point < digits.size()) out.fraction = digits.substr(point + 1);
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  out.exclusive = bound.exclusive;
  return out;
}

class Numbers {
 public:
  explicit Numbers(Rules& rules) : rules_(rules) {}

  ExprId Digit(char low, char high) {
    return rules_.Set({{static_cast<uint32_t>(low), static_cast<uint32_t>(high) + 1}});
  }
  ExprId Digits(uint32_t min, uint32_t max) { return rules_.Repeat(Digit('0', '9'), min, max); }
  ExprId AnyFraction() {
    return rules_.Optional(rules_.Sequence({rules_.Text("."), Digits(1, kUnbounded)}));
  }
  /// From 0 on, without zeros in front.
  ExprId AnyWhole() {
    return rules_.Choice(
        {rules_.Text("0"), rules_.Sequence({Digit('1', '9'), Digits(0, kUnbounded)})});
  }

  /// Whole numbers from `low` to `high`, or without end where `high` is negative.
  ExprId Wholes(int64_t low, int64_t high) {
    if (high >= 0 && low > high) return rules_.Nothing();
    const std::string first = std::to_string(low);
    std::vector<ExprId> ways;
    if (high < 0) {
      ways.push_back(SameLength(first, std::string(first.size(), '9')));
      ways.push_back(rules_.Sequence(
          {Digit('1', '9'), Digits(static_cast<uint32_t>(first.size()), kUnbounded)}));
      return rules_.Choice(std::move(ways));
    }
    const std::string last = std::to_string(high);
    for (size_t length = first.size(); length <= last.size(); ++length) {
      const std::string begin = length == first.size() ? first : "1" + std::string(length - 1, '0');
      const std::string end = length == last.size() ? last : std::string(length, '9');
      ways.push_back(SameLength(begin, end));
    }
    return rules_.Choice(std::move(ways));
  }

  /// Numbers of these magnitudes, with fractions.
  ExprId Decimals(const Magnitudes& range) {
    const Decimal& low = range.low;
    std::vector<ExprId> ways;
    if (!range.high) {
      ways.push_back(WithFraction(low.whole, &low, nullptr));
      ways.push_back(rules_.Sequence({Wholes(low.whole + 1, -1), AnyFraction()}));
      return rules_.Choice(std::move(ways));
    }
    const Decimal& high = *range.high;
    if (low.whole > high.whole) return rules_.Nothing();
    if (low.whole == high.whole) return WithFraction(low.whole, &low, &high);
    ways.push_back(WithFraction(low.whole, &low, nullptr));
    ways.push_back(WithFraction(high.whole, nullptr, &high));
    if (low.whole + 1 < high.whole) {
      ways.push_back(rules_.Sequence({Wholes(low.whole + 1, high.whole - 1), AnyFraction()}));
    }
    return rules_.Choice(std::move(ways));
  }

 private:
  /// Numbers of as many digits as both bounds have.
  ExprId SameLength(const std::string& low, const std::string& high) {
    if (low.empty()) return rules_.Empty();
    const auto rest = static_cast<uint32_t>(low.size() - 1);
    const std::string zeros(rest, '0');
    const std::string nines(rest, '9');
    const std::string low_rest = low.substr(1);
    const std::string high_rest = high.substr(1);
    if (low_rest == zeros && high_rest == nines) {
      return rules_.Sequence({Digit(low[0], high[0]), Digits(rest, rest)});
    }
    const auto with = [&](char digit, ExprId behind) {
      return rules_.Sequence({rules_.Text(std::string(1, digit)), behind});
    };
    if (low[0] == high[0]) return with(low[0], SameLength(low_rest, high_rest));
    std::vector<ExprId> ways = {with(low[0], SameLength(low_rest, nines)),
                                with(high[0], SameLength(zeros, high_rest))};
    if (low[0] + 1 < high[0]) {
      ways.push_back(
          rules_.Sequence({Digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                           Digits(rest, rest)}));
    }
    return rules_.Choice(std::move(ways));
  }

  ExprId WithFraction(int64_t whole, const Decimal* low, const Decimal* high) {
    std::vector<ExprId> ways = {rules_.Sequence({rules_.Text("."), MoreDigits(0, low, high)})};
    if (MayEnd(0, low, high)) ways.push_back(rules_.Empty());
    return rules_.Sequence({rules_.Text(std::to_string(whole)), rules_.Choice(std::move(ways))});
  }

  /// Whether a fraction may end behind `at` digits that are those of the bounds so far; a bound
  /// that it has left already is null.
  static bool MayEnd(size_t at, const Decimal* low, const Decimal* high) {
    const bool at_low = low != nullptr && at >= low->fraction.size();
    const bool at_high = high != nullptr && at >= high->fraction.size();
    if (low != nullptr && (!at_low || low->exclusive)) return false;
    return !(at_high && high->exclusive);
  }

  /// One or more digits behind `at` that are those of the bounds.
  ExprId MoreDigits(size_t at, const Decimal* low, const Decimal* high) {
    // Behind the digits of the lower bound, anything but zeros is above it, or at it.
    if (low != nullptr && at >= low->fraction.size() && !low->exclusive) low = nullptr;
    if (low == nullptr && high == nullptr) return Digits(1, kUnbounded);
    const bool low_is_over = low == nullptr || at >= low->fraction.size();
    const bool high_is_over = high == nullptr || at >= high->fraction.size();
    if (low_is_over && high_is_over) return Tail(low, high);
    const char least = low == nullptr || at >= low->fraction.size() ? '0' : low->fraction[at];
    const char most = high == nullptr ? '9' : (high_is_over ? '0' : high->fraction[at]);
    if (least > most) return rules_.Nothing();
    std::vector<ExprId> ways;
    const auto way = [&](char digit, const Decimal* its_low, const Decimal* its_high) {
      std::vector<ExprId> behind = {MoreDigits(at + 1, its_low, its_high)};
      if (MayEnd(at + 1, its_low, its_high)) behind.push_back(rules_.Empty());
      ways.push_back(
          rules_.Sequence({rules_.Text(std::string(1, digit)), rules_.Choice(std::move(behind))}));
    };
    if (least == most) {
      way(least, low, high);
      return rules_.Choice(std::move(ways));
    }
    way(least, low, nullptr);
    way(most, nullptr, high);
    if (least + 1 < most) {
      ways.push_back(
          rules_.Sequence({Digit(static_cast<char>(least + 1), static_cast<char>(most - 1)),
                           Digits(0, kUnbounded)}));
    }
    return rules_.Choice(std::move(ways));
  }

  /// Digits behind all those of the bounds that are left.
  ExprId Tail(const Decimal* low, const Decimal* high) {
    if (high == nullptr) {  // above an exclusive lower bound: some digit is not 0
      return rules_.Sequence(
          {rules_.Repeat(rules_.Text("0"), 0, kUnbounded), Digit('1', '9'), Digits(0, kUnbounded)});
    }
    const bool empty = low != nullptr || high->exclusive;
    return empty ? rules_.Nothing() : rules_.Repeat(rules_.Text("0"), 1, kUnbounded);
  }

  Rules& rules_;
};

}  // namespace

ExprId JsonIntegers(Rules& rules, const NumberRange& range, const std::string& what) {
  CheckBound(range.low, what);
  CheckBound(range.high, what);
  Numbers numbers(rules);
  if (!range.low && !range.high) {
    return rules.Sequence({rules.Optional(rules.Text("-")), numbers.AnyWhole()});
  }
  // The first and the last whole number; the greatest bound is far from overflow.
  constexpr int64_t kFar = int64_t{1} << 60;
  int64_t low = -kFar;
  int64_t high = kFar;
  if (range.low) {
    const double first = std::ceil(range.low->value);
    low = static_cast<int64_t>(first);
    if (range.low->exclusive && first == range.low->value) ++low;
  }
  if (range.high) {
    const double last = std::floor(range.high->value);
    high = static_cast<int64_t>(last);
    if (range.high->exclusive && last == range.high->value) --high;
  }
  std::vector<ExprId> ways;
  if (low < 0) {
    const int64_t least = high < 0 ? -high : 1;
    const ExprId magnitude = numbers.Wholes(least, range.low ? -low : -1);
    ways.push_back(rules.Sequence({rules.Text("-"), magnitude}));
  }
  if (high >= 0) {
    ways.push_back(numbers.Wholes(std::max<int64_t>(low, 0), range.high ? high : -1));
  }
  return rules.Choice(std::move(ways));
}

ExprId JsonNumbers(Rules& rules, const NumberRange& range, const std::string& what) {
  CheckBound(range.low, what);
  CheckBound(range.high, what);
  Numbers numbers(rules);
  if (!range.low && !range.high) {
    const ExprId exponent =
        rules.Sequence({rules.Set({{'E', 'E' + 1}, {'e', 'e' + 1}}),
                        rules.Optional(rules.Set({{'+', '+' + 1}, {'-', '-' + 1}})),
                        numbers.Digits(1, kUnbounded)});
    return rules.Sequence({rules.Optional(rules.Text("-")), numbers.AnyWhole(),
                           numbers.AnyFraction(), rules.Optional(exponent)});
  }
  std::vector<ExprId> ways;
  if (!range.low || range.low->value < 0) {
    // Below 0 the bounds change places.
    Magnitudes below;
    if (range.high && range.high->value <= 0) below.low = DecimalOf(*range.high);
    if (range.low) below.high = DecimalOf(*range.low);
    ways.push_back(rules.Sequence({rules.Text("-"), numbers.Decimals(below)}));
  }
  if (!range.high || range.high->value >= 0) {
    Magnitudes above;
    if (range.low && range.low->value >= 0) above.low = DecimalOf(*range.low);
    if (range.high) above.high = DecimalOf(*range.high);
    ways.push_back(numbers.Decimals(above));
  }
  return rules.Choice(std::move(ways));
}

}  // namespace oort::grammar
