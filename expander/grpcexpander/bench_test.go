package grpcexpander_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// veto chooses nothing, in no time.
var veto = expander.ChooserFunc(func(context.Context, expander.Question) ([]string, error) { return nil, nil })

// pending is a pod as an API server stores it: two containers with environment,
// probes and mounts, affinity, tolerations, a spread constraint, managed fields.
func pending(i int) *v1.Pod {
	app := fmt.Sprintf("app-%d", i/50)
	container := func(name string) v1.Container {
		c := v1.Container{
			Name: name, Image: "registry.example/team/" + app + "-" + name + "@sha256:" + strings.Repeat("0a1b2c3d", 8),
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("1Gi")},
				Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi")},
			},
			VolumeMounts: []v1.VolumeMount{{Name: "config", MountPath: "/etc/" + app},
				{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
			LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/healthz"}}, PeriodSeconds: 10,
				TimeoutSeconds: 1},
			TerminationMessagePath: "/dev/termination-log", ImagePullPolicy: v1.PullIfNotPresent,
		}
		for j := range 10 {
			c.Env = append(c.Env, v1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: "a value of " + app})
		}
		return c
	}
	labels := map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9c5b8f6"}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-7d9c5b8f6-%05d", app, i), GenerateName: app + "-7d9c5b8f6-", Namespace: "shop",
			UID:             types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			ResourceVersion: fmt.Sprint(1_000_000 + i), CreationTimestamp: metav1.Unix(1_800_000_000, 0), Labels: labels,
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": strings.Repeat("deadbeef", 8)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d9c5b8f6",
				UID: "8a9e3150-ff32-4b20-8c10-16847aa1b2c3"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:app":{}},`, 30) + `}}`),
			}},
		},
		Spec: v1.PodSpec{
			Containers: []v1.Container{container("main"), container("proxy")},
			Volumes: []v1.Volume{{Name: "config",
				VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: app}}}}},
			Tolerations: []v1.Toleration{{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}},
			SchedulerName: v1.DefaultSchedulerName, ServiceAccountName: app,
		},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
			Message: "0/300 nodes are available: 300 Insufficient cpu. " + strings.Repeat("preemption: not helpful. ", 10),
		}}},
	}
}

// large is the wire of a request of 1,000 groups and 5,000 pods, each in five
// options, and the templates of all groups.
func large(t testing.TB) []byte {
	t.Helper()
	const groups, pods, each = 1000, 5000, 5
	request := &grpcexpanderpb.BestOptionsRequest{NodeBytesMap: map[string][]byte{}}
	for i := range groups {
		id := fmt.Sprint("group-", i)
		node, err := (&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{v1.LabelHostname: id}}}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		request.NodeBytesMap[id] = node
		request.Options = append(request.Options, &grpcexpanderpb.Option{NodeGroupId: id, NodeCount: 3})
	}
	for i := range pods {
		pod, err := pending(i).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for j := range each {
			option := request.GetOptions()[(i/25*each+j)%groups]
			option.PodBytes = append(option.PodBytes, pod)
		}
	}
	wire, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// BenchmarkBestOptions decodes a large request, from the bytes on.
func BenchmarkBestOptions(b *testing.B) {
	wire := large(b)
	server := grpcexpander.NewServer(veto)
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		request := &grpcexpanderpb.BestOptionsRequest{}
		if err := proto.Unmarshal(wire, request); err != nil {
			b.Fatal(err)
		}
		if _, err := server.BestOptions(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecode is the part of it that is ours.
func BenchmarkDecode(b *testing.B) {
	request := &grpcexpanderpb.BestOptionsRequest{}
	if err := proto.Unmarshal(large(b), request); err != nil {
		b.Fatal(err)
	}
	server := grpcexpander.NewServer(veto)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := server.BestOptions(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryOfLargeRequest sends the large request over loopback: memory, that of
// the client included, stays below 1 GiB. How long it takes is for benchmarks to say.
func TestMemoryOfLargeRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector needs memory of its own, and so much time that the server may stop waiting for the request")
	}
	wire := large(t)
	request := &grpcexpanderpb.BestOptionsRequest{}
	if err := proto.Unmarshal(wire, request); err != nil {
		t.Fatal(err)
	}
	var stats runtime.MemStats
	client := serve(t, expander.ChooserFunc(func(context.Context, expander.Question) ([]string, error) {
		runtime.ReadMemStats(&stats)
		return nil, nil
	}))
	runtime.GC()
	if _, err := client.BestOptions(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	t.Logf("a request of %d MiB takes %d MiB of heap", len(wire)>>20, stats.HeapInuse>>20)
	if stats.HeapInuse > 1<<30 {
		t.Errorf("a request of %d MiB takes %d MiB of heap", len(wire)>>20, stats.HeapInuse>>20)
	}
}

// BenchmarkServed sends the large request over loopback.
func BenchmarkServed(b *testing.B) {
	wire := large(b)
	request := &grpcexpanderpb.BestOptionsRequest{}
	if err := proto.Unmarshal(wire, request); err != nil {
		b.Fatal(err)
	}
	client := serve(b, veto)
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.BestOptions(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
