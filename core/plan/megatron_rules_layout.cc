// Rules about stages, virtual stages and layout strings.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

using C = const RuleContext&;
using absl::StrCat;

bool GivesFirstOrLast(C c) {
  return c.parallel->first_stage_layers.has_value() || c.parallel->last_stage_layers.has_value();
}

bool AccountsForEnds(C c) {
  return c.parallel->account_for_embedding || c.parallel->account_for_loss;
}

int64_t CountedLayers(C c) {
  return c.model->layers + (c.parallel->account_for_embedding ? 1 : 0) +
         (c.parallel->account_for_loss ? 1 : 0);
}

int VirtualStageOptions(C c) {
  return (c.parallel->layers_per_virtual_stage.has_value() ? 1 : 0) +
         (c.parallel->virtual_stages_per_rank.has_value() ? 1 : 0) +
         (c.parallel->layout.has_value() ? 1 : 0);
}

// Layers split by first and last stage, with nothing else in the way.
bool SplitsByEnds(C c) {
  return GivesFirstOrLast(c) && !AccountsForEnds(c) && !c.parallel->layout.has_value() &&
         c.parallel->first_stage_layers.value_or(1) > 0 &&
         c.parallel->last_stage_layers.value_or(1) > 0;
}

int64_t MiddleLayers(C c) {
  return c.model->layers - c.parallel->first_stage_layers.value_or(0) -
         c.parallel->last_stage_layers.value_or(0);
}

int64_t MiddleStages(C c) {
  return c.parallel->pp - (c.parallel->first_stage_layers.has_value() ? 1 : 0) -
         (c.parallel->last_stage_layers.has_value() ? 1 : 0);
}

bool MiddleFits(C c) {
  const int64_t layers = MiddleLayers(c), stages = MiddleStages(c);
  return layers >= 0 && stages >= 0 && (layers > 0) == (stages > 0) && Divides(stages, layers);
}

// The even split, where the number of stages divides the layers.
bool SplitsEvenly(C c) {
  return !GivesFirstOrLast(c) && !c.parallel->layout.has_value() &&
         Divides(c.parallel->pp, CountedLayers(c));
}

// A layout that was read and that fills the pipeline; otherwise other rules speak.
bool HasLayout(C c) { return c.layout != nullptr && c.layout->ok(); }

int64_t Count(C c, char letter) {
  int64_t count = 0;
  for (const std::string& stage : c.layout->stages) {
    count += std::count(stage.begin(), stage.end(), letter);
  }
  return count;
}

// The first, or the last, letter of the layout; 0 if it has none.
char EndLetter(C c, bool first) {
  char last = 0;
  for (const std::string& stage : c.layout->stages) {
    if (stage.empty()) continue;
    if (first) return stage.front();
    last = stage.back();
  }
  return last;
}

std::string Letter(char letter) {
  return letter == 0 ? std::string("nothing") : std::string(1, letter);
}

bool DecodersPrecedeMtp(C c) {
  bool seen = false;
  for (const std::string& stage : c.layout->stages) {
    for (char letter : stage) {
      seen |= letter == 'm';
      if (seen && letter == 't') return false;
    }
  }
  return true;
}

// The first stage with an MTP layer that is not in the last virtual stage; -1 if there is none.
int64_t EarlyMtpStage(C c) {
  const int64_t last =
      static_cast<int64_t>(c.layout->stages.size()) - std::max<int64_t>(c.parallel->pp, 1);
  for (int64_t i = 0; i < last; ++i) {
    if (c.layout->stages[static_cast<size_t>(i)].find('m') != std::string::npos) return i;
  }
  return -1;
}

int64_t StagesWithMtp(C c) {
  return std::count_if(c.layout->stages.begin(), c.layout->stages.end(),
                       [](const std::string& s) { return s.find('m') != std::string::npos; });
}

bool FillsPipeline(C c) {
  return Divides(c.parallel->pp, static_cast<int64_t>(c.layout->stages.size()));
}

int64_t Group(C c) { return c.parallel->interleaving_group.value_or(c.parallel->pp); }

