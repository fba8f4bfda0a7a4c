package main

import (
	_ "k8s.io/autoscaler/cluster-autoscaler/apis/capacityquota/autoscaling.x-k8s.io/v1beta1"
	_ "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/router"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/kubernetes/pkg/features"
	_ "sigs.k8s.io/cluster-autoscaler/pkg/builder"
	_ "sigs.k8s.io/cluster-autoscaler/pkg/config/flags"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/yaml"
)

func main() {}
