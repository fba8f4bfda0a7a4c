package predicates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// BindClaims binds the claims of a pod that waited for it to run, now that it runs on the node:
// each to a free volume that the node reaches, the one the scheduler chooses, or else to a new one
// that is reached from where the driver makes it.
func (c *Checker) BindClaims(pod *v1.Pod, node *v1.Node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.put(c.storage.bindings(pod, node))
}

// bindings are the claims and volumes as they are once the pod runs on the node, those that change.
func (s *storage) bindings(pod *v1.Pod, node *v1.Node) []runtime.Object {
	node = s.withDriverLabels(node)
	var waiting []*v1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		c, known := s.claim(pod.Namespace + "/" + claimName(pod, &pod.Spec.Volumes[i]))
		if known && s.waits(c) && !slices.Contains(waiting, c) {
			waiting = append(waiting, c)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *v1.PersistentVolumeClaim) int {
		return a.Spec.Resources.Requests.Storage().Cmp(*b.Spec.Resources.Requests.Storage())
	})
	var changed []runtime.Object
	chosen := map[string]*v1.PersistentVolume{}
	for _, c := range waiting {
		pv := s.freeVolume(c, node, chosen)
		if pv == nil {
			pv = s.provisioned(c, node)
		}
		if pv == nil {
			continue
		}
		chosen[pv.Name] = pv
		changed = append(changed, boundVolume(pv, c), boundClaim(c, pv.Name))
	}
	return changed
}

// freeVolume returns the volume made beforehand that the scheduler binds a claim to on a node; nil if
// there is none.
func (s *storage) freeVolume(c *v1.PersistentVolumeClaim, node *v1.Node, taken map[string]*v1.PersistentVolume) *v1.PersistentVolume {
	class := volume.GetPersistentVolumeClaimClass(c)
	if !s.static.Has(class) {
		return nil
	}
	var volumes []*v1.PersistentVolume
	for _, o := range s.volumes.List() {
		if pv, ok := o.(*v1.PersistentVolume); ok && volume.GetPersistentVolumeClass(pv) == class {
			volumes = append(volumes, pv)
		}
	}
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	found, err := volume.FindMatchingVolume(c, volumes, node, taken, true, false)
	if err != nil {
		return nil
	}
	return found
}

// provisioned returns the volume that the provisioner makes for a claim whose pod runs on the node;
// nil if the class has none.
func (s *storage) provisioned(c *v1.PersistentVolumeClaim, node *v1.Node) *v1.PersistentVolume {
	class, known := s.class(c)
	if !known || class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner {
		return nil
	}
	name := "pvc-" + c.Namespace + "-" + c.Name
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class.Name,
			Capacity:         c.Spec.Resources.Requests,
			AccessModes:      c.Spec.AccessModes,
			VolumeMode:       c.Spec.VolumeMode,
			NodeAffinity:     s.reachedFrom(class, node),
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driverName(class.Provisioner), VolumeHandle: name,
			}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
}

