package predicates

import (
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"
)

// snapshot is what the plugins see of a cluster. The framework keeps one lister
// for its life, so the nodes behind it are exchanged from question to question.
type snapshot struct {
	nodes []fwk.NodeInfo
}

var (
	_ fwk.SharedLister      = &snapshot{}
	_ fwk.NodeInfoLister    = &snapshot{}
	_ fwk.StorageInfoLister = &snapshot{}
)

func (s *snapshot) NodeInfos() fwk.NodeInfoLister           { return s }
func (s *snapshot) StorageInfos() fwk.StorageInfoLister     { return s }
func (s *snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroupStates{} }
func (s *snapshot) List() ([]fwk.NodeInfo, error)           { return s.nodes, nil }

func (s *snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	return s.having(fwk.NodeInfo.GetPodsWithAffinity), nil
}

func (s *snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.having(fwk.NodeInfo.GetPodsWithRequiredAntiAffinity), nil
}

func (s *snapshot) having(pods func(fwk.NodeInfo) []fwk.PodInfo) []fwk.NodeInfo {
	var with []fwk.NodeInfo
	for _, n := range s.nodes {
		if len(pods(n)) > 0 {
			with = append(with, n)
		}
	}
	return with
}

func (s *snapshot) Get(name string) (fwk.NodeInfo, error) {
	for _, n := range s.nodes {
		if n.Node().Name == name {
			return n, nil
		}
	}
	return nil, apierrors.NewNotFound(v1.Resource("nodes"), name)
}

func (s *snapshot) IsPVCUsedByPods(key string) bool {
	for _, n := range s.nodes {
		if n.GetPVCRefCounts()[key] > 0 {
			return true
		}
	}
	return false
}

type noPodGroupStates struct{}

func (noPodGroupStates) Get(_, name string) (fwk.PodGroupState, error) {
	return nil, apierrors.NewNotFound(v1.Resource("podgroups"), name)
}
