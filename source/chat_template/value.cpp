// SPDX-License-Identifier: MIT
#include "chat_template/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "chat_template/interpreter.h"
#include "text/python.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

int DeeperThan(int nesting, const Value& value) {
  const int depth = std::max(nesting, value.nesting() + 1);
  if (depth > kMaxNesting) FailLimit("values are nested too deeply");
  return depth;
}

size_t HeavierBy(size_t weight, const Value& value) {
  const size_t sum = weight + value.weight();
  if (sum > kMaxWeight) FailLimit("a value of the chat template is too large");
  return sum;
}

constexpr size_t kSmallDict = 8;

}  // namespace

Value Value::Bool(bool value) {
  Value made(Kind::kBool);
  made.integer_ = value;
  return made;
}
Value Value::Int(int64_t value) {
  Value made(Kind::kInt);
  made.integer_ = value;
  return made;
}
Value Value::Float(double value) {
  Value made(Kind::kFloat);
  made.real_ = value;
  return made;
}
Value Value::String(Budget* budget, std::string text, bool safe) {
  return String(budget, MarkedText{std::move(text), {}}, safe);
}
Value Value::String(Budget* budget, MarkedText text, bool safe) {
  Value made(Kind::kString);
  made.object_ = std::make_shared<Text>(budget, std::move(text), safe);
  return made;
}
Value Value::BigInt(Budget* budget, std::string digits) {
  Value made = String(budget, std::move(digits));
  made.kind_ = Kind::kBigInt;
  return made;
}
Value Value::List(Budget* budget, std::vector<Value> items, Kind kind, std::string name) {
  Value made(kind);
  made.object_ = std::make_shared<Sequence>(budget, std::move(items), std::move(name));
  return made;
}
Value Value::Iterator(Budget* budget, std::vector<Value> items,
                      std::shared_ptr<const Error> failure) {
  auto sequence = std::make_shared<Sequence>(budget, std::move(items), "generator");
  sequence->failure = std::move(failure);
  Value made(Kind::kIterator);
  made.object_ = std::move(sequence);
  return made;
}
Value Value::MakeRange(Budget* budget, int64_t start, int64_t stop, int64_t step) {
  auto range = std::make_shared<Range>(budget);
  range->start = start;
  range->stop = stop;
  range->step = step;
  Value made(Kind::kRange);
  made.object_ = std::move(range);
  return made;
}
Value Value::MakeCallable(Budget* budget, std::string name,
                          std::function<Value(Interpreter&, Arguments&)> call) {
  auto callable = std::make_shared<Callable>(budget);
  callable->Take(sizeof(Callable));
  callable->name = std::move(name);
  callable->call = std::move(call);
  Value made(Kind::kCallable);
  made.object_ = std::move(callable);
  return made;
}
Value Value::Undefined(Budget* budget, std::string why) {
  Value made = String(budget, std::move(why));
  made.kind_ = Kind::kUndefined;
  return made;
}
Value Value::Of(Namespace* space) {
  Value made(Kind::kNamespace);
  made.pointer_ = space;
  return made;
}
Value Value::Of(Loop* loop) {
  Value made(Kind::kLoop);
  made.pointer_ = loop;
  return made;
}
Value Value::Of(std::shared_ptr<const Macro> macro) {
  Value made(Kind::kMacro);
  made.object_ = std::move(macro);
  return made;
}
Value Value::Of(std::shared_ptr<const Dict> dict) {
  Value made(Kind::kDict);
  made.object_ = std::move(dict);
  return made;
}

const std::string& Value::str() const { return static_cast<const Text&>(*object_).text; }
bool Value::safe() const { return Is(Kind::kString) && static_cast<const Text&>(*object_).safe; }
const Ranges& Value::ranges() const { return static_cast<const Text&>(*object_).user; }
bool Value::user() const {
  switch (kind_) {
    case Kind::kString: return !ranges().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kIterator: return sequence().user;
    case Kind::kDict: return dict().user;
    default: return false;
  }
}
Value Value::Part(Budget* budget, size_t begin, size_t end) const {
  return String(budget,
                MarkedText{str().substr(begin, end - begin), RangesIn(ranges(), {begin, end})},
                safe());
}
const Sequence& Value::sequence() const { return static_cast<const Sequence&>(*object_); }
const Dict& Value::dict() const { return static_cast<const Dict&>(*object_); }
std::shared_ptr<const Dict> Value::shared_dict() const {
  return std::static_pointer_cast<const Dict>(object_);
}
const Range& Value::range() const { return static_cast<const Range&>(*object_); }
const Callable& Value::callable() const { return static_cast<const Callable&>(*object_); }
std::shared_ptr<const Macro> Value::macro() const {
  return std::static_pointer_cast<const Macro>(object_);
}
std::string Value::Why() const { return object_ ? str() : "a value is undefined"; }

