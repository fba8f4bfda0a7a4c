package predicates

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// storage is what is known of claims, volumes and drivers, and of the pods that use them.
type storage struct {
	claims, volumes, classes, csiNodes cache.Indexer

	// users names, by claim, the pod that was seen to use it; shared are the claims of several
	// pods.
	users  map[string]string
	shared sets.Set[string]
	// static are the storage classes with volumes made beforehand. A volume is free for one claim
	// only, so pods that wait for one are distinguished by what the others have taken.
	static sets.Set[string]
	// hostCapacity are the storage classes whose capacity is published node by node, and capacity
	// those with any.
	hostCapacity, capacity sets.Set[string]
	// counted are the drivers that are asked for capacity.
	counted sets.Set[string]
	// attached are the volumes that VolumeAttachments name, by node.
	attached map[string][]*storagev1.VolumeAttachment
	// topologyKeys are the zone labels of drivers that volumes and classes look at.
	topologyKeys sets.Set[string]
	// nodeKeys are the node labels that objects make pods look at.
	nodeKeys sets.Set[string]
}

func newStorage(f informers.SharedInformerFactory) *storage {
	return &storage{
		claims:       f.Core().V1().PersistentVolumeClaims().Informer().GetIndexer(),
		volumes:      f.Core().V1().PersistentVolumes().Informer().GetIndexer(),
		classes:      f.Storage().V1().StorageClasses().Informer().GetIndexer(),
		csiNodes:     f.Storage().V1().CSINodes().Informer().GetIndexer(),
		users:        map[string]string{},
		shared:       sets.New[string](),
		static:       sets.New[string](),
		hostCapacity: sets.New[string](),
		capacity:     sets.New[string](),
		counted:      sets.New[string](),
		attached:     map[string][]*storagev1.VolumeAttachment{},
		topologyKeys: sets.New[string](),
		nodeKeys:     sets.New[string](),
	}
}

// note keeps what the stores do not answer quickly. It is called for every object that is added or
// replaced.
func (s *storage) note(o runtime.Object) {
	switch o := o.(type) {
	case *v1.PersistentVolume:
		if o.Spec.ClaimRef == nil {
			s.static.Insert(volume.GetPersistentVolumeClass(o))
		}
	case *storagev1.CSIStorageCapacity:
		s.capacity.Insert(o.StorageClassName)
		if slices.Contains(labelSelectorKeys(o.NodeTopology), v1.LabelHostname) {
			s.hostCapacity.Insert(o.StorageClassName)
		}
	case *storagev1.CSIDriver:
		if o.Spec.StorageCapacity != nil && *o.Spec.StorageCapacity {
			s.counted.Insert(o.Name)
		}
	case *storagev1.VolumeAttachment:
		s.detached(o)
		s.attached[o.Spec.NodeName] = append(s.attached[o.Spec.NodeName], o)
	}
}

// detached forgets an attachment.
func (s *storage) detached(o *storagev1.VolumeAttachment) {
	on := s.attached[o.Spec.NodeName]
	s.attached[o.Spec.NodeName] = slices.DeleteFunc(slices.Clone(on), func(a *storagev1.VolumeAttachment) bool { return a.Name == o.Name })
}

func stored[T any](in cache.Indexer, key string) (found T, ok bool) {
	o, exists, err := in.GetByKey(key)
	if err != nil || !exists {
		return found, false
	}
	found, ok = o.(T)
	return found, ok
}

func (s *storage) claim(key string) (*v1.PersistentVolumeClaim, bool) {
	return stored[*v1.PersistentVolumeClaim](s.claims, key)
}

func (s *storage) volume(name string) (*v1.PersistentVolume, bool) {
	return stored[*v1.PersistentVolume](s.volumes, name)
}

func (s *storage) class(c *v1.PersistentVolumeClaim) (*storagev1.StorageClass, bool) {
	return stored[*storagev1.StorageClass](s.classes, volume.GetPersistentVolumeClaimClass(c))
}

// claimName is the name of a volume's claim; "" where it has none.
func claimName(p *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v)
	}
	return ""
}

// seen notes that a pod uses its claims.
func (s *storage) seen(p *v1.Pod) {
	for i := range p.Spec.Volumes {
		name := claimName(p, &p.Spec.Volumes[i])
		if name == "" {
			continue
		}
		key, pod := p.Namespace+"/"+name, p.Name
		switch first, used := s.users[key]; {
		case !used:
			s.users[key] = pod
		case first != pod:
			s.shared.Insert(key)
		}
	}
}

