package predicates

import (
	"strings"
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
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
			Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, StorageClassName: ptr.To(""),
				AccessModes: []v1.PersistentVolumeAccessMode{mode}},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
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
			AllowedTopologies: []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "rack",
				Values: []string{"r1"}}}}},
		},
		&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "unbound"},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("late"),
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}},
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
			{"VolumeRestrictions", `persistentvolumeclaim "lost" not found (not among the objects given)`}}},
		"made with the pod": {aPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		}), aNode("t"), []Reason{
			{"VolumeBinding",
				`waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch" (not among the objects given)`}}},
		"device claim": {aPod(func(p *v1.Pod) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
		}), aNode("t"), []Reason{{"DynamicResources",
			`could not find ResourceClaim "default/gpu" (devices of the resource.k8s.io API are not simulated)`}}},
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

// The reasons of each pod name its own claim and volume.
func TestReasonsNameTheClaimOfThePod(t *testing.T) {
	t.Parallel()
	unbacked := func(name, volume string) *v1.PersistentVolumeClaim {
		claim := bound("x", v1.ReadWriteOnce)[0].(*v1.PersistentVolumeClaim)
		claim.Name, claim.Spec.VolumeName = name, volume
		return claim
	}
	c := newChecker(t, Options{Objects: []runtime.Object{unbacked("first", "pv-1"), unbacked("second", "pv-2")}})
	pods := []*v1.Pod{aPod(claiming("first")), aPod(claiming("second")), aPod(claiming("lost")), aPod(claiming("gone"))}
	f, err := c.Fits(nil, []Node{aNode("t")}, pods)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"pv-1", "pv-2", "lost", "gone"} {
		if r := f.Reasons(0, f.KindOf(i)); len(r) != 1 || !strings.Contains(r[0].Message, name) {
			t.Errorf("pod %d: %+v, want %s", i, r, name)
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

func TestTemplatesWithUnlikeNumbersOfFreeVolumesAreNotOfOneClass(t *testing.T) {
	t.Parallel()
	objects := []runtime.Object{&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}}
	for name, zone := range map[string]string{"one": "a", "two": "b", "three": "b"} {
		pv := bound(name, v1.ReadWriteOnce)[1].(*v1.PersistentVolume)
		pv.Spec.ClaimRef, pv.Spec.StorageClassName, pv.Status.Phase = nil, "local", v1.VolumeAvailable
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{zone}
		objects = append(objects, pv)
	}
	var pods []*v1.Pod
	for _, name := range []string{"p", "q", "r"} {
		objects = append(objects, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-" + name},
			Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("local"), AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}})
		pods = append(pods, aPod(called(name), claiming("data-"+name)))
	}
	c := newChecker(t, Options{Objects: objects})
	s := c.Cluster(nil)
	templates := []Node{aNode("a", zoned("a")), aNode("b", zoned("b"))}
	f, err := s.Fits(templates, pods)
	if err != nil || len(f.Kinds()) != 1 || !f.Passes(0, 0) || !f.Passes(1, 0) {
		t.Fatalf("%v: %d kinds", err, len(f.Kinds()))
	}
	if f.ClassOf(0) == f.ClassOf(1) {
		t.Error("one class")
	}
	fork := s.Fork()
	for i, want := range []int{1, 2} {
		runs, err := s.PlaceOnNew(templates[i], pods[0], 3, 9)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, r := range runs {
			got += r.Nodes * r.PerNode
		}
		if got != want {
			t.Errorf("template %d takes %d pods, want %d", i, got, want)
		}
	}
	if f, err := s.Fits(templates, pods); err != nil || f.Passes(0, 0) || f.Passes(1, 0) {
		t.Errorf("%v: volumes that are taken still look free", err)
	}
	if f, err := fork.Fits(templates, pods); err != nil || !f.Passes(0, 0) || !f.Passes(1, 0) {
		t.Errorf("%v: what was taken shows in a fork made before", err)
	}
}

func TestClaimsAreBoundWhereTheirPodRuns(t *testing.T) {
	t.Parallel()
	mode := ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	for name, tc := range map[string]struct {
		class  storagev1.StorageClass
		other  string // the zone of another node
		reach  bool   // whether it reaches the volume
		drives []storagev1.CSINodeDriver
	}{
		"a disk of AWS, the same zone":     {storagev1.StorageClass{Provisioner: "ebs.csi.aws.com"}, "a", true, nil},
		"a disk of AWS, another zone":      {storagev1.StorageClass{Provisioner: "ebs.csi.aws.com"}, "b", false, nil},
		"the in-tree plugin, another zone": {storagev1.StorageClass{Provisioner: "kubernetes.io/aws-ebs"}, "b", false, nil},
		"a disk of Azure, another zone":    {storagev1.StorageClass{Provisioner: "disk.csi.azure.com"}, "b", false, nil},
		"a disk of Azure in all zones": {storagev1.StorageClass{Provisioner: "disk.csi.azure.com",
			Parameters: map[string]string{"skuName": "Premium_ZRS"}}, "b", true, nil},
		"a disk of Google, another zone":  {storagev1.StorageClass{Provisioner: "pd.csi.storage.gke.io"}, "b", false, nil},
		"a regional disk, its other zone": {regional("a", "b"), "b", true, nil},
		"a regional disk, a third zone":   {regional("a", "b"), "c", false, nil},
		"files, another zone":             {storagev1.StorageClass{Provisioner: "efs.csi.aws.com"}, "b", true, nil},
		"an unknown driver, another zone": {storagev1.StorageClass{Provisioner: "example.com/disk"}, "b", false, nil},
		"a driver that tells of its regions": {storagev1.StorageClass{Provisioner: "example.com/disk"}, "b", true,
			[]storagev1.CSINodeDriver{{Name: "example.com/disk", TopologyKeys: []string{v1.LabelTopologyRegion}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.class.Name, tc.class.VolumeBindingMode = "late", mode
			c := newChecker(t, Options{Objects: []runtime.Object{
				&tc.class,
				&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
					Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("late")}},
				&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: storagev1.CSINodeSpec{Drivers: tc.drives}},
			}})
			region := nodeLabel(v1.LabelTopologyRegion, "r")
			pod := aPod(claiming("data"))
			if err := c.BindClaims(pod, aNode("first", zoned("a"), region).Node); err != nil {
				t.Fatal(err)
			}
			f, err := c.Fits(nil, []Node{aNode("t", zoned(tc.other), region)}, []*v1.Pod{pod})
			if err != nil || f.Passes(0, 0) != tc.reach {
				t.Errorf("%v: fits %v, want %v: %v", err, f.Passes(0, 0), tc.reach, f.Reasons(0, 0))
			}
		})
	}
}

func regional(zones ...string) storagev1.StorageClass {
	return storagev1.StorageClass{
		Provisioner: "pd.csi.storage.gke.io", Parameters: map[string]string{"replication-type": "regional-pd"},
		AllowedTopologies: []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "topology.gke.io/zone",
			Values: zones}}}},
	}
}
