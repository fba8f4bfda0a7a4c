package predicates

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// CSINodeAnnotation of a node, mostly a template, names the node whose CSINode object says how many
// volumes it takes. A CSINode of the node's own name goes before it.
const CSINodeAnnotation = "evenkeel.dev/csi-node"

// attachable is a volume that counts against the limit of its driver on a node.
type attachable struct{ driver, handle string }

// attachments are the volumes that a pod attaches: of claims of its own, by driver, and others,
// which several pods on a node attach once.
type attachments struct {
	own   map[string]int
	other []attachable
}

// migrated are the in-tree plugins whose volumes CSI drivers serve.
var migrated = sets.New(plugins.AWSEBSInTreePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName,
	plugins.CinderInTreePluginName, plugins.PortworxVolumePluginName)

var translator = csitranslation.New()

// driverName is the CSI driver that serves a provisioner.
func driverName(provisioner string) string {
	if migrated.Has(provisioner) {
		if name, err := translator.GetCSINameFromInTreeName(provisioner); err == nil {
			return name
		}
	}
	return provisioner
}

// servedBy is the CSI driver and the handle of a volume, or of one that is written in a pod; false if no
// driver serves it.
func servedBy(pv *v1.PersistentVolume, inline *v1.Volume, namespace string) (attachable, bool) {
	if pv == nil || pv.Spec.CSI == nil {
		plugin, err := translator.GetInTreePluginNameFromSpec(pv, inline)
		switch {
		case err != nil || !migrated.Has(plugin):
			return attachable{}, false
		case pv != nil:
			pv, err = translator.TranslateInTreePVToCSI(logr.Discard(), pv)
		default:
			pv, err = translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), inline, namespace)
		}
		if err != nil || pv.Spec.CSI == nil {
			return attachable{}, false
		}
	}
	return attachable{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}, true
}

// attachableOf is what a volume of a pod attaches; false if nothing counts.
func (s *storage) attachableOf(p *v1.Pod, v *v1.Volume) (attachable, bool) {
	name := claimName(p, v)
	if name == "" {
		return servedBy(nil, v, p.Namespace)
	}
	c, known := s.claim(p.Namespace + "/" + name)
	if !known {
		return attachable{}, false
	}
	if pv, found := s.volume(c.Spec.VolumeName); found {
		at, served := servedBy(pv, nil, "")
		return at, served && at.driver != "" && at.handle != ""
	}
	if volume.GetPersistentVolumeClaimClass(c) == "" {
		return attachable{}, false
	}
	class, known := s.class(c)
	if !known {
		return attachable{}, false
	}
	// The volume is still to be made: the claim stands for it.
	return attachable{driverName(class.Provisioner), " " + c.Namespace + "/" + c.Name}, true
}

// attachmentsOf returns what a pod attaches. Claims count as its own where own says so.
func (s *storage) attachmentsOf(p *v1.Pod, own func(*v1.Volume) bool) attachments {
	var a attachments
	mine := sets.New[attachable]()
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		at, counts := s.attachableOf(p, v)
		switch {
		case !counts || mine.Has(at):
		case own(v):
			if a.own == nil {
				a.own = map[string]int{}
			}
			a.own[at.driver]++
		default:
			a.other = append(a.other, at)
		}
		mine.Insert(at)
	}
	return a
}

func (e *encoder) own(own map[string]int) {
	for _, driver := range slices.Sorted(maps.Keys(own)) {
		e.text(driver)
		e.count(own[driver])
	}
	e.count(0)
}

// csiNode is the object that describes the drivers on a node.
func (s *storage) csiNode(n *v1.Node) (*storagev1.CSINode, bool) {
	if own, found := stored[*storagev1.CSINode](s.csiNodes, n.Name); found {
		return own, true
	}
	return stored[*storagev1.CSINode](s.csiNodes, n.Annotations[CSINodeAnnotation])
}

// limits are how many volumes a node takes, by driver.
func (s *storage) limits(n *v1.Node) map[string]int {
	object, found := s.csiNode(n)
	if !found {
		return nil
	}
	var limits map[string]int
	for i := range object.Spec.Drivers {
		d := &object.Spec.Drivers[i]
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			continue
		}
		if limits == nil {
			limits = map[string]int{}
		}
		limits[d.Name] = int(*d.Allocatable.Count)
	}
	return limits
}

