package predicates

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const ebs, files = "ebs.csi.aws.com", "efs.csi.aws.com"

// volumeDice draws clusters with volumes. Every pod and every copy has claims of its own unless it
// is drawn to share one.
type volumeDice struct {
	*dice
	objects []runtime.Object
	shared  []string // claims that any pod may use
}

func (d *volumeDice) add(o runtime.Object) { d.objects = append(d.objects, o) }

func (d *volumeDice) classes() {
	mode := ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	for _, name := range []string{"late", "late-too"} {
		d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: ebs, VolumeBindingMode: mode})
	}
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Provisioner: ebs, VolumeBindingMode: mode,
		AllowedTopologies: []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
			{Key: "topology.ebs.csi.aws.com/zone", Values: []string{"z1", "z2"}}}}}})
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "counted"}, Provisioner: "lvm", VolumeBindingMode: mode})
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Provisioner: ebs,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)})
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Provisioner: "kubernetes.io/aws-ebs", VolumeBindingMode: mode})
	d.add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "lvm"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}})
	for _, zone := range []string{"z1", "z2"} {
		d.add(&storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "in-" + zone},
			StorageClassName: "counted",
			NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone}},
			Capacity:         ptr.To(resource.MustParse(d.of("1Gi", "10Gi")))})
	}
}

// claim draws a claim, with its volume where it is bound.
func (d *volumeDice) claim(name string) {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(d.of("1Gi", "5Gi",
				"20Gi"))}},
		}}
	if d.one(5) {
		c.Spec.AccessModes[0] = v1.ReadWriteOncePod
	}
	switch d.IntN(9) {
	case 0, 1:
		c.Spec.StorageClassName = ptr.To(d.of("late", "late-too", "some", "old"))
	case 2:
		c.Spec.StorageClassName = ptr.To("counted")
	case 3:
		c.Spec.StorageClassName = ptr.To("early")
	case 4:
		c.Spec.StorageClassName = ptr.To("missing")
	default:
		c.Spec.StorageClassName, c.Spec.VolumeName = ptr.To("late"), "pv-"+name
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		d.boundVolume(c)
	}
	d.add(c)
}

func (d *volumeDice) boundVolume(c *v1.PersistentVolumeClaim) {
	if d.one(12) {
		return // gone
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName, Labels: map[string]string{}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: "late", ClaimRef: &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: d.of(ebs, ebs, files),
				VolumeHandle: c.Name}},
		}}
	if d.one(2) {
		pv.Status.Phase = v1.VolumeBound
	}
	zone := d.of("z1", "z2", "z3")
	switch d.IntN(5) {
	case 0:
		pv.Labels[d.of(v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone)] = zone
	case 1:
		pv.Labels[v1.LabelFailureDomainBetaZone] = "z1__z2"
	case 2:
	default:
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: d.of(v1.LabelTopologyZone, "topology.ebs.csi.aws.com/zone"), Operator: v1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
	}
	if d.one(6) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://" +
			zone + "/vol-" + c.Name}}
	}
	d.add(pv)
}

