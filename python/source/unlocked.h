// SPDX-License-Identifier: MIT
// Python's lock: given up while the engine computes, taken back for calls into Python, and left
// alone once the interpreter is on its way out.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <stop_token>

#include "oort/function_ref.h"

namespace oort::python {

namespace nb = nanobind;

/// While it lives, other threads of Python run. When the interpreter ends, a daemon thread that
/// would come back stays here: Python 3.11 would end it by unwinding, which no C++ frame survives.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// The opposite, for a function of Python that the engine calls, on any thread. Throws kCancelled
/// where the interpreter ends: who waits for the thread, as that end does for an engine's, must not
/// wait forever.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

/// A reference that any thread may give up, and that the end of the interpreter makes nobody's.
class SharedObject {
 public:
  explicit SharedObject(nb::object object) : object_(object.release().ptr()) {}
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  nb::handle get() const { return object_; }

 private:
  PyObject* object_;
};

/// How many threads have called the engine and are not back.
size_t CallsUnderWay();

/// Whether the interpreter has begun to end: objects of Python are then let be.
bool IsExiting();
bool IsMainThread();

/// Runs work(stop) without the lock. Ctrl-C reaches Python only on its main thread, and only while
/// that runs Python: so the main thread hands work that may take long to a helper, and looks for
/// signals while it waits. Work on other threads, and what is short, runs where it is.
void RunUnlocked(bool may_be_long, FunctionRef<void(const std::stop_token&)> work);
/// The number of the RunUnlocked whose work this thread does; 0 where it does none.
uint64_t CurrentCall();
/// The number of the RunUnlocked that threw on this thread, asked for once; else 0.
uint64_t TakeFailedCall();

/// Something that ends before the interpreter does: the thread of an engine.
class EndsAtExit {
 public:
  virtual ~EndsAtExit() = default;
  /// Called without the lock of Python.
  virtual void End() = 0;
};
void EndAtExit(const std::shared_ptr<EndsAtExit>& member);

void BindUnlocked(nb::module_& module);

}  // namespace oort::python
