#include "client/launch_environment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace hapmoe::client {
namespace {

constexpr absl::string_view kPrefixes[] = {
    // PyTorch, Megatron-LM, Transformer Engine, DeepEP, Triton.
    "TORCH_", "TORCHINDUCTOR_", "TORCHELASTIC_", "PYTORCH_", "PET_", "MEGATRON_", "NVTE_",
    "DEEP_EP_", "TRITON_",
    // Collective libraries and what they send over.
    "NCCL_", "RCCL_", "HCCL_", "GLOO_", "MCCL_", "CNCL_", "BKCL_", "FLAGCX_", "UCX_", "UCC_",
    "NVSHMEM_", "SHARP_", "FI_", "RDMAV_", "OMPI_MCA_",
    // Devices: NVIDIA, AMD, Huawei, Moore Threads, Cambricon, Kunlunxin.
    "CUDA_", "CUBLAS", "CUDNN_", "HIP_", "HSA_", "ROCR_", "ROCM_", "ROCBLAS_", "HIPBLASLT_",
    "MIOPEN_", "ASCEND_", "ACL_", "NPU_", "MUSA_", "MLU_", "XPU_",
    // Threads of the host.
    "OMP_", "MKL_", "KMP_", "GOMP_"};

constexpr absl::string_view kNames[] = {"MASTER_ADDR",
                                        "MASTER_PORT",
                                        "WORLD_SIZE",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "NODE_RANK",
                                        "NNODES",
                                        "NPROC_PER_NODE",
                                        "GPUS_PER_NODE",
                                        "GPU_MAX_HW_QUEUES",
                                        "TASK_QUEUE_ENABLE",
                                        "COMBINED_ENABLE",
                                        "CPU_AFFINITY_CONF",
                                        "MULTI_STREAM_MEMORY_REUSE",
                                        "STREAMS_PER_DEVICE",
                                        "INF_NAN_MODE_ENABLE",
                                        "TOKENIZERS_PARALLELISM",
                                        "PYTHONPATH",
                                        "LD_LIBRARY_PATH",
                                        "LD_PRELOAD",
                                        "FLASH_ATTENTION_DETERMINISTIC"};

}  // namespace

bool MattersToLaunch(absl::string_view name) {
  const auto is_start = [name](absl::string_view prefix) { return absl::StartsWith(name, prefix); };
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), is_start) ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace hapmoe::client