int Value::nesting() const {
  switch (kind_) {
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kIterator: return sequence().nesting;
    case Kind::kDict: return dict().nesting;
    default: return 0;
  }
}

size_t Value::weight() const {
  switch (kind_) {
    case Kind::kBigInt:
    case Kind::kString: return str().size() + 1;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kIterator: return sequence().weight;
    case Kind::kDict: return dict().weight;
    default: return 1;
  }
}

Text::Text(Budget* owner, MarkedText value, bool is_safe)
    : Object(owner), text(std::move(value.text)), user(std::move(value.user)), safe(is_safe) {
  if (text.size() >= kMaxWeight) FailLimit("a text of the chat template is too long");
  Take(sizeof(Text) + text.capacity() + user.capacity() * sizeof(TextRange));
  ascii = std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

Sequence::Sequence(Budget* owner, std::vector<Value> values, std::string label)
    : Object(owner), items(std::move(values)), name(std::move(label)) {
  Take(sizeof(Sequence) + items.capacity() * sizeof(Value));
  for (const Value& item : items) {
    nesting = DeeperThan(nesting, item);
    weight = HeavierBy(weight, item);
    user |= item.user();
  }
}

void Dict::Set(Value key, Value value) {
  user |= key.user() || value.user();
  const std::string hash = HashOf(key);
  if (const Value* found = FindHash(hash)) {
    nesting = DeeperThan(nesting, value);
    weight = HeavierBy(weight, value);
    *const_cast<Value*>(found) = std::move(value);  // this dictionary is still being made
    return;
  }
  Take(2 * sizeof(Value) + hash.size() + 64);
  nesting = DeeperThan(DeeperThan(nesting, key), value);
  weight = HeavierBy(HeavierBy(weight, key), value);
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() == kSmallDict + 1) {
    for (size_t i = 0; i < items.size(); ++i) places_.emplace(HashOf(items[i].first), i);
  } else if (items.size() > kSmallDict) {
    places_.emplace(hash, items.size() - 1);
  }
}

const Value* Dict::FindHash(const std::string& hash) const {
  if (items.size() > kSmallDict) {
    const auto place = places_.find(hash);
    return place == places_.end() ? nullptr : &items[place->second].second;
  }
  for (const auto& [key, value] : items) {
    if (HashOf(key) == hash) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const { return FindHash(HashOf(key)); }

const Value* Dict::Find(std::string_view key) const {
  if (items.size() > kSmallDict) return FindHash("s" + std::string(key));
  for (const auto& [name, value] : items) {
    if (name.Is(Kind::kString) && name.str() == key) return &value;
  }
  return nullptr;
}

int64_t Range::size() const {
  const int64_t low = step > 0 ? start : stop, high = step > 0 ? stop : start;
  if (high <= low) return 0;
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) - 1;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>(std::min<uint64_t>(span / stride, INT64_MAX - 1)) + 1;
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::Set(std::string_view name, Value value) {
  if (const Value* found = Find(name)) {
    *const_cast<Value*>(found) = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

std::string_view TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt:
    case Kind::kBigInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.safe() ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kView:
    case Kind::kIterator: return value.sequence().name;
    case Kind::kRange: return "range";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "Namespace";
    case Kind::kLoop: return "LoopContext";
    case Kind::kMacro: return "Macro";
    case Kind::kCallable: return "function";
  }
  return "object";
}

bool Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.AsInt() != 0;
    case Kind::kFloat: return value.AsDouble() != 0;
    case Kind::kString: return !value.str().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView: return !value.sequence().items.empty();
    case Kind::kRange: return value.range().size() > 0;
    case Kind::kDict: return !value.dict().items.empty();
    case Kind::kLoop: return value.loop()->size > 0;
    default: return true;
  }
}

