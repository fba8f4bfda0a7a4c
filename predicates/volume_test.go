package predicates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// bound returns a claim and the volume it is bound to, which is in zone a.
func bound(name string, mode v1.PersistentVolumeAccessMode) []runtime.Object {
	return []runtime.Object{
		&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, StorageClassName: ptr.To(""), AccessModes: []v1.PersistentVolumeAccessMode{mode}},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		&v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
			Spec: v1.PersistentVolumeSpec{
				ClaimRef: &v1.ObjectReference{Namespace: "default", Name: name},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}}}}}},
			},
		},
	}
}

func volumeObjects() []runtime.Object {
	objects := append(bound("data", v1.ReadWriteOnce), bound("alone", v1.ReadWriteOncePod)...)
	return append(objects,
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/disk",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			AllowedTopologies: []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "rack", Values: []string{"r1"}}}}},
		},
		&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unbound"},
			Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("late"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}},
		})
}

func TestVolumesOfKnownClaimsDecideWhereAPodFits(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{Objects: volumeObjects()})
	for name, tc := range map[string]struct {
		pod      *v1.Pod
		template Node
		want     []Reason
	}{
		"bound, its zone": {aPod(claiming("data")), aNode("t", zoned("a")), nil},
		"bound, another zone": {aPod(claiming("data")), aNode("t", zoned("b")), []Reason{
			{"VolumeBinding", "node(s) didn't match PersistentVolume's node affinity"}}},
		"to be made, allowed": {aPod(claiming("unbound")), aNode("t", nodeLabel("rack", "r1")), nil},
		"to be made, not allowed": {aPod(claiming("unbound")), aNode("t", nodeLabel("rack", "r2")), []Reason{
			{"VolumeBinding", "node(s) didn't find available persistent volumes to bind"}}},
		"unknown": {aPod(claiming("lost")), aNode("t"), []Reason{
			{"VolumeRestrictions", `persistentvolumeclaim "lost" not found (not among the objects the checker was given)`}}},
		"made with the pod": {aPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		}), aNode("t"), []Reason{
			{"VolumeBinding", `waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch" (not among the objects the checker was given)`}}},
		"device claim": {aPod(func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
		}), aNode("t"), []Reason{{"DynamicResources", `resourceclaims.resource.k8s.io "gpu" not found (devices of the resource.k8s.io API are not simulated)`}}},
	} {
		f, err := c.Fits(nil, []Node{tc.template}, []*v1.Pod{tc.pod})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, f.Reasons(0, 0)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestPodsWithVolumesArePlacedWhereTheVolumeIs(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{Objects: volumeObjects()})
	s := c.Cluster([]Node{aNode("b", zoned("b")), aNode("a", zoned("a"))})
	runs, err := s.Place(aPod(claiming("data")), 9, 0, 2)
	if diff := cmp.Diff([]Placement{{First: 1, Nodes: 1, PerNode: 4}}, runs); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	one, another := aPod(claiming("alone")), aPod(claiming("alone"), called("other"))
	if f, err := s.Fits(nil, []*v1.Pod{one, another}); err != nil || len(f.Kinds()) != 1 {
		t.Fatal("two pods with the same claim are one kind")
	}
	runs, err = s.PlaceOnNew(aNode("t", zoned("a")), one, 9, 5)
	if diff := cmp.Diff([]Placement{{First: 2, Nodes: 1, PerNode: 1}}, runs); err != nil || diff != "" {
		t.Errorf("a claim for one pod only: %v, -want +got:\n%s", err, diff)
	}
	if f, err := s.Fits([]Node{aNode("t", zoned("a"))}, []*v1.Pod{aPod(claiming("alone"))}); err != nil || f.Passes(0, 0) {
		t.Errorf("a claim in use: %v, passes %v", err, f.Passes(0, 0))
	}
}
