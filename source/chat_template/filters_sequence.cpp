// SPDX-License-Identifier: MIT
// Filters on lists and dictionaries.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "chat_template/filters.h"
#include "chat_template/operators.h"
#include "text/python.h"

namespace oort::jinja {
namespace {

constexpr std::string_view kUnsupportedFilters[] = {"filesizeformat", "pprint",    "random",
                                                    "striptags",      "urlencode", "urlize",
                                                    "wordwrap",       "xmlattr"};

Value IgnoreCase(Interpreter& self, const Value& value) {
  return value.Is(Kind::kString) ? self.MakeString(python::Lower(value.str())) : value;
}

/// The attribute "a.b.0" of an item, part by part.
Value AttributeOf(Interpreter& self, Value item, const Value& path,
                  const Value* otherwise = nullptr) {
  if (path.Is(Kind::kNone)) return item;
  if (!path.Is(Kind::kString)) {
    item = self.GetItem(item, path);
    return item.Is(Kind::kUndefined) && otherwise ? *otherwise : item;
  }
  const std::string& text = path.str();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    item = self.GetItem(item, digits ? Value::Int(std::stoll(part)) : self.MakeString(part));
    if (item.Is(Kind::kUndefined) && otherwise && !otherwise->Is(Kind::kNone)) item = *otherwise;
    begin = end + 1;
  }
  return item;
}

/// What sort, min and unique look at.
Value SortKey(Interpreter& self, const Value& item, const Value* attribute, bool case_sensitive) {
  const Value key = attribute ? AttributeOf(self, item, *attribute) : item;
  return case_sensitive ? key : IgnoreCase(self, key);
}

void SortByKeys(Interpreter& self, std::vector<Value>& items, const std::vector<Value>& keys,
                bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // std::stable_sort may not be left by an exception in the middle of a move, so places are sorted.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    self.Step(1 + static_cast<int64_t>(std::min(keys[a].weight(), keys[b].weight()) / 64));
    return Compare(reverse ? keys[b] : keys[a], reverse ? keys[a] : keys[b], "<") < 0;
  });
  std::vector<Value> sorted;
  for (const size_t place : order) sorted.push_back(items[place]);
  items = std::move(sorted);
}

/// What a generator gives: it fails only for who walks it, and behind the items that came before.
/// Limits hold at once.
template <typename Produce>
Value Lazily(Interpreter& self, const Produce& produce) {
  std::vector<Value> items;
  std::shared_ptr<const Error> failure;
  try {
    produce(items);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    failure = std::make_shared<const Error>(error);
  }
  return Value::Iterator(self.budget(), std::move(items), std::move(failure));
}

Value FilterLength(Interpreter&, Arguments& arguments) {
  const Value value = Parameters("length", arguments, {"obj"}, 1)[0];
  const int64_t length = Length(value);
  if (length < 0) Fail("object of type '" + std::string(TypeName(value)) + "' has no len()");
  return Value::Int(length);
}

Value FilterList(Interpreter& self, Arguments& arguments) {
  return self.MakeList(self.Items(Parameters("list", arguments, {"value"}, 1)[0]));
}

Value FilterFirst(Interpreter& self, Arguments& arguments) {
  const Value value = Parameters("first", arguments, {"seq"}, 1)[0];
  if (value.Is(Kind::kIterator) && value.sequence().next < value.sequence().items.size()) {
    return value.sequence().items[value.sequence().next++];
  }
  const std::vector<Value> items = self.Items(value);
  return items.empty() ? Value::Undefined(self.budget(), "no first item, sequence was empty")
                       : items.front();
}

Value FilterLast(Interpreter& self, Arguments& arguments) {
  const Value value = Parameters("last", arguments, {"seq"}, 1)[0];
  if (value.Is(Kind::kIterator)) Fail("'generator' object is not reversible");
  const std::vector<Value> items = self.Items(value);
  return items.empty() ? Value::Undefined(self.budget(), "no last item, sequence was empty")
                       : items.back();
}

Value FilterJoin(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("join", arguments, {"value", "d", "attribute"}, 1);
  MarkedText separator, joined;
  if (parameters.Get(1)) self.Append(separator, parameters[1]);
  bool first = true;
  for (const Value& item : self.Items(parameters[0])) {
    if (!first) joined.Append(separator.text, separator.user);
    first = false;
    const bool whole = !parameters.Get(2) || parameters[2].Is(Kind::kNone);
    const size_t before = joined.text.size();
    self.Append(joined, whole ? item : AttributeOf(self, item, parameters[2]));
    self.budget()->Work(joined.text.size() - before + separator.text.size());
    if (joined.text.size() > kMaxWeight) FailLimit("a joined text is too long");
  }
  return self.MakeString(std::move(joined));
}

