package document

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/admission"
)

// Item is one object of a list, or an object on its own.
type Item struct {
	// APIVersion, Kind, Namespace and Name identify it.
	APIVersion, Kind, Namespace, Name string
	// Object is a pointer to a value of the kind's type, such as a *v1.Pod, for the kinds that are supported; nil for any other.
	Object any
}

// supported are the types of the supported kinds, by version.
var supported = map[string]Kinds{
	"v1": {v1.Pod{}, v1.Node{}, v1.Event{}, v1.Namespace{}, v1.Service{}, v1.ReplicationController{}, v1.PodTemplate{}, v1.PersistentVolume{},
		v1.PersistentVolumeClaim{}, v1.ConfigMap{}, metav1.Status{}},
	"apps/v1":              {appsv1.DaemonSet{}, appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}},
	"batch/v1":             {batchv1.Job{}, batchv1.CronJob{}},
	"policy/v1":            {policyv1.PodDisruptionBudget{}},
	"scheduling.k8s.io/v1": {schedulingv1.PriorityClass{}},
	"storage.k8s.io/v1": {storagev1.CSIDriver{}, storagev1.CSINode{}, storagev1.CSIStorageCapacity{}, storagev1.StorageClass{},
		storagev1.VolumeAttachment{}},
	"autoscaling.x-k8s.io/v1alpha1": {CapacityBuffer{}, CapacityQuota{}},
	"autoscaling.x-k8s.io/v1beta1":  {CapacityBuffer{}, ProvisioningRequest{}},
	"autoscaling.x-k8s.io/v1":       {ProvisioningRequest{}},
}

// refused returns the first error of an API server for an object, or nil.
func refused(object any) error {
	switch o := object.(type) {
	case *metav1.Status:
		return fmt.Errorf("is no object but what an API server said: %s", cmp.Or(o.Message, string(o.Reason)))
	case *v1.Pod:
		return first(admission.Pod(nil, o))
	case *v1.Node:
		return first(admission.Node(nil, o))
	case *appsv1.DaemonSet:
		return first(admission.PodSpec(field.NewPath("spec", "template", "spec"), &o.Spec.Template.Spec))
	case *v1.PodTemplate:
		return first(admission.PodSpec(field.NewPath("template", "spec"), &o.Template.Spec))
	case *v1.PersistentVolumeClaim:
		return first(admission.Claim(field.NewPath("spec"), &o.Spec))
	case *policyv1.PodDisruptionBudget:
		return first(admission.Budget(field.NewPath("spec"), &o.Spec))
	case *v1.PersistentVolume:
		return first(admission.Amounts(field.NewPath("spec", "capacity"), o.Spec.Capacity, admission.OfVolume))
	}
	return nil
}

// Objects reads the output of kubectl get -o json or -o yaml: one or more lists and objects. Only
// one item of a list is in memory at a time. The name is for messages. The sequence ends with the
// first error, an *Invalid with the item's position, unless reading itself failed.
func Objects(name string, r io.Reader, o StreamOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		objects := reader{others: func(item Item, err error) error {
			if err == nil && !yield(item, nil) {
				return errStopped
			}
			return err
		}}
		if err := objects.read(name, r, cmp.Or(o.MaxSize, DefaultMaxStream)); err != nil && !errors.Is(err, errStopped) {
			yield(Item{}, err)
		}
	}
}

// header is the beginning of a list or object.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// in adds to an error in which object it is.
func (h header) in(place string, err error) error {
	who := h.Metadata.Name
	if h.Metadata.Namespace != "" {
		who = h.Metadata.Namespace + "/" + who
	}
	if who = strings.TrimSpace(h.Kind + " " + who); place != "" && who != "" {
		who = " (" + who + ")"
	}
	if place+who == "" {
		return err
	}
	return fmt.Errorf("%s%s: %w", place, who, err)
}