bool Interleaves(C c) {
  return c.virtual_stages > 1 && c.parallel->pp > 1 && c.micro_batches() > 0 &&
         !c.facts->batch_schedule && Divides(c.training->micro_batch * c.dp(), c.global_batch());
}

bool GroupFits(C c) { return Group(c) >= c.parallel->pp && Group(c) <= c.micro_batches(); }

constexpr Rule kRules[] = {
    {"one_virtual_stage_option", "training/arguments.py:928",
     "--num-virtual-stages-per-pipeline-rank", kLayoutScope,
     [](C c) { return VirtualStageOptions(c) <= 1; },
     [](C) {
       return std::string(
           "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank and "
           "--pipeline-model-parallel-layout exclude each other.");
     }},
    {"layout_excludes_split_options", "core/transformer/transformer_config.py:2252",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) {
       return !c.parallel->layout.has_value() || (!GivesFirstOrLast(c) && !AccountsForEnds(c));
     },
     [](C) {
       return std::string(
           "--pipeline-model-parallel-layout excludes --decoder-first-pipeline-num-layers, "
           "--decoder-last-pipeline-num-layers and --account-for-*-in-pipeline-split.");
     }},
    {"first_last_excludes_account_for", "core/transformer/transformer_config.py:2235",
     "--decoder-first-pipeline-num-layers", kLayoutScope,
     [](C c) {
       return c.parallel->layout.has_value() || !GivesFirstOrLast(c) || !AccountsForEnds(c);
     },
     [](C) {
       return std::string(
           "The layers of the first and last stage exclude --account-for-*-in-pipeline-split.");
     }},
    {"first_last_excludes_layers_per_virtual_stage", "training/arguments.py:955",
     "--num-layers-per-virtual-pipeline-stage", kLayoutScope,
     [](C c) {
       return VirtualStageOptions(c) > 1 || !GivesFirstOrLast(c) ||
              !c.parallel->layers_per_virtual_stage.has_value();
     },
     [](C) {
       return std::string(
           "With layers of the first or last stage given, virtual stages are counted by "
           "--num-virtual-stages-per-pipeline-rank.");
     }},
    {"layers_divisible_by_pp", "training/arguments.py:997", "--pipeline-model-parallel-size",
     kLayoutScope,
     [](C c) {
       return c.parallel->layout.has_value() || GivesFirstOrLast(c) || AccountsForEnds(c) ||
              Divides(c.parallel->pp, c.model->layers);
     },
     [](C c) {
       return StrCat(c.model->layers, " layers are not divisible by pipeline parallel size ",
                     c.parallel->pp, ".");
     }},
    {"layers_and_ends_divisible_by_pp", "training/arguments.py:997",
     "--pipeline-model-parallel-size", kLayoutScope,
     [](C c) {
       return c.parallel->layout.has_value() || GivesFirstOrLast(c) || !AccountsForEnds(c) ||
              Divides(c.parallel->pp, CountedLayers(c));
     },
     [](C c) {
       return StrCat(c.model->layers, " layers and the ends that count as layers are ",
                     CountedLayers(c), ", not divisible by pipeline parallel size ", c.parallel->pp,
                     ".");
     }},
    {"first_last_stage_layers_positive", "core/transformer/transformer_config.py:2304",
     "--decoder-first-pipeline-num-layers", kLayoutScope,
     [](C c) {
       return c.parallel->layout.has_value() || (c.parallel->first_stage_layers.value_or(1) > 0 &&
                                                 c.parallel->last_stage_layers.value_or(1) > 0);
     },
     [](C c) {
       return StrCat("The first and the last stage must hold layers, but are given ",
                     c.parallel->first_stage_layers.value_or(1), " and ",
                     c.parallel->last_stage_layers.value_or(1), ".");
     }},
    {"middle_stages_divide_layers", "core/transformer/transformer_config.py:2350",
     "--decoder-first-pipeline-num-layers", kLayoutScope,
     [](C c) { return !SplitsByEnds(c) || MiddleFits(c); },
     [](C c) {
       return StrCat("Beside the first and last stage, ", MiddleLayers(c), " layers are left for ",
                     MiddleStages(c), " stages, which do not divide them.");
     }},
    {"stage_layers_divisible_by_layers_per_virtual_stage", "training/arguments.py:972",
     "--num-layers-per-virtual-pipeline-stage", kLayoutScope,
     [](C c) {
       if (VirtualStageOptions(c) > 1 || !SplitsEvenly(c) || c.parallel->pp < 1) return true;
       return Divides(c.parallel->layers_per_virtual_stage.value_or(1),
                      CountedLayers(c) / c.parallel->pp);
     },
     [](C c) {
       return StrCat("The ", CountedLayers(c) / c.parallel->pp,
                     " layers of a stage are not divisible by ",
                     *c.parallel->layers_per_virtual_stage, " layers in a virtual stage.");
     }},
    {"stage_layers_divisible_by_virtual_stages", "core/transformer/transformer_block.py:176",
     "--num-virtual-stages-per-pipeline-rank", kLayoutScope,
     [](C c) {
       if (VirtualStageOptions(c) > 1 || c.virtual_stages <= 1 || c.parallel->pp <= 1) return true;
       if (SplitsEvenly(c)) return Divides(c.virtual_stages, CountedLayers(c) / c.parallel->pp);
       if (!SplitsByEnds(c) || !MiddleFits(c)) return true;
       const int64_t stages = MiddleStages(c);
       return Divides(c.virtual_stages, c.parallel->first_stage_layers.value_or(0)) &&
              Divides(c.virtual_stages, c.parallel->last_stage_layers.value_or(0)) &&
              (stages < 1 || Divides(c.virtual_stages, MiddleLayers(c) / stages));
     },
     [](C c) {
       if (!GivesFirstOrLast(c)) {
         return StrCat("The ", CountedLayers(c) / c.parallel->pp,
                       " layers of a stage are not divisible by ", c.virtual_stages,
                       " virtual stages.");
       }
       return StrCat("The layers of the first, the last and the middle stages (",
                     c.parallel->first_stage_layers.value_or(0), ", ",
                     c.parallel->last_stage_layers.value_or(0), " and ",
                     MiddleStages(c) > 0 ? MiddleLayers(c) / MiddleStages(c) : 0,
                     ") must each be divisible by ", c.virtual_stages, " virtual stages.");
     }},
    {"virtual_stages_need_pipeline", "training/arguments.py:1002", "--pipeline-model-parallel-size",
     kDegreesScope,
     [](C c) {
       return c.virtual_stages <= 1 || c.parallel->pp > (c.parallel->overlap_p2p ? 1 : 2);
     },
     [](C c) {
       return StrCat(c.virtual_stages, " virtual stages need a pipeline parallel size above ",
                     c.parallel->overlap_p2p ? "1" : "2 where sends do not overlap", ", but it is ",
                     c.parallel->pp, ".");
     }},
    {"interleaving_group_in_range", "core/pipeline_parallel/schedules.py:1168",
     "--microbatch-group-size-per-virtual-pipeline-stage", kDegreesScope,
     [](C c) { return !Interleaves(c) || GroupFits(c); },
     [](C c) {
       return StrCat("The interleaved schedule runs ", Group(c),
                     " micro-batches of a virtual stage in a row; this must be from pipeline "
                     "parallel size ",
                     c.parallel->pp, " to the ", c.micro_batches(), " micro-batches there are.");
     }},
    {"interleaving_remainder", "core/pipeline_parallel/schedules.py:1180",
     "--microbatch-group-size-per-virtual-pipeline-stage", kDegreesScope,
     [](C c) {
       if (!Interleaves(c) || !GroupFits(c)) return true;
       const int64_t rest = c.micro_batches() % Group(c);
       return rest == 0 || rest >= c.parallel->pp;
     },
     [](C c) {
       return StrCat(c.micro_batches(), " micro-batches in runs of ", Group(c), " leave ",
                     c.micro_batches() % Group(c),
                     ", which must be 0 or at least pipeline "
                     "parallel size ",
                     c.parallel->pp, ".");
     }},
    {"mtp_positions", "training/arguments.py:883", "--position-embedding-type", kJobScope,
     [](C c) { return c.model->mtp_layers <= 0 || c.facts->mtp_positions; },
     [](C) {
       return std::string("Multi-token prediction needs --position-embedding-type rope or none.");
     }},
    {"layout_syntax", "core/transformer/pipeline_parallel_layer_layout.py:315",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return c.layout == nullptr || c.layout->ok(); },
     [](C c) { return c.layout->fault; }},
    {"layout_stages_divisible_by_pp", "training/arguments.py:945",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || FillsPipeline(c); },
     [](C c) {
       return StrCat("The layout's ", c.layout->stages.size(),
                     " stages are not divisible by pipeline parallel size ", c.parallel->pp, ".");
     }},
    {"layout_starts_with_embedding", "core/transformer/pipeline_parallel_layer_layout.py:96",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || EndLetter(c, true) == 'E'; },
     [](C c) {
       return StrCat("The layout must start with E, the embedding, but starts with ",
                     Letter(EndLetter(c, true)), ".");
     }},
    {"layout_ends_with_loss", "core/transformer/pipeline_parallel_layer_layout.py:99",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || EndLetter(c, false) == 'L'; },
     [](C c) {
       return StrCat("The layout must end with L, the loss, but ends with ",
                     Letter(EndLetter(c, false)), ".");
     }},
    {"layout_one_embedding", "core/transformer/pipeline_parallel_layer_layout.py:104",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || Count(c, 'E') <= 1; },
     [](C c) { return StrCat("The layout holds E ", Count(c, 'E'), " times instead of once."); }},
    {"layout_one_loss", "core/transformer/pipeline_parallel_layer_layout.py:106",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || Count(c, 'L') <= 1; },
     [](C c) { return StrCat("The layout holds L ", Count(c, 'L'), " times instead of once."); }},
    {"layout_decoder_count", "core/transformer/pipeline_parallel_layer_layout.py:107",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || Count(c, 't') == c.model->layers; },
     [](C c) {
       return StrCat("The layout holds ", Count(c, 't'), " decoder layers, the model ",
                     c.model->layers, ".");
     }},
    {"layout_mtp_count", "core/transformer/pipeline_parallel_layer_layout.py:113",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || Count(c, 'm') == c.model->mtp_layers; },
     [](C c) {
       return StrCat("The layout holds ", Count(c, 'm'),
                     " multi-token prediction layers, the model ", c.model->mtp_layers, ".");
     }},
    {"layout_mtp_after_decoders", "core/transformer/pipeline_parallel_layer_layout.py:118",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || DecodersPrecedeMtp(c); },
     [](C) {
       return std::string(
           "The layout places a decoder layer t after a multi-token prediction "
           "layer m.");
     }},
    {"layout_mtp_in_last_virtual_stage", "core/transformer/pipeline_parallel_layer_layout.py:124",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || !FillsPipeline(c) || EarlyMtpStage(c) < 0; },
     [](C c) {
       const int64_t stage = EarlyMtpStage(c), pp = std::max<int64_t>(c.parallel->pp, 1);
       return StrCat("The layout places m in virtual stage ", stage / pp, " of pipeline rank ",
                     stage % pp, "; it must be in the rank's last one.");
     }},
    {"layout_mtp_together", "core/transformer/pipeline_parallel_layer_layout.py:130",
     "--pipeline-model-parallel-layout", kLayoutScope,
     [](C c) { return !HasLayout(c) || StagesWithMtp(c) <= 1; },
     [](C c) {
       return StrCat("The layout spreads multi-token prediction layers over ", StagesWithMtp(c),
                     " stages; all must be in one.");
     }},
};

}  // namespace

absl::Span<const Rule> LayoutRules() { return kRules; }

}  // namespace hapmoe::plan
