"""The operations of the job's layers, with the shapes that the planner's tables speak of.

Products are C[m,n] = A[m,k] B[k,n]; grouped ones have `groups` products of m / groups rows each.
Attention has m queries and n keys of a sequence, heads of k elements, and `groups` sequences times
heads. See the message OperationTable of proto/hapmoe/v1/profile.proto.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .job import degree

# Weight gradients take so much longer than products of the same size (core/cost/compute_time.cc).
# The planner multiplies by it, so what was measured of a weight gradient is divided by it.
WEIGHT_GRADIENT_OVER_FORWARD = 1.045


class Shape(NamedTuple):
    m: int
    n: int
    k: int
    groups: int = 1


def _cuts(job: dict[str, Any]) -> list[tuple[int, int]]:
    """(tensor-parallel degree, micro-batch size): the job's own first, then those that a planner
    would ask about."""
    own = (degree(job, "tensor_model_parallel_size"), int(job["micro_batch_size"]))
    heads = int(job["num_attention_heads"])
    cuts = [own]
    for micro_batch in (own[1], 1, 2, 4):
        for tensor in (own[0], 1, 2, 4, 8):
            if heads % tensor == 0 and (tensor, micro_batch) not in cuts:
                cuts.append((tensor, micro_batch))
    return cuts


def products(job: dict[str, Any]) -> list[Shape]:
    """Forward matrix products of dense modules: attention's projections, the MLP, the router, the
    output layer; those of the job's own cut first, without repetition."""
    hidden = int(job["hidden_size"])
    heads = int(job["num_attention_heads"])
    head = int(job["kv_channels"] or hidden // heads)
    query_groups = int(job["num_query_groups"] or heads) if job["group_query_attention"] else heads
    sequence = int(job["seq_length"]) // degree(job, "context_parallel_size")
    gate = 2 if job["swiglu"] else 1
    found: dict[Shape, None] = {}
    for tensor, micro_batch in _cuts(job):
        rows = sequence * micro_batch
        between = rows // tensor if job["sequence_parallel"] else rows
        if not job["multi_latent_attention"]:
            width = head * (heads + 2 * query_groups)
            if width % tensor == 0:
                found[Shape(rows, width // tensor, hidden)] = None
            found[Shape(rows, hidden, heads * head // tensor)] = None
        widths = [job["ffn_hidden_size"]] if _has_dense_mlp(job) else []
        widths.append(job["moe_shared_expert_intermediate_size"])
        for ffn in widths:
            if ffn and int(ffn) % tensor == 0:
                found[Shape(rows, gate * int(ffn) // tensor, hidden)] = None
                found[Shape(rows, hidden, int(ffn) // tensor)] = None
        if job["num_experts"]:
            found[Shape(between, int(job["num_experts"]), hidden)] = None
        if job["padded_vocab_size"]:
            found[Shape(rows, int(job["padded_vocab_size"]) // tensor, hidden)] = None
    return [shape for shape in found if min(shape) > 0]


def _has_dense_mlp(job: dict[str, Any]) -> bool:
    return not job["num_experts"] or "dense" in (job.get("layer_kinds") or ["dense"])


def grouped_products(job: dict[str, Any]) -> list[Shape]:
    """Forward products of the experts of one rank, balanced."""
    if not job["num_experts"]:
        return []
    hidden, experts = int(job["hidden_size"]), int(job["num_experts"])
    ffn = int(job["moe_ffn_hidden_size"] or job["ffn_hidden_size"])
    gate = 2 if job["swiglu"] else 1
    sequence = int(job["seq_length"]) // degree(job, "context_parallel_size")
    topk = int(job["moe_router_topk"] or 1)
    own = degree(job, "expert_model_parallel_size")
    shards = degree(job, "expert_tensor_parallel_size")
    found: dict[Shape, None] = {}
    for tensor, micro_batch in _cuts(job):
        for expert in dict.fromkeys((own, 1, 2, 4, 8, 16, 32)):
            if experts % expert or ffn % shards:
                continue
            rows = topk * sequence * micro_batch * shards // tensor
            local = experts // expert
            if rows >= local:
                found[Shape(rows, gate * ffn // shards, hidden, local)] = None
                found[Shape(rows, hidden, ffn // shards, local)] = None
    return list(found)


def attentions(job: dict[str, Any]) -> list[Shape]:
    """Core attention without context parallelism."""
    if job["multi_latent_attention"] or degree(job, "context_parallel_size") > 1:
        return []
    heads, sequence = int(job["num_attention_heads"]), int(job["seq_length"])
    head = int(job["kv_channels"] or int(job["hidden_size"]) // heads)
    found: dict[Shape, None] = {}
    for tensor, micro_batch in _cuts(job):
        found[Shape(sequence, sequence, head, heads // tensor * micro_batch)] = None
    return list(found)


def input_gradient(shape: Shape) -> Shape:
    """The product that gives the gradient of A."""
    return Shape(shape.m, shape.k, shape.n, shape.groups)


def weight_gradient(shape: Shape) -> Shape:
    """The product that gives the gradient of B: it contracts over the rows of each group."""
    return Shape(shape.k * shape.groups, shape.n, shape.m // shape.groups, shape.groups)