std::string HashOf(const Value& key) {
  switch (key.kind()) {
    case Kind::kString: return "s" + key.str();
    case Kind::kBool:
    case Kind::kInt: return "i" + std::to_string(key.AsInt());
    case Kind::kBigInt: return "i" + key.str();
    case Kind::kFloat: {
      const double real = key.AsDouble();
      if (real == std::floor(real) && std::abs(real) < 9.2e18) {
        return "i" + std::to_string(static_cast<int64_t>(real));
      }
      return "f" + python::ReprFloat(real);
    }
    case Kind::kNone: return "n";
    case Kind::kUndefined: return "u";
    case Kind::kTuple: {
      std::string hash = "t";
      for (const Value& item : key.sequence().items) {
        const std::string part = HashOf(item);
        hash += std::to_string(part.size()) + ":" + part;
      }
      return hash;
    }
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView: Fail("unhashable type: '" + std::string(TypeName(key)) + "'");
    default:
      return "o" + std::to_string(reinterpret_cast<uintptr_t>(key.object().get())) + "p" +
             std::to_string(key.object() ? 0 : key.AsInt());
  }
}

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kIterator:
    case Kind::kRange:
    case Kind::kDict:
    case Kind::kLoop: return true;
    default: return false;
  }
}

std::vector<Value> Iterate(Budget& budget, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined: break;
    case Kind::kString: {
      const std::string& text = value.str();
      budget.Work(text.size() * sizeof(Value));
      for (size_t offset = 0; offset < text.size();) {
        const size_t begin = offset;
        text::NextCodePoint(text, offset);
        budget.Step();
        MarkedText character;
        character.Append(std::string_view(text).substr(begin, offset - begin),
                         RangesIn(value.ranges(), {begin, offset}));
        items.push_back(Value::String(&budget, std::move(character)));
      }
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView: items = value.sequence().items; break;
    case Kind::kIterator: {
      const Sequence& sequence = value.sequence();
      items.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.next),
                   sequence.items.end());
      const bool used = std::exchange(sequence.used, true);
      if (sequence.failure && !used) throw Error(*sequence.failure);
      sequence.next = sequence.items.size();
      break;
    }
    case Kind::kRange: {
      const Range& range = value.range();
      const int64_t size = range.size();
      budget.Work(static_cast<size_t>(size) * sizeof(Value));
      for (int64_t i = 0; i < size; ++i) items.push_back(Value::Int(range.start + i * range.step));
      break;
    }
    case Kind::kDict:
      for (const auto& [key, item] : value.dict().items) items.push_back(key);
      break;
    default: Fail("'" + std::string(TypeName(value)) + "' object is not iterable");
  }
  budget.Step(static_cast<int64_t>(items.size()));
  return items;
}

int64_t Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString:
      return static_cast<const Text&>(*value.object()).ascii
                 ? static_cast<int64_t>(value.str().size())
                 : text::CountCodePoints(value.str());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView: return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kRange: return value.range().size();
    case Kind::kDict: return static_cast<int64_t>(value.dict().items.size());
    case Kind::kLoop: return static_cast<int64_t>(value.loop()->size);
    default: return -1;
  }
}

bool Contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.Is(Kind::kString)) {
        Fail("'in <string>' requires string as left operand, not " + std::string(TypeName(item)));
      }
      budget.Step(static_cast<int64_t>(container.str().size() / 64));
      return container.str().find(item.str()) != std::string::npos;
    case Kind::kDict: return container.dict().Find(item) != nullptr;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      for (const Value& value : container.sequence().items) {
        budget.Step(1 + static_cast<int64_t>(std::min(value.weight(), item.weight()) / 64));
        if (Equal(value, item)) return true;
      }
      return false;
    default:
      if (!IsIterable(container)) {
        Fail("argument of type '" + std::string(TypeName(container)) + "' is not iterable");
      }
      for (const Value& value : Iterate(budget, container)) {
        if (Equal(value, item)) return true;
      }
      return false;
  }
}

}  // namespace oort::jinja
