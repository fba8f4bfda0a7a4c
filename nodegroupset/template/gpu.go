package template

import v1 "k8s.io/api/core/v1"

// gpus are the resources that Cluster Autoscaler takes for GPUs.
var gpus = []v1.ResourceName{"nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"}

// GPUs are those of a node by its capacity or allocatable; of several kinds the first counts, and none is 0.
func GPUs(amounts v1.ResourceList) (kind v1.ResourceName, n int64) {
	for _, name := range gpus {
		if amount, listed := amounts[name]; listed && !amount.IsZero() {
			return name, amount.Value()
		}
	}
	return "", 0
}