Value FilterItems(Interpreter& self, Arguments& arguments) {
  const Value value = Parameters("items", arguments, {"value"}, 1)[0];
  return Lazily(self, [&](std::vector<Value>& pairs) {
    if (value.Is(Kind::kUndefined)) return;
    if (!value.Is(Kind::kDict)) Fail("can only get item pairs from a mapping");
    for (const auto& [key, item] : value.dict().items)
      pairs.push_back(Value::Tuple(self.budget(), {key, item}));
    self.Step(static_cast<int64_t>(pairs.size()));
  });
}

Value FilterDictSort(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("dictsort", arguments, {"value", "case_sensitive", "by", "reverse"},
                              1);
  const std::string by = parameters.String(2, "key");
  if (by != "key" && by != "value") Fail("you can only sort by either \"key\" or \"value\"");
  if (parameters[0].Is(Kind::kUndefined)) Fail(parameters[0].Why());
  if (!parameters[0].Is(Kind::kDict))
    Fail("dictsort needs a mapping, not " + std::string(TypeName(parameters[0])));
  std::vector<Value> items, keys;
  for (const auto& [key, value] : parameters[0].dict().items) {
    items.push_back(Value::Tuple(self.budget(), {key, value}));
    keys.push_back(SortKey(self, by == "key" ? key : value, nullptr, parameters.Flag(1, false)));
  }
  SortByKeys(self, items, keys, parameters.Flag(3, false));
  return self.MakeList(std::move(items));
}

