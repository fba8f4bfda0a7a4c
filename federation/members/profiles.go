package members

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

const (
	// secretReader is the access provider whose credentials are in a Secret.
	secretReader = "secretreader"
	// tokenKey is where in that Secret.
	tokenKey = "token"
	// lookForProfiles is how often the host is asked whether it has ClusterProfiles now.
	lookForProfiles = time.Minute
)

var profileKind = schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ClusterProfile"}

// profiles are the ClusterProfiles in the namespace of the controllers, where the host has that
// kind. They are read by their published fields.
type profiles struct {
	kinds   meta.RESTMapper
	client  dynamic.Interface
	members *Members

	store atomic.Pointer[cache.Store] // nil as long as they are not read
}

func newProfiles(mgr manager.Manager, m *Members) (*profiles, error) {
	c, err := dynamic.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("building a client for ClusterProfiles: %w", err)
	}
	return &profiles{kinds: mgr.GetRESTMapper(), client: c, members: m}, nil
}

// Start implements manager.Runnable. It waits until the host has ClusterProfiles, and watches them.
func (p *profiles) Start(ctx context.Context) error {
	var kind *meta.RESTMapping
	if wait.PollUntilContextCancel(ctx, lookForProfiles, true, func(context.Context) (found bool, _ error) {
		var err error
		kind, err = p.kinds.RESTMapping(profileKind)
		return err == nil, nil
	}) != nil {
		return nil // the program ends
	}
	informer := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.client, 0, p.members.options.Namespace,
		nil).ForResource(kind.Resource).Informer()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	p.store.Store(new(informer.GetStore()))
	_, err := informer.AddEventHandler(passes.Follow(func(before, now *unstructured.Unstructured) {
		p.members.triggers.Pass(types.NamespacedName{Name: cmp.Or(now, before).GetName()}, 0)
	}))
	return err
}

// get returns a ClusterProfile; nil if there is none. It is not known as long as they are not read.
func (p *profiles) get(name string) (_ *unstructured.Unstructured, known bool) {
	store := p.store.Load()
	if store == nil {
		return nil, false
	}
	o, _, _ := (*store).GetByKey(cache.NewObjectName(p.members.options.Namespace, name).String())
	u, _ := o.(*unstructured.Unstructured)
	return u, true
}

// follow makes a MemberCluster for a ClusterProfile that has none, gives it the labels of the
// ClusterProfile, and deletes what it has made when the ClusterProfile is gone. Without a
// MemberCluster m is nil.
func (r *reconciler) follow(ctx context.Context, name string, m *v1alpha1.MemberCluster) error {
	profile, known := r.profiles.get(name)
	switch {
	case !known:
		return nil
	case m == nil && profile != nil:
		m = &v1alpha1.MemberCluster{}
		m.Name, m.Labels = name, labelsOf(profile, nil)
		m.Spec.ClusterProfileRef = &v1alpha1.ClusterProfileReference{Name: name}
		if err := r.client.Create(ctx, m); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making MemberCluster %s for the ClusterProfile of that name: %w", name, err)
		}
		return nil
	case m == nil || m.Labels[v1alpha1.LabelClusterProfile] != name || m.Spec.ClusterProfileRef == nil:
		return nil
	case profile == nil:
		return client.IgnoreNotFound(r.client.Delete(ctx, m))
	}
	all := labelsOf(profile, m.Labels)
	if maps.Equal(all, m.Labels) {
		return nil
	}
	before := m.DeepCopy()
	m.Labels = all
	return client.IgnoreNotFound(r.client.Patch(ctx, m, client.MergeFrom(before)))
}

// labelsOf are the labels of a MemberCluster: its own, and over them those of its ClusterProfile.
func labelsOf(profile *unstructured.Unstructured, own map[string]string) map[string]string {
	all := labels.Merge(own, profile.GetLabels())
	all[v1alpha1.LabelClusterProfile] = profile.GetName()
	return all
}

// ofProfile is the kubeconfig that a ClusterProfile stands for.
func (r *reconciler) ofProfile(ctx context.Context, name string) ([]byte, error) {
	profile, known := r.profiles.get(name)
	switch {
	case !known:
		return nil, problemOf(v1alpha1.ReasonProfileUnusable,
			"the host has no ClusterProfiles, or they may not be read: install that kind, or refer to a Secret instead")
	case profile == nil:
		return nil, problemOf(v1alpha1.ReasonProfileUnusable,
			"there is no ClusterProfile %s in namespace %s: create it, or delete this MemberCluster", name, r.members.options.Namespace)
	}
	access := accessOf(profile)
	if access == nil {
		return nil, problemOf(v1alpha1.ReasonProfileUnusable,
			"ClusterProfile %s has no access provider %s: add it, or %s; access providers that run a command are never used", name, secretReader,
			remedy)
	}
	token, err := r.secret(ctx, name, tokenKey)
	if err != nil {
		return nil, err
	}
	return Kubeconfig(name, access, string(token))
}

// accessOf is how the access provider secretreader reaches the cluster; nil if there is none that can be read.
// Earlier ClusterProfiles call access providers credential providers.
func accessOf(profile *unstructured.Unstructured) *clientcmdapi.Cluster {
	for _, field := range []string{"accessProviders", "credentialProviders"} {
		providers, _, _ := unstructured.NestedSlice(profile.Object, "status", field)
		for _, p := range providers {
			var provider struct {
				Name    string
				Cluster *clientcmdv1.Cluster
			}
			text, err := json.Marshal(p)
			if err != nil || json.Unmarshal(text, &provider) != nil || provider.Name != secretReader || provider.Cluster == nil {
				continue
			}
			provider.Cluster.Extensions = nil
			access := &clientcmdapi.Cluster{}
			if clientcmdv1.Convert_v1_Cluster_To_api_Cluster(provider.Cluster, access, nil) == nil {
				return access
			}
		}
	}
	return nil
}
