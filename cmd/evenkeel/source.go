package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins that a kubeconfig may name
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/document/live"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// source is a cluster, or files with its objects.
type source struct {
	files []string
	limit fileSize
	live  liveCluster
	now   time.Time // of the dump; zero if no flag gives it
}

// eachObject calls a function for each object that is read from somewhere, until it fails.
type eachObject func(from string, item document.Item) error

// addTo adds the flags that say what is read, and how node groups are found in it.
func (s *source) addTo(flags *pflag.FlagSet, options *simulate.DumpOptions) {
	flags.StringArrayVarP(&s.files, "filename", "f", nil, "file, folder or - for standard input; may be repeated")
	flags.Var(&s.limit, "max-file-size", "refuse larger files")
	flags.StringVar(&options.GroupLabel, "group-label", "",
		"node label whose value names the node group; by default the label of a known cloud")
	addNow(flags, &s.now)
	s.live.addTo(flags)
}

// read adds all objects, and shows the progress. Without files, cluster reads them, and says what may not be read.
func (s *source) read(cmd *cobra.Command, progress func(simulate.Progress), add func(document.Item) error,
	cluster func(context.Context, eachObject) ([]string, error)) (missing []string, err error) {
	if given := changed(cmd.Flags(), liveFlags...); len(given) > 0 && len(s.files) > 0 {
		return nil, &usageError{fmt.Errorf("%s cannot be combined with %s", strings.Join(given, ", "), strings.Join(s.files, ", ")),
			"either files are read or a cluster"}
	}
	nodes := 0
	var count simulate.Progress
	count.Step.Of = "objects"
	each := func(from string, item document.Item) error {
		count.Step.Done++
		count.Step.Doing = "reading " + from
		progress(count)
		if item.Kind == "Node" {
			nodes++
		}
		return add(item)
	}
	from, remedy := strings.Join(s.files, ", "), "the output of kubectl get nodes says what the node groups are"
	if len(s.files) > 0 {
		err = s.eachOfFiles(inputsOf(cmd).open, each)
	} else {
		from, remedy = "the cluster", "its nodes say what the node groups are"
		missing, err = cluster(cmd.Context(), each)
	}
	if err == nil && nodes == 0 {
		err = &usageError{fmt.Errorf("%s: holds no Node", from), remedy}
	}
	return missing, err
}

// eachOfFiles reads the objects of all files.
func (s *source) eachOfFiles(open document.Open, each eachObject) error {
	for i, name := range s.files {
		if name == "-" && slices.Contains(s.files[:i], "-") {
			return &usageError{errors.New("stdin is named twice, but can be read only once"), "name it once"}
		}
		if err := open.Objects(name, document.StreamOptions{MaxSize: int64(s.limit)}, each); err != nil {
			return err
		}
	}
	return nil
}

// liveCluster names a cluster to read instead of files.
type liveCluster struct {
	kubeconfig, context, namespace string
	status                         string // the name of the ConfigMap if it is not the usual one
}

// liveFlags have no effect if files are read.
var liveFlags = []string{"kubeconfig", "context", "namespace"}

func (l *liveCluster) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&l.kubeconfig, "kubeconfig", "",
		"kubeconfig file of the cluster to read if no file is given; by default the same as for kubectl")
	flags.StringVar(&l.context, "context", "", "context of the kubeconfig")
	flags.StringVar(&l.namespace, "namespace", "kube-system", "namespace in which Cluster Autoscaler keeps its ConfigMap")
}

// A readable is a resource that a scenario is made from.
type readable struct {
	live.Resource
	// without describes the consequence if the resource may not be read; empty: the resource is
	// required.
	without string
	// optional resources are not part of Kubernetes itself.
	optional bool
}

