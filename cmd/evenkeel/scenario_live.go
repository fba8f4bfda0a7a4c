package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // authentication plugins that a kubeconfig may name
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/document/live"
)

// liveCluster names a cluster to read instead of files.
type liveCluster struct{ kubeconfig, context, namespace string }

// liveFlags have no effect if files are read.
var liveFlags = []string{"kubeconfig", "context", "namespace"}

func (l *liveCluster) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&l.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster to read if no file is given; by default the same as for kubectl")
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
			Name: "configmap " + l.namespace + "/cluster-autoscaler-status",
			Path: "/api/v1/namespaces/" + l.namespace + "/configmaps/cluster-autoscaler-status",
		}, "Cluster Autoscaler's bounds of node groups are not known", false},
	}
}

// eachObject reads the cluster. Optional resources that are missing are reported as notes.
func (l *liveCluster) eachObject(ctx context.Context, each func(from string, item document.Item) error) (notes []string, err error) {
	none := &usageError{errors.New("no file given and no cluster found"), "name files or a folder, or - for standard input, or give --kubeconfig for the cluster itself"}
	config, err := kubectlConfig(l.kubeconfig, l.context, none)
	if err != nil {
		return nil, err
	}
	reader, err := live.New(rest.AddUserAgent(config, "evenkeel-scenario"))
	if err != nil {
		return nil, &usageError{err, "--kubeconfig says how the cluster is reached"}
	}
	for _, r := range l.readables() {
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
