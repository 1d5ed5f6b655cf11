// SPDX-License-Identifier: MIT
// The values of a template: Python's, as far as templates can see them. Strings, lists and
// dictionaries never change once made, so sharing them is safe; what changes (namespaces, loops)
// belongs to the interpreter and is only pointed at.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat_template/budget.h"
#include "chat_template/marked_text.h"

namespace oort::jinja {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< beyond 64 bits: it can be printed and compared, nothing else
  kFloat,
  kString,
  kList,
  kTuple,
  kView,      ///< keys(), values() or items() of a dictionary
  kIterator,  ///< what map, select … give: it can be walked once
  kRange,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kCallable,
};

class Interpreter;
class Value;
struct Macro;
struct Namespace;
struct Loop;

/// Of a call: f(1, 2, c=3).
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Base of what is shared: returns its memory to the budget.
struct Object {
  explicit Object(Budget* owner) : budget(owner) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (budget) budget->GiveBack(taken);
  }
  void Take(size_t bytes) {
    if (!budget) return;
    budget->Take(bytes);
    taken += bytes;
  }
  Budget* budget;
  size_t taken = 0;
};

struct Text;
struct Sequence;
struct Dict;
struct Range;
struct Callable;

class Value {
 public:
  Value() = default;  ///< undefined
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value);
  static Value Int(int64_t value);
  static Value Float(double value);
  /// `budget` may be null for what belongs to the template itself.
  static Value String(Budget* budget, std::string text, bool safe = false);
  static Value String(Budget* budget, MarkedText text, bool safe = false);
  static Value BigInt(Budget* budget, std::string digits);
  static Value List(Budget* budget, std::vector<Value> items, Kind kind = Kind::kList,
                    std::string name = {});
  static Value Tuple(Budget* budget, std::vector<Value> items) {
    return List(budget, std::move(items), Kind::kTuple);
  }
  static Value Iterator(Budget* budget, std::vector<Value> items,
                        std::shared_ptr<const Error> failure = nullptr);
  static Value MakeRange(Budget* budget, int64_t start, int64_t stop, int64_t step);
  static Value MakeCallable(Budget* budget, std::string name,
                            std::function<Value(Interpreter&, Arguments&)> call);
  /// What using it says; `security` marks an attribute that exists and is forbidden.
  static Value Undefined(Budget* budget, std::string why);
  static Value Of(Namespace* space);
  static Value Of(Loop* loop);
  static Value Of(std::shared_ptr<const Macro> macro);
  static Value Of(std::shared_ptr<const Dict> dict);

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsNumber() const { return Is(Kind::kBool) || Is(Kind::kInt) || Is(Kind::kFloat); }
  bool IsInteger() const { return Is(Kind::kBool) || Is(Kind::kInt); }
  bool AsBool() const { return integer_ != 0; }
  int64_t AsInt() const { return integer_; }
  double AsDouble() const { return Is(Kind::kFloat) ? real_ : static_cast<double>(integer_); }
  const std::string& str() const;
  bool safe() const;  ///< a string that is marked safe (Python's Markup)
  /// Whether any of its text came from a request.
  bool user() const;
  /// Which bytes of a string did.
  const Ranges& ranges() const;
  /// Bytes of a string, as a string of the same kind.
  Value Part(Budget* budget, size_t begin, size_t end) const;
  const Sequence& sequence() const;
  const std::shared_ptr<const Object>& object() const { return object_; }
  const Dict& dict() const;
  std::shared_ptr<const Dict> shared_dict() const;
  const Range& range() const;
  const Callable& callable() const;
  std::shared_ptr<const Macro> macro() const;
  Namespace* space() const { return static_cast<Namespace*>(pointer_); }
  Loop* loop() const { return static_cast<Loop*>(pointer_); }
  /// Of an undefined value.
  std::string Why() const;
  int nesting() const;
  /// Bytes of all text in it and one for each value: what walking over it costs. A list that holds
  /// another twice counts it twice.
  size_t weight() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::kUndefined;
  union {
    int64_t integer_ = 0;
    double real_;
    void* pointer_;
  };
  std::shared_ptr<const Object> object_;
};

struct Text : Object {
  Text(Budget* owner, MarkedText value, bool is_safe);
  std::string text;
  Ranges user;
  bool safe;
  bool ascii;
};

struct Sequence : Object {
  Sequence(Budget* owner, std::vector<Value> values, std::string label);
  std::vector<Value> items;
  std::string name;         ///< "dict_keys", "generator"; empty for lists and tuples
  mutable size_t next = 0;  ///< how far an iterator is
  /// What an iterator throws behind its last item, since it would fail there only.
  std::shared_ptr<const Error> failure;
  mutable bool used = false;  ///< it has thrown, and is empty now
  bool user = false;          ///< some text in it came from a request
  int nesting = 1;
  size_t weight = 1;
};

/// Keeps the order in which keys were set first.
struct Dict : Object {
  explicit Dict(Budget* owner) : Object(owner) {}
  /// Throws where the key cannot be one.
  void Set(Value key, Value value);
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  std::vector<std::pair<Value, Value>> items;
  bool user = false;  ///< some text in it came from a request
  int nesting = 1;
  size_t weight = 1;

 private:
  const Value* FindHash(const std::string& hash) const;
  std::unordered_map<std::string, size_t> places_;
};

struct Range : Object {
  using Object::Object;
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};

struct Callable : Object {
  using Object::Object;
  std::string name;
  std::function<Value(Interpreter&, Arguments&)> call;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

struct Loop {
  std::vector<Value> items;  ///< until the loop ends
  size_t size = 0;
  size_t index0 = 0;
  int64_t depth0 = 0;
  std::vector<Value> changed;
  bool has_changed = false;
  std::function<Value(Interpreter&, const Value&, int64_t)> recurse;
};

/// "str", "list", "dict": what Python calls the type.
std::string_view TypeName(const Value& value);
bool Truth(const Value& value);
bool Equal(const Value& a, const Value& b);
/// -1, 0, 1; throws where the types have no order.
int Compare(const Value& a, const Value& b, std::string_view op);
/// What str() and repr() give.
std::string Str(const Value& value);
std::string Repr(const Value& value);
/// Equal values of keys have equal hashes; throws for a list or a dictionary.
std::string HashOf(const Value& key);
/// Its items; an iterator is used up. Throws where there are none.
std::vector<Value> Iterate(Budget& budget, const Value& value);
bool IsIterable(const Value& value);
/// -1 where len() has no answer.
int64_t Length(const Value& value);
bool Contains(Budget& budget, const Value& container, const Value& item);

}  // namespace oort::jinja
