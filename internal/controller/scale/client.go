package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Scale is the Scale subresource of an object as it was read.
type Scale struct {
	Namespace string
	Reference v1alpha1.ScaleTargetReference
	// Resource is the resource of the reference's kind, for a Watcher.
	Resource schema.GroupVersionResource
	// Replicas is how many replicas are asked for, StatusReplicas how many exist according to the
	// status of the object.
	Replicas, StatusReplicas int32
	// Selector selects the pods of the object, or nothing if it is not known.
	Selector labels.Selector
	// ResourceVersion is that of the object, which changes with all of its fields, not only with
	// its Scale.
	ResourceVersion string
	UID             types.UID
}

// Options of a Client. The zero value works.
type Options struct {
	// RefreshInterval is how long the result of discovery is kept at least before an unknown kind
	// is looked for again. 0 means DefaultRefreshInterval.
	RefreshInterval time.Duration
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// DefaultRefreshInterval is the default of Options.RefreshInterval.
const DefaultRefreshInterval = 10 * time.Second

// Client reads and writes Scales. It is safe for concurrent use.
type Client struct {
	catalog *catalog
	scales  scale.ScalesGetter
}

// New returns a Client for the API server of config. It makes no call before the first use. It has
// no rate limit: the API server has its own.
func New(config *rest.Config, o Options) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for discovery: %w", err)
	}
	c := &Client{catalog: newCatalog(found, o)}
	kinds := scale.NewDiscoveryScaleKindResolver(c.catalog.discovery)
	c.scales, err = scale.NewForConfig(config, c.catalog.mapper, dynamic.LegacyAPIPathResolverFunc, kinds)
	if err != nil {
		return nil, fmt.Errorf("building a client for scales: %w", err)
	}
	return c, nil
}

// Resolve returns the resource of a reference, whether or not the object exists. The error is an
// *Error.
func (c *Client) Resolve(ref v1alpha1.ScaleTargetReference) (schema.GroupVersionResource, error) {
	resource, err := c.catalog.resolve(ref)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return resource, nil
}

// Get reads the Scale of an object. The error is an *Error. If it is about an empty selector, the
// other fields of the Scale are set.
func (c *Client) Get(ctx context.Context, namespace string, ref v1alpha1.ScaleTargetReference) (Scale, error) {
	if namespace == "" {
		return Scale{}, invalid(ref, errors.New("it needs a namespace"))
	}
	resource, wrong := c.catalog.resolve(ref)
	if wrong != nil {
		return Scale{}, wrong
	}
	answer, err := c.scales.Scales(namespace).Get(ctx, resource.GroupResource(), ref.Name, metav1.GetOptions{})
	if err != nil {
		return Scale{}, c.explain(err, "get", namespace, ref, resource)
	}
	return read(answer, namespace, ref, resource)
}

// Update sets the number of replicas if the object has not changed since the Scale was read, and
// returns the new Scale. The error is an *Error; after a conflict nothing was written, and the
// Scale must be read again. Update ignores the selector and the numbers of the Scale that was
// read.
func (c *Client) Update(ctx context.Context, was Scale, replicas int32) (Scale, error) {
	if was.ResourceVersion == "" {
		return Scale{}, &Error{
			Reason: ReasonConflict, Namespace: was.Namespace, Reference: was.Reference,
			Err: errors.New("it must be read before it is written"),
		}
	}
	answer, err := c.scales.Scales(was.Namespace).Update(ctx, was.Resource.GroupResource(), &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: was.Reference.Name, Namespace: was.Namespace, UID: was.UID, ResourceVersion: was.ResourceVersion,
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		return Scale{}, c.explain(err, "update", was.Namespace, was.Reference, was.Resource)
	}
	now, _ := read(answer, was.Namespace, was.Reference, was.Resource) // it is written, whatever its selector
	return now, nil
}

// explain converts the error of a verb into an Error. A 404 that is not about the object means that
// the kind is no longer served.
func (c *Client) explain(err error, verb, namespace string, ref v1alpha1.ScaleTargetReference, resource schema.GroupVersionResource) error {
	if apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err) {
		c.catalog.refresh()
		if _, gone := c.catalog.resolve(ref); gone != nil {
			return gone
		}
	}
	return classify(err, verb, namespace, ref, resource.GroupResource())
}

// read converts the answer of the API server into a Scale.
func read(answer *autoscalingv1.Scale, namespace string, ref v1alpha1.ScaleTargetReference,
	resource schema.GroupVersionResource) (Scale, error) {
	s := Scale{
		Namespace: namespace, Reference: ref, Resource: resource,
		Replicas: answer.Spec.Replicas, StatusReplicas: answer.Status.Replicas,
		Selector:        labels.Nothing(),
		ResourceVersion: answer.ResourceVersion, UID: answer.UID,
	}
	selector, err := labels.Parse(answer.Status.Selector)
	if err != nil {
		return s, &Error{
			Reason: ReasonUnavailable, Namespace: namespace, Reference: ref,
			Err: fmt.Errorf("the selector in the status of its Scale is not valid: %w", err),
		}
	}
	if selector.Empty() {
		return s, &Error{
			Reason: ReasonEmptySelector, Namespace: namespace, Reference: ref,
			Err: errors.New("the status of its Scale has no selector, so which pods are its own is not known: " +
				"its controller has to write one, and its definition to name the field (labelSelectorPath)"),
		}
	}
	s.Selector = selector
	return s, nil
}
