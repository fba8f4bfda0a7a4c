package members

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

const (
	profileGroup    = "multicluster.x-k8s.io"
	profileResource = "clusterprofiles"
	// secretReader is the access provider whose credentials are in a Secret.
	secretReader = "secretreader"
	// tokenKey is where in that Secret.
	tokenKey = "token"
	// lookForProfiles is how often the host is asked whether it has ClusterProfiles now.
	lookForProfiles = time.Minute
)

// profiles are the ClusterProfiles in the namespace of the controllers, where the host has that
// kind. They are read by their published fields.
type profiles struct {
	discovery discovery.DiscoveryInterface
	client    dynamic.Interface
	namespace string
	changed   func(name string)

	mu    sync.Mutex
	found cache.SharedIndexInformer // nil as long as the host does not have the kind
}

func newProfiles(config *rest.Config, m *Members) (*profiles, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the kinds of the host: %w", err)
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for ClusterProfiles: %w", err)
	}
	return &profiles{discovery: d, client: c, namespace: m.options.Namespace, changed: m.clusterChanged}, nil
}

// Start implements manager.Runnable. It waits until the host has ClusterProfiles, and watches them.
func (p *profiles) Start(ctx context.Context) error {
	var version string
	err := wait.PollUntilContextCancel(ctx, lookForProfiles, true, func(context.Context) (bool, error) {
		version = p.version()
		return version != "", nil
	})
	if err != nil {
		return nil //nolint:nilerr // the program ends
	}
	return p.watch(ctx, version)
}

// version of the ClusterProfiles that the host prefers; empty if it has none.
func (p *profiles) version() string {
	groups, err := p.discovery.ServerGroups()
	if err != nil {
		return "" // asked again
	}
	for _, g := range groups.Groups {
		if g.Name == profileGroup {
			return g.PreferredVersion.Version
		}
	}
	return ""
}

func (p *profiles) watch(ctx context.Context, version string) error {
	resource := schema.GroupVersionResource{Group: profileGroup, Version: version, Resource: profileResource}
	informer := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.client, 0, p.namespace, nil).ForResource(resource).Informer()
	report := func(o any) {
		if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
			p.changed(name.Name)
		}
	}
	added := func(o any, first bool) {
		if !first {
			report(o)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{AddFunc: added, UpdateFunc: func(_, o any) { report(o) }, DeleteFunc: report}); err != nil {
		return fmt.Errorf("watching ClusterProfiles: %w", err)
	}
	p.mu.Lock()
	p.found = informer
	p.mu.Unlock()
	go func() {
		// The first ones are reported when all are read: before, none counts as known.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			for _, o := range informer.GetStore().List() {
				report(o)
			}
		}
	}()
	informer.RunWithContext(ctx)
	return nil
}

// get returns a ClusterProfile; nil if there is none. It is not known as long as they are not read.
func (p *profiles) get(name string) (_ *unstructured.Unstructured, known bool) {
	if p == nil {
		return nil, false
	}
	p.mu.Lock()
	informer := p.found
	p.mu.Unlock()
	if informer == nil || !informer.HasSynced() {
		return nil, false
	}
	o, found, err := informer.GetStore().GetByKey(cache.NewObjectName(p.namespace, name).String())
	if !found || err != nil {
		return nil, true
	}
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
		return nil, &Problem{v1alpha1.ReasonProfileUnusable, "the host has no ClusterProfiles, or they may not be read: install that kind, or refer to a Secret instead"}
	case profile == nil:
		return nil, &Problem{v1alpha1.ReasonProfileUnusable, fmt.Sprintf("there is no ClusterProfile %s in namespace %s: create it, or delete this MemberCluster", name, r.members.options.Namespace)}
	}
	access := accessOf(profile)
	if access == nil {
		return nil, &Problem{
			v1alpha1.ReasonProfileUnusable,
			fmt.Sprintf("ClusterProfile %s has no access provider %s: add it, or %s; access providers that run a command are never used", name, secretReader, remedy),
		}
	}
	var secret v1.Secret
	err := r.client.Get(ctx, client.ObjectKey{Namespace: r.members.options.Namespace, Name: name}, &secret)
	token := secret.Data[tokenKey]
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	case err != nil || len(token) == 0:
		return nil, &Problem{
			v1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("there is no Secret %s with a key %s in namespace %s, which the access provider %s reads: create it", name, tokenKey, r.members.options.Namespace, secretReader),
		}
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: access},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: string(token)}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// accessOf is how the access provider secretreader reaches the cluster; nil if there is none.
// Earlier ClusterProfiles call access providers credential providers.
func accessOf(profile *unstructured.Unstructured) *clientcmdapi.Cluster {
	for _, field := range []string{"accessProviders", "credentialProviders"} {
		providers, _, _ := unstructured.NestedSlice(profile.Object, "status", field)
		for _, p := range providers {
			provider, _ := p.(map[string]any)
			cluster, _ := provider["cluster"].(map[string]any)
			if provider["name"] != secretReader || cluster == nil {
				continue
			}
			text := func(key string) string {
				s, _ := cluster[key].(string)
				return s
			}
			insecure, _ := cluster["insecure-skip-tls-verify"].(bool)
			authority, err := base64.StdEncoding.DecodeString(text("certificate-authority-data"))
			if err != nil {
				authority = []byte("not base64") // refused as an authority without certificates
			}
			return &clientcmdapi.Cluster{
				Server: text("server"), TLSServerName: text("tls-server-name"), ProxyURL: text("proxy-url"),
				CertificateAuthorityData: authority, InsecureSkipTLSVerify: insecure,
			}
		}
	}
	return nil
}