// reachedFrom says which nodes reach a volume that a driver makes for a pod on the given one: those
// that share its topology.
func (s *storage) reachedFrom(class *storagev1.StorageClass, node *v1.Node) *v1.VolumeNodeAffinity {
	var term v1.NodeSelectorTerm
	for _, key := range s.topologyOf(class, node) {
		if value, there := labelOf(node, key); there {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
				Key: key, Operator: v1.NodeSelectorOpIn, Values: replicas(class, key, value),
			})
		}
	}
	if len(term.MatchExpressions) == 0 {
		return nil
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

// everywhere are drivers whose volumes all nodes reach.
var everywhere = []string{
	"efs.csi.aws.com", "fsx.csi.aws.com", "s3.csi.aws.com", "file.csi.azure.com", "blob.csi.azure.com",
	"filestore.csi.storage.gke.io", "gcsfuse.csi.storage.gke.io", "nfs.csi.k8s.io", "smb.csi.k8s.io",
	"kubernetes.io/azure-file", "kubernetes.io/glusterfs", "kubernetes.io/cephfs",
}

// topologyOf names the node labels that say where a driver's volumes are reached from.
func (s *storage) topologyOf(class *storagev1.StorageClass, node *v1.Node) []string {
	driver := driverName(class.Provisioner)
	if zoneRedundant(class) || slices.Contains(everywhere, driver) {
		return nil
	}
	if object, found := s.csiNode(node); found {
		for i := range object.Spec.Drivers {
			if d := &object.Spec.Drivers[i]; d.Name == driver && len(d.TopologyKeys) > 0 {
				return d.TopologyKeys
			}
		}
	}
	switch driver {
	case "ebs.csi.aws.com":
		return []string{"topology.ebs.csi.aws.com/zone"}
	case "pd.csi.storage.gke.io":
		return []string{"topology.gke.io/zone"}
	case "disk.csi.azure.com":
		return []string{azureDiskZone}
	}
	return []string{v1.LabelTopologyZone}
}

// zoneRedundant tells the classes of Azure disks that lie in all zones.
func zoneRedundant(class *storagev1.StorageClass) bool {
	for key, value := range class.Parameters {
		if key := strings.ToLower(key); (key == "skuname" || key == "storageaccounttype") && strings.HasSuffix(strings.ToUpper(value), "_ZRS") {
			return true
		}
	}
	return false
}

// replicas are the zones a volume lies in: that of its first pod, and for a regional disk of Google
// the other one that the class allows.
func replicas(class *storagev1.StorageClass, key, zone string) []string {
	if class.Parameters["replication-type"] != "regional-pd" {
		return []string{zone}
	}
	for _, t := range class.AllowedTopologies {
		for _, e := range t.MatchLabelExpressions {
			if e.Key == key && len(e.Values) == 2 && slices.Contains(e.Values, zone) {
				return slices.Clone(e.Values)
			}
		}
	}
	return []string{zone}
}

func boundVolume(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	bound := *pv
	bound.Spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
	}
	bound.Status.Phase = v1.VolumeBound
	return &bound
}

func boundClaim(c *v1.PersistentVolumeClaim, name string) *v1.PersistentVolumeClaim {
	bound := c.DeepCopy()
	bound.Spec.VolumeName, bound.Status.Phase = name, v1.ClaimBound
	metav1.SetMetaDataAnnotation(&bound.ObjectMeta, volume.AnnBindCompleted, "yes")
	return bound
}

// claimOnPut notes what a pod that is placed for trial takes from others: a volume made beforehand,
// or the free choice of those that share its claim. It holds for the Cluster and its forks, and is
// undone between calls.
func (s *Cluster) claimOnPut(k *kind, node *v1.Node) {
	st := s.u.c.storage
	own := map[string]bool{}
	for i := range k.info.Pod.Spec.Volumes {
		v := &k.info.Pod.Spec.Volumes[i]
		own[claimName(k.info.Pod, v)] = st.owns(k.info.Pod, v)
	}
	for _, o := range st.bindings(k.info.Pod, node) {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			if own[o.Name] {
				continue // the next pod of the kind has another one
			}
		case *v1.PersistentVolume:
			if own[o.Spec.ClaimRef.Name] {
				if _, beforehand := st.volume(o.Name); !beforehand {
					continue
				}
				o.Spec.ClaimRef.Name += fmt.Sprintf("~%d", len(s.trial)) // a claim that no pod names
			}
		}
		s.trial = append(s.trial, o)
		s.u.c.try(o)
	}
}

// replaced is an object that a trial hides.
type replaced struct {
	in       cache.Indexer
	trial    runtime.Object
	original any // nil: there was none
}

// try puts an object into the stores until the trial ends.
func (c *Checker) try(o runtime.Object) {
	in := informerFor(c.objects, o).GetIndexer()
	original, exists, err := in.Get(o)
	if err != nil {
		return
	}
	if !exists {
		original = nil
	}
	if in.Update(o) == nil {
		c.hidden = append(c.hidden, replaced{in, o, original})
	}
}

// endTrial puts back what trials hid.
func (c *Checker) endTrial() {
	for i := len(c.hidden) - 1; i >= 0; i-- {
		h := c.hidden[i]
		// The stores are in memory and have taken the object before.
		if h.original == nil {
			_ = h.in.Delete(h.trial)
		} else {
			_ = h.in.Update(h.original)
		}
	}
	c.hidden = c.hidden[:0]
}
