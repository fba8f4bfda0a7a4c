# The import paths of the release 1.36, in which all lies in one module, without the folder pkg.
s,"sigs.k8s.io/cluster-autoscaler/pkg/,"k8s.io/autoscaler/cluster-autoscaler/,
s,"k8s.io/autoscaler/cluster-autoscaler/apis/capacityquota/autoscaling.x-k8s.io/v1beta1","k8s.io/autoscaler/cluster-autoscaler/apis/capacityquota/autoscaling.x-k8s.io/v1alpha1",
