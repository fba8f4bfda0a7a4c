package doctor

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
)

// program is the name of Cluster Autoscaler's binary and of its image.
const program = "cluster-autoscaler"

// images are the names of images of it. Other programs, such as its exporters and operators, have names that only begin so.
var images = regexp.MustCompile(`^` + program + `(-(amd64|arm|arm64|ppc64le|riscv64|s390x|evenkeel))?$`)

// Autoscaler is a Cluster Autoscaler of the cluster.
type Autoscaler struct {
	// Kind, Namespace and Name are the object that runs it: a Deployment or StatefulSet, else a Pod.
	Kind, Namespace, Name string
	Container, Image      string
	// Minor and Patch are 36 and 1 for 1.36.1; 0 and -1 if the tag of the image does not say.
	Minor, Patch int
	// Linked says that evenkeel is linked into it, by the name of the image.
	Linked bool
	// Replicas are those wanted, Ready those that run.
	Replicas, Ready int32
	Flags           Flags

	position int                    // of the container
	owner    *metav1.OwnerReference // what makes it, such as the workload of a pod or an operator; nil if nothing does
}

// Steering is an evenkeel that Cluster Autoscaler may ask.
type Steering struct {
	Way                   Way // WayExpander or WaySidecar
	Kind, Namespace, Name string
}

// Version is the release without the patch, such as 1.36; empty if it is unknown.
func (a *Autoscaler) Version() string {
	if a.Minor == 0 {
		return ""
	}
	return "1." + strconv.Itoa(a.Minor)
}

// isPatchable reports whether a patch sets its flags: those of a pod cannot be changed, and an operator undoes it.
func (a *Autoscaler) isPatchable() bool {
	return a.Kind != "Pod" && a.owner == nil && a.Flags.field != "" && len(a.Flags.words) > 0
}

// AddWorkload takes a Deployment, a StatefulSet or a Pod and reports whether Cluster Autoscaler or evenkeel runs in it. Other
// objects are passed over. Pods of a workload that is known count once, with it.
func (o *Observation) AddWorkload(object any) bool {
	switch w := object.(type) {
	case *appsv1.Deployment:
		return o.addTemplate("Deployment", &w.ObjectMeta, &w.Spec.Template.Spec, ptr.Deref(w.Spec.Replicas, 1), w.Status.ReadyReplicas)
	case *appsv1.StatefulSet:
		return o.addTemplate("StatefulSet", &w.ObjectMeta, &w.Spec.Template.Spec, ptr.Deref(w.Spec.Replicas, 1), w.Status.ReadyReplicas)
	case *v1.Pod:
		ready := int32(0)
		for _, c := range w.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				ready = 1
			}
		}
		return o.addTemplate("Pod", &w.ObjectMeta, &w.Spec, 1, ready)
	}
	return false
}

func (o *Observation) addTemplate(kind string, meta *metav1.ObjectMeta, spec *v1.PodSpec, replicas, ready int32) (found bool) {
	for i := range spec.Containers {
		c := &spec.Containers[i]
		image, tag := splitImage(c.Image)
		words := slices.Concat(c.Command, c.Args)
		if way := evenkeelIn(image, words); way != "" {
			o.Steering = append(o.Steering, Steering{way, kind, meta.Namespace, meta.Name})
			found = true
		}
		flags := readFlags(c.Command, c.Args)
		if !images.MatchString(image) && !flags.names(program) || o.has(kind, meta, c.Name) {
			continue
		}
		minor, patch := releaseOf(tag)
		owner := metav1.GetControllerOf(meta)
		if owner != nil && owner.Kind == "Node" { // of a static pod
			owner = nil
		}
		o.found = append(o.found, Autoscaler{
			Kind: kind, Namespace: cmp.Or(meta.Namespace, metav1.NamespaceDefault), Name: meta.Name, Container: c.Name, Image: c.Image, Minor: minor,
			Patch:  patch,
			Linked: strings.Contains(c.Image, "evenkeel"), Replicas: replicas, Ready: ready, Flags: flags, position: i, owner: owner,
		})
		found = true
	}
	return found
}

// has reports whether an object that runs Cluster Autoscaler is known already: files may give it twice.
func (o *Observation) has(kind string, meta *metav1.ObjectMeta, container string) bool {
	return slices.ContainsFunc(o.found, func(a Autoscaler) bool {
		return a.Kind == kind && a.Namespace == cmp.Or(meta.Namespace, metav1.NamespaceDefault) && a.Name == meta.Name && a.Container == container
	})
}

func splitImage(image string) (name, tag string) {
	image, _, _ = strings.Cut(image, "@")
	name, tag, _ = strings.Cut(path.Base(image), ":")
	return name, tag
}

var release = regexp.MustCompile(`(?:^|[^0-9.])1\.(\d+)(?:\.(\d+))?(?:\D|$)`)

func releaseOf(tag string) (minor, patch int) {
	match := release.FindStringSubmatch(tag)
	if match == nil {
		return 0, -1
	}
	minor, err := strconv.Atoi(match[1])
	if err != nil {
		return 0, -1
	}
	if patch, err = strconv.Atoi(match[2]); err != nil {
		return minor, -1
	}
	return minor, patch
}

