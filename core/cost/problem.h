// What is to be costed: a job, a cluster, and the profiles of its pools.
#ifndef HAPMOE_CORE_COST_PROBLEM_H_
#define HAPMOE_CORE_COST_PROBLEM_H_

#include <memory>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/cost/product_memo.h"
#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::cost {

// Assumes that model, training and cluster were validated and that every pool has its profile.
struct Problem {
  model::TransformerSpec model;
  model::TrainingSpec training;
  cluster::Cluster cluster;
  // One for each pool, in the order of cluster.pools. Never null.
  std::vector<std::shared_ptr<const profile::AcceleratorProfile>> profiles;
  // Share of device memory that a plan leaves free, in [0, 1).
  double memory_headroom_ratio = 0.05;
  // Shared by all that cost this problem; may be null. Holds for these profiles only.
  std::shared_ptr<ProductMemo> products = nullptr;
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_PROBLEM_H_
