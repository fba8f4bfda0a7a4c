package podcache_test

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/podhealth"
)

const note = "example.com/note"

// pod is a pod of a template, as a cluster has it.
func pod(template, n int) *v1.Pod {
	name := fmt.Sprintf("web-%d-%05d", template, n)
	mounts := []v1.VolumeMount{{Name: "kube-api-access-" + name, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
		{Name: "config", MountPath: "/etc/web"}}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(n),
			Labels:      map[string]string{"app": "web", "pod-template-hash": fmt.Sprint(template)},
			Annotations: map[string]string{note: "kept", "example.com/checksum": "0123456789abcdef0123456789abcdef"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: new(true),
				BlockOwnerDeletion: new(true)}},
		},
		Spec: v1.PodSpec{
			NodeName: fmt.Sprint("node-", n), SchedulerName: "default-scheduler", Priority: new(int32(0)),
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example.com/web:1", Env: []v1.EnvVar{{Name: "MODE", Value: "production"}}, VolumeMounts: mounts,
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"),
					v1.ResourceMemory: resource.MustParse("1Gi")}},
				Ports: []v1.ContainerPort{{ContainerPort: 8080}, {ContainerPort: 9090, HostPort: 9090}},
			}},
			Tolerations: []v1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: v1.TolerationOpExists},
				{Key: "node.kubernetes.io/unreachable", Operator: v1.TolerationOpExists}},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
			Volumes: []v1.Volume{
				{Name: "kube-api-access-" + name, VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}},
				{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, Message: "long"}, {Type: v1.PodReady, Status: v1.ConditionTrue},
			{Type: v1.ContainersReady, Status: v1.ConditionTrue},
		}},
	}
}

func Example() {
	trim := podcache.Trim([]string{note})
	object, err := trim(pod(1, 7))
	kept := object.(*v1.Pod)
	fmt.Println(kept.Name, kept.Spec.NodeName, kept.Annotations, kept.Spec.Containers[0].Resources.Requests.Cpu(), err)
	// Output: web-1-00007 node-7 map[example.com/note:kept] 500m <nil>
}

// Of a pod stay its health, its owner and what the scheduler reads; the rest goes, and the pod that
// came is not changed.
func TestWhatIsKept(t *testing.T) {
	whole := pod(1, 1)
	before := whole.DeepCopy()
	object, err := podcache.Trim([]string{note})(whole)
	if err != nil {
		t.Fatal(err)
	}
	kept := object.(*v1.Pod)
	if !equality.Semantic.DeepEqual(whole, before) {
		t.Error("the pod was changed")
	}
	c := kept.Spec.Containers[0]
	if podhealth.Assess(kept) != podhealth.Assess(whole) || len(kept.OwnerReferences) != 1 || len(kept.Annotations) != 1 ||
		len(kept.Status.Conditions) != 2 {
		t.Errorf("kept %+v", kept)
	}
	if c.Image != "" || c.Env != nil || len(c.Ports) != 1 || len(kept.Spec.Volumes) != 1 || kept.Spec.Volumes[0].Name != "data" ||
		len(kept.Spec.TopologySpreadConstraints) != 1 {
		t.Errorf("kept %+v", kept.Spec)
	}
	for _, object := range []any{cache.DeletedFinalStateUnknown{Key: "shop/web"}, &v1.Node{}, "no pod", nil} {
		if other, err := podcache.Trim(nil)(object); err != nil || !reflect.DeepEqual(other, object) {
			t.Errorf("%v became %v, %v", object, other, err)
		}
	}
}

// Of a node goes what is large and what changes with every heartbeat.
func TestWhatIsKeptOfANode(t *testing.T) {
	whole := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{note: "long"}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "spot"}}},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}, Images: []v1.ContainerImage{{Names: []string{"web"}}},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
	object, err := podcache.TrimNode(whole)
	want := whole.DeepCopy()
	want.Annotations, want.Status.Images, want.Status.Conditions[0].LastHeartbeatTime = nil, nil, metav1.Time{}
	if err != nil || !equality.Semantic.DeepEqual(object, want) {
		t.Errorf("kept %+v, %v", object, err)
	}
	if other, err := podcache.TrimNode("no node"); other != "no node" || err != nil {
		t.Errorf("got %v, %v", other, err)
	}
}

// Pods of a template share what is kept of their specs.
func TestPodsOfATemplateShareTheirSpec(t *testing.T) {
	trim := podcache.Trim(nil)
	a, _ := trim(pod(1, 1))
	b, _ := trim(pod(1, 2))
	c, _ := trim(pod(1, 3))
	if &a.(*v1.Pod).Spec.Containers[0] != &b.(*v1.Pod).Spec.Containers[0] ||
		&b.(*v1.Pod).Spec.Tolerations[0] != &c.(*v1.Pod).Spec.Tolerations[0] {
		t.Error("each has its own")
	}
	if a.(*v1.Pod).Spec.NodeName == b.(*v1.Pod).Spec.NodeName {
		t.Error("they share their node")
	}
}

// BenchmarkTrim reports the memory of a pod in a cache of 50,000, ten of each template.
func BenchmarkTrim(b *testing.B) {
	for _, how := range []struct {
		name string
		trim func(any) (any, error)
	}{
		{"whole", func(o any) (any, error) { return o, nil }},
		{"all", podcache.Trim([]string{note})},
	} {
		b.Run(how.name, func(b *testing.B) {
			for b.Loop() {
				const n = 50000
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				kept := make([]any, n)
				for i := range n {
					kept[i], _ = how.trim(pod(i/10, i))
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/pod")
				runtime.KeepAlive(kept)
			}
		})
	}
}
