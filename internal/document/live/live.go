// Package live reads the objects of a running cluster from its API server, page by page. It decodes
// them like package document decodes the output of kubectl, so that both give the same result for a
// cluster.
//
// It only gets and lists, and keeps no state. The caller knows what the objects are for, and which
// of them are optional.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/document"
)

// pageSize is the number of objects of a page, the same as for kubectl.
const pageSize = 500

// Resource is a resource of a cluster: the objects of a kind in all namespaces, or a single object.
type Resource struct {
	// Name is its name in kubectl, such as "pods" or "csinodes.storage.k8s.io".
	Name string
	// Path is its path in the API, such as "/api/v1/pods".
	Path string
	// FieldSelector selects objects; empty means all of them.
	FieldSelector string
}

// Reader reads from one API server. It is safe for concurrent use.
type Reader struct {
	client rest.Interface
	server string
}

// New returns a reader for the API server of config. It does not connect yet.
func New(config *rest.Config) (*Reader, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // one request at a time, of which the server itself says when they are too many
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Reader{client: client, server: config.Host}, nil
}

// Objects yields the objects of a resource in the server's order. The sequence ends with the first
// error: an *Error if the server did not return them, or a *document.Invalid for an object that
// cannot be read.
func (r *Reader) Objects(ctx context.Context, of Resource) iter.Seq2[document.Item, error] {
	return func(yield func(document.Item, error) bool) {
		for next := ""; ; {
			text, err := r.page(ctx, of, next)
			if rest := restOf(err); rest != "" {
				// The state that the pages were of is no longer kept. The rest as it is now is the
				// next best, and what the server offers.
				next = rest
				continue
			}
			if err != nil {
				yield(document.Item{}, &Error{Server: r.server, Resource: of.Name, Err: err})
				return
			}
			for item, err := range document.Objects(of.Name, bytes.NewReader(text), document.StreamOptions{}) {
				if !yield(item, err) || err != nil {
					return
				}
			}
			var page struct {
				Metadata metav1.ListMeta `json:"metadata"`
			}
			// It was read as a whole already. A single object has no such field.
			if err := json.Unmarshal(text, &page); err != nil || page.Metadata.Continue == "" {
				return
			}
			next = page.Metadata.Continue
		}
	}
}

// Serves reports whether the API server has a resource, which every user may ask. It is true as well
// where the server does not say.
func (r *Reader) Serves(ctx context.Context, of Resource) bool {
	text, err := r.client.Get().AbsPath(path.Dir(of.Path)).Do(ctx).Raw()
	var list metav1.APIResourceList
	if err != nil || json.Unmarshal(text, &list) != nil {
		return !apierrors.IsNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(known metav1.APIResource) bool { return known.Name == path.Base(of.Path) })
}

func (r *Reader) page(ctx context.Context, of Resource, next string) ([]byte, error) {
	request := r.client.Get().AbsPath(of.Path).Param("limit", strconv.Itoa(pageSize))
	if next != "" {
		request.Param("continue", next)
	}
	if of.FieldSelector != "" {
		request.Param("fieldSelector", of.FieldSelector)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // says what the server said, which that of Raw does not
		return nil, err
	}
	return result.Raw()
}

// restOf returns the token with which a list continues whose pages have expired; empty for any
// other error, or if the server returns none.
func restOf(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// Error is returned if an API server did not return a resource.
type Error struct {
	// Server is its address, Resource the kubectl name of the requested resource.
	Server, Resource string
	// Err is the error of the server or the connection.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s of %s: %v", e.Resource, e.Server, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
