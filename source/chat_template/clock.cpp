// SPDX-License-Identifier: MIT
#include "chat_template/clock.h"

#include <chrono>
#include <ctime>

namespace oort::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

std::string Padded(int value, size_t width, char fill = '0') {
  std::string text = std::to_string(value);
  return text.size() < width ? std::string(width - text.size(), fill) + text : text;
}

struct Calendar {
  int week_day;  ///< 0 is Sunday
  int year_day;  ///< 1 is the first of January
};

Calendar PlaceInYear(const Clock& time) {
  using namespace std::chrono;
  const year_month_day date{year(time.year), month(static_cast<unsigned>(time.month)),
                            day(static_cast<unsigned>(time.day))};
  if (!date.ok()) Fail("the time given to a chat template is no date");
  const sys_days days = date;
  const sys_days first = sys_days(year(time.year) / January / 1);
  return {static_cast<int>(weekday(days).c_encoding()),
          static_cast<int>((days - first).count()) + 1};
}

std::string FormatOne(char letter, const Clock& t) {
  const Calendar calendar = PlaceInYear(t);
  const std::string_view day = kDays[calendar.week_day], month = kMonths[t.month - 1];
  const int hour = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (letter) {
    case 'a': return std::string(day.substr(0, 3));
    case 'A': return std::string(day);
    case 'b':
    case 'h': return std::string(month.substr(0, 3));
    case 'B': return std::string(month);
    case 'c': return FormatTime("%a %b %e %H:%M:%S %Y", t);
    case 'C': return Padded(t.year / 100, 2);
    case 'd': return Padded(t.day, 2);
    case 'D':
    case 'x': return FormatTime("%m/%d/%y", t);
    case 'e': return Padded(t.day, 2, ' ');
    case 'f': return Padded(t.microsecond, 6);
    case 'F': return FormatTime("%Y-%m-%d", t);
    case 'H': return Padded(t.hour, 2);
    case 'I': return Padded(hour, 2);
    case 'j': return Padded(calendar.year_day, 3);
    case 'k': return Padded(t.hour, 2, ' ');
    case 'l': return Padded(hour, 2, ' ');
    case 'm': return Padded(t.month, 2);
    case 'M': return Padded(t.minute, 2);
    case 'n': return "\n";
    case 'p': return t.hour < 12 ? "AM" : "PM";
    case 'P': return t.hour < 12 ? "am" : "pm";
    case 'r': return FormatTime("%I:%M:%S %p", t);
    case 'R': return FormatTime("%H:%M", t);
    case 'S': return Padded(t.second, 2);
    case 't': return "\t";
    case 'T':
    case 'X': return FormatTime("%H:%M:%S", t);
    case 'u': return std::to_string(calendar.week_day == 0 ? 7 : calendar.week_day);
    case 'U': return Padded((calendar.year_day + 6 - calendar.week_day) / 7, 2);
    case 'w': return std::to_string(calendar.week_day);
    case 'W': return Padded((calendar.year_day + 6 - (calendar.week_day + 6) % 7) / 7, 2);
    case 'y': return Padded(t.year % 100, 2);
    case 'Y': return std::to_string(t.year);
    case 'z':
    case 'Z': return {};  // datetime.now() knows no zone
    case '%': return "%";
    default: FailUnsupported(std::string("strftime_now does not know the format %") + letter);
  }
}

}  // namespace

Clock SystemClock() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  return {local.tm_year + 1900,
          local.tm_mon + 1,
          local.tm_mday,
          local.tm_hour,
          local.tm_min,
          local.tm_sec,
          static_cast<int>(micros % 1000000)};
}

std::string FormatTime(std::string_view format, const Clock& time) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      text += format[i];
      continue;
    }
    ++i;
    // glibc's flag: no padding.
    const bool bare = format[i] == '-' && i + 1 < format.size();
    if (bare) ++i;
    std::string field = FormatOne(format[i], time);
    if (bare) field.erase(0, std::min(field.find_first_not_of("0 "), field.size() - 1));
    text += field;
  }
  return text;
}

}  // namespace oort::jinja
