package simulate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/predicates"
)

// readStorageCommand prints all storage objects that are read.
const readStorageCommand = "kubectl get pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments -A -o json"

// volumeController simulates the controllers of claims and volumes: it makes the claims of pods,
// and binds those that wait for their pod once it runs.
type volumeController struct {
	checker      *predicates.Checker
	claims       map[string]*v1.PersistentVolumeClaim // by namespace and name
	volumes      map[string]bool
	classes      map[string]bool
	defaultClass *storagev1.StorageClass
	made         map[*pod]bool // pods whose claims exist
	ran          map[*pod]bool // pods whose claims were bound
}

func newVolumeController(checker *predicates.Checker, setup *Setup) *volumeController {
	v := &volumeController{
		checker: checker,
		claims:  map[string]*v1.PersistentVolumeClaim{}, volumes: map[string]bool{}, classes: map[string]bool{},
		made: map[*pod]bool{}, ran: map[*pod]bool{}, defaultClass: defaultClass(setup.Storage),
	}
	for _, o := range setup.Storage {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim:
			v.claims[o.Namespace+"/"+o.Name] = o
		case *v1.PersistentVolume:
			v.volumes[o.Name] = true
		case *storagev1.StorageClass:
			v.classes[o.Name] = true
		}
	}
	return v
}

// provide makes the claims of pods that have none yet. The claim of an ephemeral volume exists as
// long as its pod: an evicted pod is replaced by another pod with a new claim.
func (v *volumeController) provide(pods []*pod) error {
	for _, p := range pods {
		evicted := v.ran[p] && p.node == nil
		if len(p.object.Spec.Volumes) == 0 || v.made[p] && !evicted {
			continue
		}
		v.made[p] = true
		delete(v.ran, p)
		var claims []*v1.PersistentVolumeClaim
		if p.owner != nil {
			for i := range p.owner.Claims {
				claims = append(claims, ownClaim(p.object, &p.owner.Claims[i]))
			}
		}
		for i := range p.object.Spec.Volumes {
			volume := &p.object.Spec.Volumes[i]
			if volume.Ephemeral == nil || volume.Ephemeral.VolumeClaimTemplate == nil {
				continue
			}
			claims = append(claims, ephemeralClaim(p.object, volume))
			if evicted {
				delete(v.claims, p.object.Namespace+"/"+claims[len(claims)-1].Name)
			}
		}
		for _, claim := range claims {
			if v.claims[claim.Namespace+"/"+claim.Name] == nil {
				if err := v.make(claim); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// make creates a claim as the API server stores it: with the default class if it names none.
func (v *volumeController) make(claim *v1.PersistentVolumeClaim) error {
	complete(claim, v.defaultClass)
	v.claims[claim.Namespace+"/"+claim.Name] = claim
	return v.checker.Put(claim)
}

// ephemeralClaim returns the claim of an ephemeral volume, which exists as long as its pod.
func ephemeralClaim(p *v1.Pod, volume *v1.Volume) *v1.PersistentVolumeClaim {
	template := volume.Ephemeral.VolumeClaimTemplate
	claim := ownClaim(p, &v1.PersistentVolumeClaim{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	claim.Name = ephemeral.VolumeClaimName(p, volume)
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
	return claim
}

// bind binds the claims of pods that run now.
func (v *volumeController) bind(pods []*pod) error {
	for _, p := range pods {
		if p.node == nil || len(p.object.Spec.Volumes) == 0 {
			continue
		}
		v.ran[p] = true
		if err := v.checker.BindClaims(p.object, p.node.object); err != nil {
			return err
		}
	}
	return nil
}

// withClaims adds the volumes of its own claims to a pod of a StatefulSet; they replace volumes of
// the same name.
func (w *Workload) withClaims(p *v1.Pod) {
	if len(w.Claims) == 0 {
		return
	}
	volumes := slices.DeleteFunc(slices.Clone(p.Spec.Volumes), func(volume v1.Volume) bool {
		return slices.ContainsFunc(w.Claims, func(c v1.PersistentVolumeClaim) bool { return c.Name == volume.Name })
	})
	for i := range w.Claims {
		template := &w.Claims[i]
		volumes = append(volumes, v1.Volume{Name: template.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: template.Name + "-" + p.Name},
		}})
	}
	p.Spec.Volumes = volumes
}

// missing describes the objects of claims that the input lacks, and how to add them: one sentence
// each for claims, volumes and classes.
func (v *volumeController) missing(setup *Setup) []string {
	claims, volumes, classes := &lacking{noun: "persistent volume claim"}, &lacking{noun: "persistent volume"},
		&lacking{noun: "StorageClass object"}
	pods := slices.Clone(setup.Pods)
	for i := range setup.Workloads {
		w, number := &setup.Workloads[i], 1
		if w.isStatefulSet() {
			number = w.Start
		}
		first := *w.Pod
		first.Name = w.podName(number)
		pods = append(pods, &first)
		for j := range w.Claims {
			if name := w.Claims[j].Spec.StorageClassName; name != nil && *name != "" && !v.classes[*name] {
				classes.note(*name, "workload "+w.label())
			}
		}
	}
	for _, p := range pods {
		for i := range p.Spec.Volumes {
			source := p.Spec.Volumes[i].PersistentVolumeClaim
			if source == nil {
				continue
			}
			key := p.Namespace + "/" + source.ClaimName
			claim := v.claims[key]
			switch {
			case claim == nil:
				claims.note(key, "pod "+p.Namespace+"/"+p.Name)
			case claim.Spec.VolumeName != "" && !v.volumes[claim.Spec.VolumeName]:
				volumes.note(claim.Spec.VolumeName, "claim "+key)
			case claim.Spec.VolumeName == "" && claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != "" &&
				!v.classes[*claim.Spec.StorageClassName]:
				classes.note(*claim.Spec.StorageClassName, "claim "+key)
			}
		}
	}
	var all []string
	for _, kind := range []*lacking{claims, volumes, classes} {
		if len(kind.names) > 0 {
			all = append(all, kind.sentence())
		}
	}
	return all
}

// lacking are objects that others refer to and that the input does not have.
type lacking struct {
	noun  string
	names []string
	users map[string][]string
}

func (l *lacking) note(name, user string) {
	if l.users == nil {
		l.users = map[string][]string{}
	}
	if l.users[name] == nil {
		l.names = append(l.names, name)
	}
	if !slices.Contains(l.users[name], user) {
		l.users[name] = append(l.users[name], user)
	}
}

func (l *lacking) sentence() string {
	var listed []string
	for _, name := range l.names {
		of := l.users[name][0]
		if others := len(l.users[name]) - 1; others > 0 {
			of += fmt.Sprintf(" and %d more", others)
		}
		listed = append(listed, fmt.Sprintf("%s of %s", name, of))
	}
	is := "is"
	if len(l.names) > 1 {
		is = "are"
	}
	return fmt.Sprintf("%s %s not in the input, so that pods with them fit nowhere: %s; add what this prints to a file of storageFrom: %s",
		spelling.Count(len(l.names), l.noun), is, spelling.List(listed, 3), readStorageCommand)
}
