package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Holder is the kind of object that a list of resources belongs to.
type Holder int

// Each kind has resources of its own, in addition to those with a domain such as nvidia.com/gpu.
const (
	// OfPod is a container or a pod: cpu, memory, ephemeral-storage and hugepages-SIZE.
	OfPod Holder = iota
	// OfNode has pods and attachable-volumes-NAME as well.
	OfNode
	// OfVolume is a volume or a claim of one: storage.
	OfVolume
)

var plainNames = map[Holder][]string{
	OfPod:    {"cpu", "memory", "ephemeral-storage"},
	OfNode:   {"cpu", "memory", "ephemeral-storage", "pods"},
	OfVolume: {"storage"},
}

// Prefixes of names, followed by a size or a driver.
const (
	hugePages   = v1.ResourceHugePagesPrefix
	attachLimit = v1.ResourceAttachableVolumesPrefix
)

// Amounts checks the names of resources and that no amount is negative. The errors are sorted by
// name.
func Amounts(at *field.Path, amounts v1.ResourceList, of Holder) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if err := resourceName(at, string(name), of); err != nil {
			errs = append(errs, err)
		} else if quantity := amounts[name]; quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.String(), "must not be negative"))
		}
	}
	return errs
}

func resourceName(at *field.Path, name string, of Holder) *field.Error {
	switch {
	case slices.Contains(plainNames[of], name) || isHugePages(name) && of != OfVolume || isAttachLimit(name) && of == OfNode:
		return nil
	case strings.Contains(name, "/"):
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return field.Invalid(at, Shorten(name), "is not the name of a resource, which is a domain and a name such as nvidia.com/gpu: "+
				problems[0])
		}
		return nil
	}
	if right := meant(name, of); right != "" {
		return field.Invalid(at, Shorten(name), fmt.Sprintf("is not a resource of Kubernetes (did you mean %q?)", right))
	}
	return field.Invalid(at, Shorten(name), "is not a resource of Kubernetes: must be "+spoken(of))
}

// spoken lists the resource names that a holder may have.
func spoken(of Holder) string {
	names := plainNames[of]
	if of == OfVolume {
		return names[0]
	}
	return strings.Join(names, ", ") + ", " + hugePages + "SIZE, or a name with a domain such as nvidia.com/gpu"
}

func isHugePages(name string) bool {
	size, ok := strings.CutPrefix(name, hugePages)
	if !ok {
		return false
	}
	quantity, err := resource.ParseQuantity(size)
	return err == nil && quantity.Sign() > 0
}

func isAttachLimit(name string) bool {
	rest, ok := strings.CutPrefix(name, attachLimit)
	return ok && rest != ""
}

// synonyms are common wrong names, reduced to letters and digits, whose spelling is too different
// from that of the right name to suggest it.
var synonyms = map[string]string{
	"core": "cpu", "cores": "cpu", "vcpu": "cpu", "vcpus": "cpu", "millicpu": "cpu", "processor": "cpu", "processors": "cpu",
	"mem": "memory", "mems": "memory", "ram": "memory", "memorymb": "memory", "memorygb": "memory", "memorybytes": "memory",
	"disk": "ephemeral-storage", "storage": "ephemeral-storage", "ephemeral": "ephemeral-storage", "localstorage": "ephemeral-storage",
	"scratch": "ephemeral-storage", "rootfs": "ephemeral-storage", "localephemeralstorage": "ephemeral-storage",
	"gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu", "nvidia": "nvidia.com/gpu", "nvidiagpu": "nvidia.com/gpu",
	"nvidiacomgpu": "nvidia.com/gpu",
	"amdgpu":       "amd.com/gpu", "amdcomgpu": "amd.com/gpu", "tpu": "google.com/tpu", "tpus": "google.com/tpu",
	"googlecomtpu": "google.com/tpu",
	"neuron":       "aws.amazon.com/neuron", "efa": "vpc.amazonaws.com/efa", "kvm": "devices.kubevirt.io/kvm",
	"hugepages": hugePages + "2Mi", "hugepage": hugePages + "2Mi", "maxpods": "pods", "podcount": "pods", "podcapacity": "pods",
}

// meant returns the right name for a wrong one; empty if no name is similar.
func meant(name string, of Holder) string {
	plain := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	if of == OfVolume {
		return "storage"
	}
	if size, ok := strings.CutPrefix(plain, "hugepages"); ok {
		for _, known := range []string{"2Mi", "1Gi", "64Ki", "32Mi", "512Mi", "16Gi"} {
			if strings.EqualFold(size, known) || strings.EqualFold(size+"i", known) || strings.EqualFold(strings.TrimSuffix(size, "b")+"i", known) {
				return hugePages + known
			}
		}
	}
	for _, written := range []string{plain, strings.TrimPrefix(plain, "requests"), strings.TrimPrefix(plain, "limits")} {
		for _, right := range plainNames[of] {
			if written == strings.ReplaceAll(right, "-", "") {
				return right
			}
		}
		if right, ok := synonyms[written]; ok && (right != "pods" || of == OfNode) {
			return right
		}
	}
	near := spelling.Nearest(plain, slices.Concat(plainNames[of], []string{"gpu"}))
	switch {
	case len(near) == 0:
		return ""
	case near[0] == "gpu":
		return synonyms["gpu"]
	}
	return near[0]
}