// evenkeelIn returns what evenkeel does in a container; empty if it is something else.
func evenkeelIn(image string, words []string) Way {
	at := slices.IndexFunc(words, func(w string) bool { return path.Base(w) == "evenkeel" })
	if at < 0 && !strings.HasPrefix(image, "evenkeel") || at+1 >= len(words) {
		return ""
	}
	switch words[at+1] {
	case "sidecar":
		return WaySidecar
	case "expander":
		return WayExpander
	}
	return ""
}

// Autoscalers are those of the cluster. Pods of workloads that are known otherwise are left out: by the workload itself, or by a pod
// with an equal container. Those that run come first; the diagnosis is about the first.
func (o *Observation) Autoscalers() []Autoscaler {
	out := slices.Clone(o.found)
	if slices.ContainsFunc(out, func(a Autoscaler) bool { return a.Kind != "Pod" }) {
		out = slices.DeleteFunc(out, func(a Autoscaler) bool { return a.Kind == "Pod" && a.owner != nil })
	}
	slices.SortStableFunc(out, func(a, b Autoscaler) int {
		return cmp.Or(cmp.Compare(min(b.Ready, 1), min(a.Ready, 1)), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return slices.CompactFunc(out, func(a, b Autoscaler) bool { // replicas
		return a.Kind == "Pod" && b.Kind == "Pod" && a.Image == b.Image && slices.Equal(a.Flags.words, b.Flags.words)
	})
}

// Autoscaler is the Cluster Autoscaler that the diagnosis is about; nil if none is seen.
func (o *Observation) Autoscaler() *Autoscaler {
	if all := o.Autoscalers(); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// StatusConfigMap names the ConfigMap with the status of Cluster Autoscaler, as its flags do.
func (o *Observation) StatusConfigMap() types.NamespacedName {
	flags := Flags{}
	if a := o.Autoscaler(); a != nil {
		flags = a.Flags
	}
	return types.NamespacedName{
		Namespace: flags.Get("namespace", metav1.NamespaceSystem), Name: flags.Get("status-config-map-name", autoscalerstatus.ConfigMap),
	}
}

// Flags are the flags that Cluster Autoscaler is started with.
type Flags struct {
	words  []string
	values map[string][]string
	// field, command or args, has the flags, from the position begin of words on; empty if a shell has them.
	field string
	begin int
}

// switches are the flags without a value of their own that matter here.
var switches = []string{"balance-similar-node-groups", "write-status-configmap", "scale-down-enabled", "salvo-scale-up",
	"frequent-loops-enabled", "enable-provisioning-requests"}

// quotes are those of a shell.
const quotes = `"'`

// readFlags reads the command of a container, also where a shell runs it.
func readFlags(command, args []string) Flags {
	f := Flags{words: slices.Concat(command, args), values: map[string][]string{}, field: "command"}
	if len(args) > 0 {
		f.field, f.begin = "args", len(command)
	}
	if slices.ContainsFunc(f.words, func(w string) bool { return strings.Contains(w, program) && strings.ContainsAny(w, " \n\t") }) {
		f.words, f.field = strings.Fields(strings.Join(f.words, " ")), ""
		for i, word := range f.words {
			f.words[i] = strings.Trim(word, quotes)
		}
	}
	for i, word := range f.words {
		if !strings.HasPrefix(word, "-") {
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(word, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		if !given && slices.Contains(switches, name) {
			value = "true"
		} else if !given && i+1 < len(f.words) && !strings.HasPrefix(f.words[i+1], "-") {
			value = f.words[i+1]
		}
		f.values[name] = append(f.values[name], strings.Trim(value, quotes))
	}
	return f
}

// With returns the flags with some set and others taken away, each written as --name=value.
func (f *Flags) With(set, without []string) Flags {
	words := slices.DeleteFunc(slices.Clone(f.words), func(w string) bool { return slices.Contains(without, w) })
	return readFlags(words, set)
}

// names reports whether a word is the name of a program.
func (f *Flags) names(program string) bool {
	return slices.ContainsFunc(f.words, func(w string) bool { return path.Base(w) == program })
}

// last is the position of the last word that gives a flag, which is the one that counts; -1 without one.
func (f *Flags) last(flag string) int {
	for i, w := range slices.Backward(f.words) {
		if w == flag || strings.HasPrefix(w, flag+"=") {
			return i
		}
	}
	return -1
}

// Get returns the last value of a flag, and the default without one.
func (f *Flags) Get(name, otherwise string) string {
	if all := f.values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return otherwise
}

// All returns all values of a flag that may be repeated.
func (f *Flags) All(name string) []string { return f.values[name] }

// Is returns the value of a switch.
func (f *Flags) Is(name string, otherwise bool) bool {
	value, err := strconv.ParseBool(f.Get(name, strconv.FormatBool(otherwise)))
	return err == nil && value
}

// leastWasteFrom is the first release that chooses by least-waste by default; those before choose at random.
const leastWasteFrom = 33

// Expanders are the strategies of --expander, of a minor release; 0 if it is unknown.
func (f *Flags) Expanders(minor int) []string {
	otherwise := "least-waste"
	if minor > 0 && minor < leastWasteFrom {
		otherwise = "random"
	}
	return strings.Split(strings.ReplaceAll(f.Get("expander", otherwise), " ", ""), ",")
}

func (f *Flags) asks() bool {
	return slices.Contains(f.Expanders(0), "grpc") && f.Get("grpc-expander-url", "") != ""
}