Value FilterSort(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("sort", arguments,
                              {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<Value> items = self.Items(parameters[0]), keys;
  const bool case_sensitive = parameters.Flag(2, false);
  for (const Value& item : items) {
    std::vector<Value> key;
    if (!parameters.Get(3) || !parameters[3].Is(Kind::kString)) {
      key.push_back(SortKey(self, item, parameters.Get(3), case_sensitive));
    } else {
      const std::string& paths = parameters[3].str();
      for (size_t begin = 0; begin <= paths.size();) {
        const size_t end = std::min(paths.find(',', begin), paths.size());
        const Value path = self.MakeString(paths.substr(begin, end - begin));
        key.push_back(SortKey(self, item, &path, case_sensitive));
        begin = end + 1;
      }
    }
    keys.push_back(self.MakeList(std::move(key)));
  }
  SortByKeys(self, items, keys, parameters.Flag(1, false));
  return self.MakeList(std::move(items));
}

Value FilterUnique(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("unique", arguments, {"value", "case_sensitive", "attribute"}, 1);
  return Lazily(self, [&](std::vector<Value>& kept) {
    std::unordered_set<std::string> seen;
    for (const Value& item : self.Items(parameters[0])) {
      const Value key = SortKey(self, item, parameters.Get(2), parameters.Flag(1, false));
      self.budget()->Work(key.weight());
      if (seen.insert(HashOf(key)).second) kept.push_back(item);
    }
  });
}

Value Extreme(Interpreter& self, Arguments& arguments, int sign) {
  const Parameters parameters(sign < 0 ? "min" : "max", arguments,
                              {"value", "case_sensitive", "attribute"}, 1);
  const std::vector<Value> items = self.Items(parameters[0]);
  if (items.empty())
    return Value::Undefined(self.budget(), "no aggregated item, sequence was empty");
  const auto key = [&](const Value& item) {
    return SortKey(self, item, parameters.Get(2), parameters.Flag(1, false));
  };
  Value best = items[0], best_key = key(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value next = key(items[i]);
    self.Step(1 + static_cast<int64_t>(next.weight() / 64));
    if (Compare(next, best_key, sign < 0 ? "<" : ">") * sign <= 0) continue;
    best = items[i];
    best_key = std::move(next);
  }
  return best;
}
Value FilterMin(Interpreter& self, Arguments& arguments) { return Extreme(self, arguments, -1); }
Value FilterMax(Interpreter& self, Arguments& arguments) { return Extreme(self, arguments, 1); }

Value FilterSum(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("sum", arguments, {"iterable", "attribute", "start"}, 1);
  Value sum = parameters.Get(2) ? parameters[2] : Value::Int(0);
  for (const Value& item : self.Items(parameters[0])) {
    if (sum.Is(Kind::kString)) Fail("sum() can't sum strings");
    sum = self.Binary("+", sum, parameters.Get(1) ? AttributeOf(self, item, parameters[1]) : item);
  }
  return sum;
}

Value FilterReverse(Interpreter& self, Arguments& arguments) {
  const Value value = Parameters("reverse", arguments, {"value"}, 1)[0];
  if (value.Is(Kind::kString))
    return Slice(*self.budget(), value, Value::None(), Value::None(), Value::Int(-1));
  std::vector<Value> items = self.Items(value);
  std::reverse(items.begin(), items.end());
  return value.Is(Kind::kIterator) ? self.MakeList(std::move(items))
                                   : Value::Iterator(self.budget(), std::move(items));
}

Value FilterAttr(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("attr", arguments, {"obj", "name"}, 2);
  const std::string name = parameters.String(1, "");
  if (parameters[0].Is(Kind::kUndefined)) Fail(parameters[0].Why());
  if (parameters[0].Is(Kind::kDict)) {  // the keys of a dictionary are no attributes
    Value found;
    if (FindMethod(self, parameters[0], name, &found)) return found;
    return Value::Undefined(self.budget(),
                            "'dict object' has no attribute " + python::ReprText(name));
  }
  return self.GetAttribute(parameters[0], name);
}

void MapItems(Interpreter& self, Arguments& arguments, std::vector<Value>& mapped) {
  const Value& value = arguments.positional[0];
  if (!Truth(value)) return;
  if (arguments.positional.size() == 1 && !arguments.named.empty()) {
    const Parameters parameters("map", arguments, {"value", "attribute", "default"}, 2);
    for (const Value& item : self.Items(value)) {
      mapped.push_back(AttributeOf(self, item, parameters[1], parameters.Get(2)));
    }
    return;
  }
  if (arguments.positional.size() < 2 || !arguments.positional[1].Is(Kind::kString))
    Fail("map requires a filter argument");
  const std::string& name = arguments.positional[1].str();
  for (Value& item : self.Items(value)) {
    Arguments inner{{arguments.positional.begin() + 2, arguments.positional.end()},
                    arguments.named};
    inner.positional.insert(inner.positional.begin(), std::move(item));
    mapped.push_back(self.ApplyFilter(name, inner));
  }
}

Value FilterMap(Interpreter& self, Arguments& arguments) {
  return Lazily(self, [&](std::vector<Value>& mapped) { MapItems(self, arguments, mapped); });
}

void SelectItems(Interpreter& self, Arguments& arguments, bool keep, bool by_attribute,
                 std::vector<Value>& kept) {
  const Value& value = arguments.positional[0];
  if (!Truth(value)) return;
  const size_t skip = by_attribute ? 2 : 1;
  if (arguments.positional.size() < skip) Fail("missing parameter for attribute name");
  const bool tested = arguments.positional.size() > skip;
  if (tested && !arguments.positional[skip].Is(Kind::kString))
    Fail("the name of a test must be a string");
  for (const Value& item : self.Items(value)) {
    const Value subject = by_attribute ? AttributeOf(self, item, arguments.positional[1]) : item;
    bool holds = false;
    if (tested) {
      Arguments inner{{arguments.positional.begin() + static_cast<ptrdiff_t>(skip) + 1,
                       arguments.positional.end()},
                      arguments.named};
      inner.positional.insert(inner.positional.begin(), subject);
      holds = self.ApplyTest(arguments.positional[skip].str(), inner);
    } else {
      holds = Truth(subject);
    }
    if (holds == keep) kept.push_back(item);
  }
}

Value SelectBy(Interpreter& self, Arguments& arguments, bool keep, bool by_attribute) {
  return Lazily(self, [&](std::vector<Value>& kept) {
    SelectItems(self, arguments, keep, by_attribute, kept);
  });
}
Value FilterSelect(Interpreter& self, Arguments& arguments) {
  return SelectBy(self, arguments, true, false);
}
Value FilterReject(Interpreter& self, Arguments& arguments) {
  return SelectBy(self, arguments, false, false);
}
Value FilterSelectAttr(Interpreter& self, Arguments& arguments) {
  return SelectBy(self, arguments, true, true);
}
Value FilterRejectAttr(Interpreter& self, Arguments& arguments) {
  return SelectBy(self, arguments, false, true);
}

Value FilterBatch(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("batch", arguments, {"value", "linecount", "fill_with"}, 2);
  return Lazily(self, [&](std::vector<Value>& batches) {
    const int64_t size = parameters.Integer(1, 1);
    std::vector<Value> batch;
    for (const Value& item : self.Items(parameters[0])) {
      if (static_cast<int64_t>(batch.size()) == size)
        batches.push_back(self.MakeList(std::exchange(batch, {})));
      batch.push_back(item);
    }
    if (batch.empty()) return;
    const bool fill = parameters.Get(2) && !parameters[2].Is(Kind::kNone);
    if (fill && size > 1000000) FailLimit("a batch is too large");
    while (fill && static_cast<int64_t>(batch.size()) < size) batch.push_back(parameters[2]);
    batches.push_back(self.MakeList(std::move(batch)));
  });
}

Value FilterSlice(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("slice", arguments, {"value", "slices", "fill_with"}, 2);
  return Lazily(self, [&](std::vector<Value>& columns) {
    const std::vector<Value> items = self.Items(parameters[0]);
    const int64_t slices = parameters.Integer(1, 1), size = static_cast<int64_t>(items.size());
    if (slices == 0) Fail("integer division or modulo by zero");
    if (slices > 1000000) FailLimit("too many slices");
    auto next = items.begin();
    for (int64_t i = 0; i < slices; ++i) {
      self.Step();
      const bool extra = i < size % slices;
      const int64_t count = size / slices + extra;
      std::vector<Value> column(next, next + count);
      next += count;
      if (!extra && parameters.Get(2) && !parameters[2].Is(Kind::kNone))
        column.push_back(parameters[2]);
      columns.push_back(self.MakeList(std::move(column)));
    }
  });
}

Value FilterGroupBy(Interpreter& self, Arguments& arguments) {
  const Parameters parameters("groupby", arguments,
                              {"value", "attribute", "default", "case_sensitive"}, 2);
  std::vector<Value> items = self.Items(parameters[0]), keys;
  const bool case_sensitive = parameters.Flag(3, false);
  const auto key_of = [&](const Value& item) {
    return AttributeOf(self, item, parameters[1], parameters.Get(2));
  };
  const auto fold = [&](const Value& key) { return case_sensitive ? key : IgnoreCase(self, key); };
  for (const Value& item : items) keys.push_back(fold(key_of(item)));
  SortByKeys(self, items, keys, false);
  std::vector<Value> groups;
  for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    const Value key = key_of(items[begin]);
    for (end = begin; end < items.size() && Equal(fold(key_of(items[end])), fold(key)); ++end)
      self.Step();
    std::vector<Value> group(items.begin() + static_cast<ptrdiff_t>(begin),
                             items.begin() + static_cast<ptrdiff_t>(end));
    groups.push_back(Value::Tuple(self.budget(), {key, self.MakeList(std::move(group))}));
    if (end == begin) ++end;
  }
  return self.MakeList(std::move(groups));
}

struct NamedSequenceFilter {
  std::string_view name;
  Filter filter;
};

constexpr NamedSequenceFilter kSequenceFilters[] = {
    {"length", FilterLength},
    {"count", FilterLength},
    {"list", FilterList},
    {"first", FilterFirst},
    {"last", FilterLast},
    {"join", FilterJoin},
    {"items", FilterItems},
    {"dictsort", FilterDictSort},
    {"sort", FilterSort},
    {"unique", FilterUnique},
    {"min", FilterMin},
    {"max", FilterMax},
    {"sum", FilterSum},
    {"reverse", FilterReverse},
    {"attr", FilterAttr},
    {"map", FilterMap},
    {"select", FilterSelect},
    {"reject", FilterReject},
    {"selectattr", FilterSelectAttr},
    {"rejectattr", FilterRejectAttr},
    {"batch", FilterBatch},
    {"slice", FilterSlice},
    {"groupby", FilterGroupBy},
};

/// Filters that know which bytes of their results came from a request.
bool MarksItself(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"join", "replace", "safe", "string", "trim"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool IsUnsupported(std::string_view name) {
  return std::find(std::begin(kUnsupportedFilters), std::end(kUnsupportedFilters), name) !=
         std::end(kUnsupportedFilters);
}

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  for (const NamedSequenceFilter& filter : kSequenceFilters) {
    if (filter.name == name) return filter.filter;
  }
  return nullptr;
}

bool IsFilter(std::string_view name) {
  return FindTextFilter(name) || FindSequenceFilter(name) || IsUnsupported(name);
}

Value Interpreter::ApplyFilter(const std::string& name, Arguments& arguments) {
  Step();
  const Depth depth(*this);
  Filter filter = FindTextFilter(name);
  if (filter == nullptr) filter = FindSequenceFilter(name);
  if (filter != nullptr) {
    const bool user = !MarksItself(name) && HasUser(arguments);
    Value made = filter(*this, arguments);
    // What others hold as well was there before. Of a new text nobody knows what the request
    // brought, so all of it counts as such.
    const bool is_new = made.Is(Kind::kString) && made.object().use_count() == 1;
    return user && is_new ? MakeString(made.str(), true, made.safe()) : made;
  }
  if (IsUnsupported(name))
    FailUnsupported("the filter '" + name + "' is not supported in chat templates");
  Fail("no filter named '" + name + "' found");
}

}  // namespace oort::jinja