// leftovers are the volumes attached to a node that no pod on it uses.
func (s *storage) leftovers(n *v1.Node, pods []*v1.Pod) []attachable {
	if len(s.attached[n.Name]) == 0 {
		return nil
	}
	used := sets.New[attachable]()
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			if at, counts := s.attachableOf(p, &p.Spec.Volumes[i]); counts && !finished(p) {
				used.Insert(at)
			}
		}
	}
	var left []attachable
	for _, a := range s.attached[n.Name] {
		if a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		pv, found := s.volume(*a.Spec.Source.PersistentVolumeName)
		if !found || pv.Spec.CSI == nil {
			continue
		}
		if at := (attachable{a.Spec.Attacher, pv.Spec.CSI.VolumeHandle}); !used.Has(at) {
			left = append(left, at)
			used.Insert(at)
		}
	}
	slices.SortFunc(left, func(a, b attachable) int {
		return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.handle, b.handle))
	})
	return left
}

// attachedVolumes counts what is attached to a node, by driver.
type attachedVolumes struct {
	count map[string]int
	by    sets.Set[attachable] // volumes that pods on the node use and others may use too
}

func (st *state) attached() *attachedVolumes {
	if st.volumes == nil {
		a := &attachedVolumes{count: map[string]int{}, by: sets.New[attachable]()}
		for _, it := range st.items {
			for driver, n := range it.attaches.own {
				a.count[driver] += n * it.n
			}
			for _, at := range it.attaches.other {
				if !a.by.Has(at) {
					a.by.Insert(at)
					a.count[at.driver]++
				}
			}
		}
		for _, at := range st.leftovers {
			if !a.by.Has(at) {
				a.count[at.driver]++
			}
		}
		st.volumes = a
	}
	return st.volumes
}

// attachRoom returns how many pods of a kind the limits on volumes let onto a node, and what is
// short where that is none.
func (st *state) attachRoom(k *kind) (room int, short string) {
	room = math.MaxInt32
	want := &k.placed.attaches
	if len(st.shape.limits) == 0 || len(want.own)+len(want.other) == 0 {
		return room, ""
	}
	used := st.attached()
	first := map[string]int{} // attached by the first of the pods only
	for _, at := range want.other {
		if !used.by.Has(at) {
			first[at.driver]++
		}
	}
	for _, driver := range slices.Sorted(maps.Keys(st.shape.limits)) {
		own := want.own[driver]
		if own+first[driver] == 0 {
			continue
		}
		limit := st.shape.limits[driver]
		free := limit - used.count[driver] - first[driver]
		n := 0
		switch {
		case free < 0:
		case own == 0:
			continue
		default:
			n = free / own
		}
		if n < room {
			room = n
			if n == 0 {
				short = fmt.Sprintf("wants %d of %s, free %d of %d", own+first[driver], driver, max(0, limit-used.count[driver]), limit)
			}
		}
	}
	return room, short
}

// tooManyVolumes is why a pod of the kind does not fit a node in the given state for the limits on
// volumes, if so.
func (c *Checker) tooManyVolumes(k *kind, st *state) (Reason, bool) {
	if !c.rules.attach {
		return Reason{}, false
	}
	room, short := st.attachRoom(k)
	return Reason{Plugin: names.NodeVolumeLimits, Message: "node(s) exceed max volume count (" + short + ")"}, room == 0
}

// attaches reports whether the limits on volumes let a pod onto a node whose pods' claims may have been
// bound since they came.
func (c *Checker) attaches(st *state, p *v1.Pod) bool {
	of := c.storage
	limits := of.limits(st.node)
	if len(limits) == 0 || len(p.Spec.Volumes) == 0 || !c.rules.attach {
		return true
	}
	volumes := func(p *v1.Pod) *boundPod {
		return &boundPod{attaches: of.attachmentsOf(p, func(*v1.Volume) bool { return false })}
	}
	now := &state{shape: &shape{limits: limits}}
	var pods []*v1.Pod
	for _, it := range st.items {
		now.items = append(now.items, item{boundPod: volumes(it.info.Pod), n: it.n})
		pods = append(pods, it.info.Pod)
	}
	now.leftovers = of.leftovers(st.node, pods)
	room, _ := now.attachRoom(&kind{placed: volumes(p)})
	return room > 0
}

// LikeNode makes a template take as many volumes as the node it stands for, as far as that node's
// CSINode object is known.
func (c *Checker) LikeNode(template, node *v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	object, found := c.storage.csiNode(node)
	if !found {
		return
	}
	template.Annotations = maps.Clone(template.Annotations)
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[CSINodeAnnotation] = object.Name
}
