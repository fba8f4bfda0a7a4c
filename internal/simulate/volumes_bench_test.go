package simulate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimFleet is an empty fleet of 75 groups and pods of ten StatefulSets, each pod with a claim of
// its own: none, one that waits for its pod, or one bound in one of three zones.
func claimFleet(pods int, claims string) *Setup {
	s := fleet(75, 0, 0)
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	s.Storage = append(s.Storage, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "ebs.csi.aws.com",
		VolumeBindingMode: &mode})
	count := int32(25)
	s.Storage = append(s.Storage, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "told"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
		}}})
	for i := range s.Cloud.Groups {
		metav1.SetMetaDataAnnotation(&s.Cloud.Groups[i].Template.Node.ObjectMeta, "evenkeel.dev/csi-node", "told")
	}
	for i := range pods {
		set := fmt.Sprintf("db-%d", i%10)
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", set, i/10),
				Labels: map[string]string{"app": set, "statefulset.kubernetes.io/pod-name": fmt.Sprintf("%s-%d", set, i/10)}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(int64(500+100*(i%10)), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi"),
			}}}}},
		}
		p.UID = types.UID(p.Name)
		if claims != "none" {
			name := "data-" + p.Name
			p.Spec.Volumes = []v1.Volume{{Name: "data",
				VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
			s.addClaim(name, claims == "bound", fmt.Sprintf("zone-%c", 'a'+i%3))
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func (s *Setup) addClaim(name string, bound bool, zone string) {
	class := "late"
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class}}
	s.Storage = append(s.Storage, claim)
	if !bound {
		return
	}
	claim.Spec.VolumeName = "pv-" + name
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	s.Storage = append(s.Storage, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, ClaimRef: &v1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: name}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "topology.ebs.csi.aws.com/zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}},
			}}}}},
		}})
}

// spreadOverZones lets the pods of each set spread over zones.
func (s *Setup) spreadOverZones() *Setup {
	for _, p := range s.Pods {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		}}
	}
	return s
}

// Of pods that spread and are pinned to a zone each, those of one zone make way for those of
// another, over and over: the nodes that are on their way for them are not ordered again.
func TestPodsThatSpreadOverTheZonesOfTheirVolumesGetTheirNodesOnce(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), claimFleet(60, "bound").spreadOverZones(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// 15 nodes are enough; pods that are tried in any order may need one more in each zone.
	if s := &report.Status; s.Running != 60 || s.ScaleUps > 6 || s.NodesOrdered > 18 {
		t.Errorf("%d pods run on %d nodes ordered in %d scale-ups, want 60 on at most 18 in at most 6", s.Running, s.NodesOrdered, s.ScaleUps)
	}
}

// BenchmarkClaims plays pods with claims of their own from beginning to end.
func BenchmarkClaims(b *testing.B) {
	for _, pods := range []int{100, 1000, 5000} {
		for _, claims := range []string{"none", "late", "bound", "bound-spread"} {
			if pods > 1000 && claims == "bound-spread" {
				continue
			}
			b.Run(fmt.Sprintf("%s/pods=%d", claims, pods), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					kind, spread := strings.CutSuffix(claims, "-spread")
					setup := claimFleet(pods, kind)
					if spread {
						setup.spreadOverZones()
					}
					report, err := Run(context.Background(), setup, nil)
					if err != nil {
						b.Fatal(err)
					}
					if report.Status.Running != pods {
						b.Fatalf("%d of %d pods run", report.Status.Running, pods)
					}
				}
			})
		}
	}
}