// attach gives a pod volumes; like names a pod whose claims it copies.
func (d *volumeDice) attach(p *v1.Pod) {
	p.Namespace = "default"
	for range 1 + d.IntN(2) {
		v := v1.Volume{Name: fmt.Sprintf("v%d", len(p.Spec.Volumes))}
		name := v.Name + "-" + p.Name
		switch {
		case d.one(5):
			name = d.of(d.shared...)
		case d.one(10):
			name = "lost"
		default:
			d.claim(name)
		}
		v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

// replicas draws equal pods whose claims are copies of the first one's.
func (d *volumeDice) replicas(n int) []*v1.Pod {
	first := d.pod()
	first.Spec.NodeName, first.Spec.NodeSelector = "", nil
	if a := first.Spec.Affinity; a != nil {
		a.NodeAffinity = nil
	}
	d.attach(first)
	pods := []*v1.Pod{first}
	for i := 1; i < n; i++ {
		p := first.DeepCopy()
		p.Name = fmt.Sprintf("%s-%d", first.Name, i)
		p.UID = types.UID(p.Name)
		for j := range p.Spec.Volumes {
			claim := p.Spec.Volumes[j].PersistentVolumeClaim
			if d.one(4) { // another one
				claim.ClaimName = p.Spec.Volumes[j].Name + "-" + p.Name
				d.claim(claim.ClaimName)
				continue
			}
			claim.ClaimName = d.copyOf(claim.ClaimName, p.Name)
		}
		pods = append(pods, p)
	}
	return pods
}

// copyOf draws a copy of a claim and of its volume for another pod; those that are shared stay.
func (d *volumeDice) copyOf(name, pod string) string {
	at := slices.IndexFunc(d.objects, func(o runtime.Object) bool {
		c, ok := o.(*v1.PersistentVolumeClaim)
		return ok && c.Name == name
	})
	if at < 0 || slices.Contains(d.shared, name) {
		return name
	}
	c := d.objects[at].(*v1.PersistentVolumeClaim).DeepCopy()
	c.Name = name + "-of-" + pod
	c.UID = types.UID(c.Name)
	for _, o := range d.objects {
		pv, ok := o.(*v1.PersistentVolume)
		if !ok || c.Spec.VolumeName == "" || pv.Name != c.Spec.VolumeName {
			continue
		}
		pv = pv.DeepCopy()
		pv.Name, pv.Spec.ClaimRef = "pv-"+c.Name, &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		if pv.Spec.CSI != nil {
			pv.Spec.CSI.VolumeHandle = c.Name
		} else {
			pv.Spec.AWSElasticBlockStore.VolumeID += "-" + pod
		}
		c.Spec.VolumeName = pv.Name
		d.add(pv)
		break
	}
	d.add(c)
	return c.Name
}

// csiNode draws what the drivers say of a node.
func (d *volumeDice) csiNode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: ebs, TopologyKeys: []string{"topology.ebs.csi.aws.com/zone"},
			Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(1 + d.IntN(4)))}},
		{Name: files},
	}}}
}

// node draws a node that the driver runs on.
func (d *volumeDice) node(name string, carrying int) Node {
	n := d.template()
	n.Pods = nil
	n.Node.Name, n.Node.Spec.Unschedulable = name, false
	n.Node.Labels[v1.LabelHostname] = name
	if zone := n.Node.Labels[v1.LabelTopologyZone]; zone != "" {
		n.Node.Labels["topology.ebs.csi.aws.com/zone"] = zone
	}
	for range carrying {
		p := d.pod()
		p.Spec.Affinity, p.Spec.TopologySpreadConstraints, p.Spec.NodeSelector = nil, nil, nil
		d.attach(p)
		p.Spec.NodeName = name
		n.Pods = append(n.Pods, p)
	}
	return n
}

func (d *volumeDice) attachment(node string, i int) {
	volumes := slices.DeleteFunc(slices.Clone(d.objects), func(o runtime.Object) bool { _, ok := o.(*v1.PersistentVolume); return !ok })
	if len(volumes) > 0 {
		d.add(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("va-%s-%d", node, i)},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: ebs, NodeName: node,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volumes[d.IntN(len(volumes))].(*v1.PersistentVolume).Name},
			}})
	}
}

