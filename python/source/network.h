// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arrays.h"
#include "oort/session.h"

namespace oort::python {

/// A network as Python sees it: called from any thread, with a session for each call under way.
class Network {
 public:
  Network(std::shared_ptr<const RuntimeGraph> graph, SessionOptions options)
      : graph_(std::move(graph)), options_(options) {}

  const std::shared_ptr<const RuntimeGraph>& graph() const { return graph_; }
  int threads() const { return options_.threads; }

  /// Arrays by position and by name, and results as `net(…)` gives them: an array, or a tuple.
  nb::object Call(const nb::args& args, const nb::kwargs& kwargs);
  /// The same with results where the first input lies, which torch and cupy allocate: what a call
  /// does for arrays on a GPU. For tests it takes those of the host.
  nb::object CallBeside(const nb::args& args, const nb::kwargs& kwargs);
  /// The same with names; results come with theirs.
  nb::dict Run(const nb::dict& inputs);
  /// Results go into arrays of the caller's.
  void RunInto(nb::handle inputs, nb::handle outputs);
  /// One run for each of `runs` behind one that does not count: (name, type, algorithm, seconds,
  /// …).
  nb::dict Measure(const nb::list& inputs, int runs);
  nb::dict Info(const nb::object& inputs) const;

 private:
  /// A session that nobody uses, which goes back in the end.
  class Lease {
   public:
    explicit Lease(Network& network) : network_(network), session_(network.Take()) {}
    ~Lease() { network_.Give(std::move(session_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Session& operator*() { return *session_; }

   private:
    Network& network_;
    std::unique_ptr<Session> session_;
  };

  /// Arguments of a call.
  struct Given {
    std::vector<nb::handle> objects;
    std::vector<nb::ndarray<nb::ro>> held;  ///< until the run is over
    std::vector<Value> values;
    Framework framework = Framework::kNumpy;
  };

  /// Where results go, beside the first input.
  struct Places {
    std::vector<Tensor> tensors;
    std::vector<nb::ndarray<>> kept;
    nb::list arrays;  ///< over the memory of `tensors`; of jax they are made in the end
    nb::list Arrays() const;
  };

  Given Read(const nb::args& args, const nb::kwargs& kwargs) const;
  /// The shapes of results are those of the run before with inputs of these shapes. The first run,
  /// and one whose shapes depend on elements, goes through host memory.
  nb::object RunBeside(const Given& given);
  /// None where the shapes are not known yet.
  Places PlacesBeside(const Given& given);
  std::vector<Tensor> KnownResults(const std::vector<Value>& inputs);
  void RememberResults(const std::vector<Value>& inputs, const std::vector<Value>& results);
  std::unique_ptr<Session> Take();
  void Give(std::unique_ptr<Session> session) noexcept;
  std::vector<Value> Compute(const std::vector<Value>& inputs, RunOptions options = {});
  std::vector<nb::handle> InOrder(const nb::args& args, const nb::kwargs& kwargs) const;
  std::string NameOfInput(size_t index) const;

  std::shared_ptr<const RuntimeGraph> graph_;
  SessionOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
  /// Whether the last run took so long that Ctrl-C should reach it.
  std::atomic<bool> slow_ = true;
  std::vector<Tensor> known_inputs_, known_results_;  ///< metas, of the last RunBeside
  std::atomic<bool> shapes_vary_ = false;             ///< results depend on more than shapes
};

void BindNetwork(nb::module_& module);

}  // namespace oort::python