// owns reports whether the claim of a volume is the pod's own: no other pod was seen to use it.
// Pods that are equal but for the names of such claims are equal to the plugins.
func (s *storage) owns(p *v1.Pod, v *v1.Volume) bool {
	name := claimName(p, v)
	return name != "" && !s.shared.Has(p.Namespace+"/"+name)
}

// waits reports whether a claim is bound when its first pod is scheduled, and is not yet.
func (s *storage) waits(c *v1.PersistentVolumeClaim) bool {
	class, known := s.class(c)
	return known && c.Spec.VolumeName == "" && bindsLate(class)
}

// bindsLate reports whether claims of a class are bound when their first pod is scheduled.
func bindsLate(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// single reports whether single nodes matter to a claim, or all pods of the cluster.
func (s *storage) single(p *v1.Pod, v *v1.Volume) bool {
	c, known := s.claim(p.Namespace + "/" + claimName(p, v))
	if !known {
		return false
	}
	if pv, found := s.volume(c.Spec.VolumeName); found {
		if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil && onHost(a.Required) {
			return true
		}
	}
	if !s.owns(p, v) && slices.Contains(c.Spec.AccessModes, v1.ReadWriteOncePod) {
		return true
	}
	return s.waits(c) && (s.hostCapacity.Has(volume.GetPersistentVolumeClaimClass(c)) || c.Annotations[volume.AnnSelectedNode] != "")
}

// contended reports whether a claim that waits is bound in competition with other pods: for a
// volume made beforehand, or as the claim of several pods.
func (s *storage) contended(p *v1.Pod, v *v1.Volume) bool {
	c, known := s.claim(p.Namespace + "/" + claimName(p, v))
	return known && s.waits(c) && (!s.owns(p, v) || s.static.Has(volume.GetPersistentVolumeClaimClass(c)))
}

// claim encodes what a claim means to the plugins, whatever its name, unless they refuse it by name. Claims that are made for
// their pod are missing for a moment only.
func (e *encoder) claim(s *storage, p *v1.Pod, v *v1.Volume) {
	e.flag(v.Ephemeral != nil)
	c, known := s.claim(p.Namespace + "/" + claimName(p, v))
	e.flag(known)
	if v.Ephemeral == nil && (!known || c.DeletionTimestamp != nil || c.Status.Phase == v1.ClaimLost) {
		e.text(claimName(p, v))
	}
	if !known {
		return
	}
	e.flag(c.DeletionTimestamp != nil)
	e.flag(c.Status.Phase == v1.ClaimLost)
	e.flag(v.Ephemeral == nil || metav1.IsControlledBy(c, p))
	e.flag(metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted))
	e.text(c.Annotations[volume.AnnSelectedNode])
	if c.Spec.VolumeName != "" {
		e.boundTo(s, c.Spec.VolumeName)
		return
	}
	e.count(0)
	e.unbound(s, c)
}

func (e *encoder) boundTo(s *storage, name string) {
	pv, known := s.volume(name)
	if !known {
		e.count(1)
		e.text(name) // plugins refuse it by name
		return
	}
	e.count(2)
	served, _ := servedBy(pv, nil, "")
	e.text(served.driver)
	e.flag(pv.Spec.CSI != nil)
	for _, key := range volumeZoneLabels {
		e.text(pv.Labels[key])
	}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		e.proto(a.Required)
	}
}

func (e *encoder) unbound(s *storage, c *v1.PersistentVolumeClaim) {
	name := volume.GetPersistentVolumeClaimClass(c)
	class, known := s.class(c)
	if !known {
		e.text(name)
		return
	}
	e.text(class.Provisioner)
	e.flag(bindsLate(class))
	e.proto(&storagev1.StorageClass{AllowedTopologies: class.AllowedTopologies})
	if s.static.Has(name) {
		e.text(name)
		e.proto(&c.Spec)
	} else if s.counted.Has(class.Provisioner) {
		e.text(name)
		e.text(c.Spec.Resources.Requests.Storage().String())
	}
}

// proto appends a message in its fixed order. One that cannot be encoded is equal to none.
func (e *encoder) proto(m interface{ Marshal() ([]byte, error) }) {
	data, err := m.Marshal()
	if err != nil {
		e.serial++
		e.count(e.serial)
		return
	}
	e.text(string(data))
}