func TestPodsWithVolumesArePlacedAsTheSchedulerDoesOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(t, 300)) {
		d := &volumeDice{dice: newDice(seed), shared: []string{"common-1", "common-2"}}
		d.sharedHosts = false
		d.classes()
		for _, name := range d.shared {
			d.objects = append(d.objects, bound(name, []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOncePod}[d.IntN(2)])...)
			pv := d.objects[len(d.objects)-1].(*v1.PersistentVolume)
			pv.Spec.NodeAffinity, pv.Spec.CSI = nil, &v1.CSIPersistentVolumeSource{Driver: ebs, VolumeHandle: name}
		}
		var nodes []Node
		for i := range 3 + d.IntN(3) {
			n := d.node(fmt.Sprintf("node-%d", i), d.IntN(3))
			nodes = append(nodes, n)
			if !d.one(4) {
				d.add(d.csiNode(n.Node.Name))
			}
			if d.one(3) {
				d.attachment(n.Node.Name, i)
			}
		}
		var pending []*v1.Pod
		for range 3 {
			pending = append(pending, d.replicas(1+d.IntN(5))...)
		}
		template := d.node("template", 0)
		template.Node.Annotations = map[string]string{CSINodeAnnotation: "sample"}
		sample := d.csiNode("sample")
		d.add(sample)
		if d.one(2) {
			delete(template.Node.Labels, "topology.ebs.csi.aws.com/zone") // is understood
		}
		d.compare(t, seed, nodes, template, sample, pending)
	}
}

func (d *volumeDice) compare(t *testing.T, seed uint64, nodes []Node, template Node, sample *storagev1.CSINode, pending []*v1.Pod) {
	t.Helper()
	c, o := newChecker(t, Options{Objects: d.objects}), newNaive(t, d.objects...)
	s := c.Cluster(nodes)
	fit, err := s.Fits([]Node{template}, pending)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	withDriverLabels := template
	withDriverLabels.Node = template.Node.DeepCopy()
	if zone := withDriverLabels.Node.Labels[v1.LabelTopologyZone]; zone != "" {
		withDriverLabels.Node.Labels["topology.ebs.csi.aws.com/zone"] = zone
		withDriverLabels.Node.Labels[v1.LabelFailureDomainBetaZone] = zone
	}
	var w naiveCluster
	for _, n := range nodes {
		n.Node = n.Node.DeepCopy()
		if zone := n.Node.Labels[v1.LabelTopologyZone]; zone != "" {
			n.Node.Labels[v1.LabelFailureDomainBetaZone] = zone
		}
		w = append(w, n)
	}
	w = w.copy()
	for i := range 40 {
		like := sample.DeepCopy()
		like.Name = fmt.Sprintf("copy-%d", i)
		o.add(t, like)
	}
	for i, p := range pending {
		with := append(w.copy(), o.copyOf(withDriverLabels, len(w)))
		if got, want := fit.Passes(0, fit.KindOf(i)), o.fits(with, p, len(w)); got != want {
			t.Fatalf("seed %d: pod %s passes %v, the scheduler says %v: %v", seed, p.Name, got, want, fit.Reasons(0, fit.KindOf(i)))
		}
	}
	for _, k := range fit.Kinds() {
		var left []*v1.Pod
		want := map[int]int{}
		for _, at := range k.Pods {
			id := o.first(w, pending[at], 0, s.Len())
			if id < 0 {
				left = append(left, pending[at])
				continue
			}
			w[id].Pods = append(w[id].Pods, pending[at])
			want[id]++
		}
		x := &twin{t: t, o: o, s: s, w: w}
		runs, err := s.Place(k.Pod, len(k.Pods), 0, s.Len())
		x.same(fmt.Sprintf("seed %d: Place of %d", seed, len(k.Pods)), k.Pod, runs, err, want)
		if len(left) == 0 {
			continue
		}
		want, first := map[int]int{}, len(w)
		for _, p := range left {
			id := o.first(w, p, first, len(w))
			if id < 0 {
				w = append(w, o.copyOf(withDriverLabels, len(w)))
				if id = o.first(w, p, len(w)-1, len(w)); id < 0 {
					w = w[:len(w)-1]
					break
				}
			}
			w[id].Pods = append(w[id].Pods, p)
			want[id]++
		}
		x.w = w
		runs, err = s.PlaceOnNew(template, k.Pod, len(left), 100)
		x.same(fmt.Sprintf("seed %d: PlaceOnNew of %d", seed, len(left)), k.Pod, runs, err, want)
	}
}
