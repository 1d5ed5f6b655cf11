// SPDX-License-Identifier: MIT
#include "layers/linear/einsum_plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/checked.h"

namespace oort {
namespace {

EinsumLabels Joined(std::initializer_list<const EinsumLabels*> parts) {
  EinsumLabels all;
  for (const EinsumLabels* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

/// The axes in the order of `order`, which names all of them.
Strided Ordered(const EinsumTensor& tensor, const EinsumLabels& order) {
  std::vector<int> axes;
  for (EinsumLabel label : order) {
    const auto found = std::find(tensor.labels.begin(), tensor.labels.end(), label);
    axes.push_back(static_cast<int>(found - tensor.labels.begin()));
  }
  return tensor.view.Permuted(axes);
}

class Planner {
 public:
  Planner(const EinsumAxes& axes, bool may_transpose)
      : axes_(axes), may_transpose_(may_transpose) {}

  EinsumPlan Run(std::span<const Shape> shapes) {
    for (size_t i = 0; i < shapes.size(); ++i) tensors_.push_back(Operand(i, shapes[i]));
    while (tensors_.size() > 1) Multiply();
    SumUp(tensors_[0], axes_.output);
    Finish();
    return std::move(plan_);
  }

 private:
  /// An operand with each label once, and without the axes along which others repeat it.
  EinsumTensor Operand(size_t index, const Shape& shape) const {
    EinsumTensor tensor{static_cast<int>(index), 0, axes_.operands[index], Strided(shape)};
    EinsumLabels& labels = tensor.labels;
    for (size_t i = 0; i < labels.size();) {
      const auto again =
          std::find(labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, labels.end(), labels[i]);
      if (again == labels.end()) {
        ++i;
      } else {
        MergeDiagonal(tensor, static_cast<int>(i), static_cast<int>(again - labels.begin()));
        i = 0;
      }
    }
    for (size_t i = labels.size(); i-- > 0;) {
      if (tensor.view[static_cast<int>(i)].extent == Extent(labels[i])) continue;
      tensor.view = tensor.view.Selected(static_cast<int>(i), 0);
      labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return tensor;
  }

  /// Axes a and b become one, in front.
  static void MergeDiagonal(EinsumTensor& tensor, int a, int b) {
    std::vector<int> order = {a, b};
    EinsumLabels labels = {tensor.labels[static_cast<size_t>(a)]};
    for (int i = 0; i < tensor.view.rank(); ++i) {
      if (i == a || i == b) continue;
      order.push_back(i);
      labels.push_back(tensor.labels[static_cast<size_t>(i)]);
    }
    tensor.view = tensor.view.Permuted(order).Diagonal(0, 0, tensor.view[a].extent);
    tensor.labels = labels;
  }

  int64_t Extent(EinsumLabel label) const { return axes_.extents.at(label); }

  int64_t Product(const EinsumLabels& labels) const {
    int64_t product = 1;
    for (EinsumLabel label : labels) product = CheckedMultiply(product, Extent(label));
    return product;
  }

  /// Labels that the output or an operand other than these two needs.
  std::set<EinsumLabel> Needed(size_t a, size_t b) const {
    std::set<EinsumLabel> needed(axes_.output.begin(), axes_.output.end());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (i != a && i != b) needed.insert(tensors_[i].labels.begin(), tensors_[i].labels.end());
    }
    return needed;
  }

  /// Elements of the product of two tensors; in double, because it is only compared.
  double ResultSize(size_t a, size_t b) const {
    const std::set<EinsumLabel> needed = Needed(a, b);
    std::set<EinsumLabel> labels(tensors_[a].labels.begin(), tensors_[a].labels.end());
    labels.insert(tensors_[b].labels.begin(), tensors_[b].labels.end());
    double size = 1;
    for (EinsumLabel label : labels) {
      if (needed.count(label) != 0) size *= static_cast<double>(Extent(label));
    }
    return size;
  }

  int64_t Take(int64_t elements) {
    const int64_t at = plan_.elements;
    plan_.elements = CheckedAdd(at, CheckedAdd<int64_t>(elements, 15) / 16 * 16);
    return at;
  }

  EinsumTensor Scratch(EinsumLabels labels) {
    Shape shape;
    for (EinsumLabel label : labels) shape.Append(Extent(label));
    const int64_t elements = Product(labels);
    return {-1, Take(elements), std::move(labels), Strided(shape)};
  }

  EinsumMatrices Arrange(const EinsumTensor& tensor, const EinsumLabels& batch,
                         const EinsumLabels& rows, const EinsumLabels& columns,
                         bool may_transpose) {
    EinsumMatrices matrices{tensor};
    EinsumTensor& ordered = matrices.tensor;
    ordered.labels = Joined({&batch, &rows, &columns});
    ordered.view = Ordered(tensor, ordered.labels);
    if (ordered.view.IsDense()) return matrices;
    const EinsumLabels other = Joined({&batch, &columns, &rows});
    if (const Strided view = Ordered(tensor, other); may_transpose && view.IsDense()) {
      ordered.labels = other;
      ordered.view = view;
      matrices.transposed = true;
      return matrices;
    }
    matrices.copied = true;
    matrices.copy = Take(Product(ordered.labels));
    return matrices;
  }

  /// Sums over all labels of the tensor that are not in `keep`, leaving them in that order.
  template <typename Labels>
  void SumUp(EinsumTensor& tensor, const Labels& keep) {
    EinsumLabels rows, columns;
    for (EinsumLabel label : keep) {
      if (Contains(tensor.labels, label)) rows.push_back(label);
    }
    for (EinsumLabel label : tensor.labels) {
      if (!Contains(rows, label)) columns.push_back(label);
    }
    if (columns.empty()) return;
    EinsumStep step;
    step.is_sum = true;
    step.a = Arrange(tensor, {}, rows, columns, false);
    step.rows = Product(rows);
    step.inner = Product(columns);
    tensor = Scratch(rows);
    step.result = tensor.offset;
    plan_.steps.push_back(std::move(step));
  }

  /// Multiplies the two tensors whose product is smallest, which keeps chains cheap.
  void Multiply() {
    size_t first = 0, second = 1;
    double smallest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < tensors_.size() && tensors_.size() > 2; ++i) {
      for (size_t j = i + 1; j < tensors_.size(); ++j) {
        const double size = ResultSize(i, j);
        if (size < smallest) {
          smallest = size;
          first = i;
          second = j;
        }
      }
    }
    MultiplyPair(first, second);
    tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(second));
  }

  void MultiplyPair(size_t first, size_t second) {
    const std::set<EinsumLabel> needed = Needed(first, second);
    EinsumTensor &a = tensors_[first], &b = tensors_[second];
    const auto with = [&](const EinsumLabels& partner) {
      std::set<EinsumLabel> keep = needed;
      keep.insert(partner.begin(), partner.end());
      return keep;
    };
    SumUp(a, with(b.labels));
    SumUp(b, with(a.labels));
    EinsumLabels batch, rows, columns, inner;
    for (EinsumLabel label : InOutputOrder(a.labels)) {
      const bool shared = Contains(b.labels, label);
      const bool kept = needed.count(label) != 0;
      (!shared ? rows : kept ? batch : inner).push_back(label);
    }
    for (EinsumLabel label : InOutputOrder(b.labels)) {
      if (!Contains(a.labels, label)) columns.push_back(label);
    }
    // The other way round where that gives the axes in the order of the output.
    if (Joined({&batch, &columns, &rows}) == axes_.output) {
      std::swap(a, b);
      std::swap(rows, columns);
    }
    EinsumStep step;
    step.a = Arrange(a, batch, rows, inner, may_transpose_);
    step.b = Arrange(b, batch, inner, columns, may_transpose_);
    step.count = Product(batch);
    step.rows = Product(rows);
    step.columns = Product(columns);
    step.inner = Product(inner);
    a = Scratch(Joined({&batch, &rows, &columns}));
    step.result = a.offset;
    plan_.steps.push_back(std::move(step));
  }

  /// Those that the output has in its order, then the others as they are.
  EinsumLabels InOutputOrder(const EinsumLabels& labels) const {
    EinsumLabels ordered;
    for (EinsumLabel label : axes_.output) {
      if (Contains(labels, label)) ordered.push_back(label);
    }
    for (EinsumLabel label : labels) {
      if (!Contains(ordered, label)) ordered.push_back(label);
    }
    return ordered;
  }

  void Finish() {
    EinsumTensor& last = tensors_[0];
    const Strided view = Ordered(last, axes_.output);
    if (last.input < 0 && view.IsDense()) {
      plan_.steps.back().is_last = true;
      return;
    }
    plan_.rest = last;
    plan_.rest->labels = axes_.output;
    plan_.rest->view = view;
  }

  const EinsumAxes& axes_;
  bool may_transpose_;
  std::vector<EinsumTensor> tensors_;
  EinsumPlan plan_;
};

}  // namespace

double EinsumStep::products() const {
  return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(inner);
}

EinsumPlan EinsumPlan::Of(const EinsumAxes& axes, std::span<const Shape> shapes,
                          bool may_transpose) {
  return Planner(axes, may_transpose).Run(shapes);
}

}  // namespace oort