// readables are read in this order, which is the order of a dump as documented.
func (l *liveCluster) readables() []readable {
	core := func(name, selector, without string) readable {
		return readable{live.Resource{Name: name, Path: "/api/v1/" + name, FieldSelector: selector}, without, false}
	}
	group := func(name, group, without string) readable {
		return readable{live.Resource{Name: name + "." + group, Path: "/apis/" + group + "/v1/" + name}, without, false}
	}
	autoscaling := func(name, version, without string) readable {
		const group = "autoscaling.x-k8s.io"
		return readable{live.Resource{Name: name + "." + group, Path: "/apis/" + group + "/" + version + "/" + name}, without, true}
	}
	const storage, apps = "storage.k8s.io", "apps"
	status := cmp.Or(l.status, autoscalerstatus.ConfigMap)
	return []readable{
		core("nodes", "", ""),
		core("pods", "status.phase!=Succeeded,status.phase!=Failed", ""),
		group("daemonsets", apps, "daemon sets are taken from their pods"),
		group("statefulsets", apps, "no claims are made for pods that have none yet"),
		core("services", "", "pods without a controller are not spread by default"),
		core("namespaces", "", "affinity to pods of namespaces with a label finds none"),
		core("persistentvolumeclaims", "", "pods with volumes run nowhere"),
		core("persistentvolumes", "", "no pod is kept in the zone of its volumes"),
		group("storageclasses", storage, "pods that wait for a volume run nowhere"),
		group("csinodes", storage, "nodes take any number of volumes"),
		group("csidrivers", storage, "no driver is short of capacity"),
		group("csistoragecapacities", storage, "no driver is short of capacity"),
		group("volumeattachments", storage, "nodes take as many volumes as their pods leave"),
		autoscaling("capacitybuffers", "v1beta1", "no room is kept free for buffers"),
		autoscaling("capacityquotas", "v1alpha1", "no quota over capacity counts"),
		autoscaling("provisioningrequests", "v1", "no room is kept for provisioning requests"),
		core("podtemplates", "", "buffers and provisioning requests of pod templates get no room"),
		group("poddisruptionbudgets", "policy", "scale-down moves pods that budgets would protect"),
		group("priorityclasses", "scheduling.k8s.io", "only pods that tell their own priority have one"),
		{live.Resource{
			Name: "configmap " + l.namespace + "/" + status,
			Path: "/api/v1/namespaces/" + l.namespace + "/configmaps/" + status,
		}, "Cluster Autoscaler's bounds of node groups are not known", false},
	}
}

// eachObject reads the cluster. Optional resources that are missing are reported as notes.
func (l *liveCluster) eachObject(ctx context.Context, each eachObject) (notes []string, err error) {
	return l.read(ctx, l.readables(), each)
}

// read reads some resources of the cluster.
func (l *liveCluster) read(ctx context.Context, of []readable, each eachObject) (notes []string, err error) {
	none := &usageError{errors.New("no file given and no cluster found"),
		"name files or a folder, or - for standard input, or give --kubeconfig for the cluster itself"}
	config, err := kubectlConfig("", l.kubeconfig, l.context, none)
	if err != nil {
		return nil, err
	}
	reader, err := live.New(rest.AddUserAgent(config, "evenkeel-scenario"))
	if err != nil {
		return nil, &usageError{err, "--kubeconfig says how the cluster is reached"}
	}
	for _, r := range of {
		for item, err := range reader.Objects(ctx, r.Resource) {
			switch {
			case apierrors.IsNotFound(err) && r.without != "": // the server does not have this resource, so there are no objects
			case apierrors.IsForbidden(err) && r.optional && !reader.Serves(ctx, r.Resource): // nobody was given a right to it
			case apierrors.IsForbidden(err) && r.without != "":
				notes = append(notes, fmt.Sprintf("%v: %s", err, r.without))
			case apierrors.IsForbidden(err):
				return nil, fmt.Errorf("%w (nodes and pods are needed: give the user the right to list them in all namespaces)", err)
			case err != nil:
				return nil, err
			default:
				if err := each(r.Name+" of "+config.Host, item); err != nil {
					return nil, err
				}
			}
		}
	}
	return notes, nil
}
