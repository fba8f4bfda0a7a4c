// Package live reads the objects of a running cluster from its API server, page by page, as package document reads them from
// what kubectl printed: the same decoding, so that both tell the same of one cluster.
//
// It only gets and lists, and keeps nothing. What the objects are for, and which of them can be done without, is for the
// caller to know.
package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/document"
)

// pageSize is how many objects a page holds, as with kubectl.
const pageSize = 500

// Resource is what can be read of a cluster: the objects of a kind in all namespaces, or a single one.
type Resource struct {
	// Name is what kubectl calls it, such as "pods" or "csinodes.storage.k8s.io".
	Name string
	// Path is its path in the API, such as "/api/v1/pods".
	Path string
	// FieldSelector picks among objects; empty is all of them.
	FieldSelector string
}

// Reader reads from one API server. It is safe for concurrent use.
type Reader struct {
	client rest.Interface
	server string
}

// New makes a reader of the API server that config leads to. It opens no connection yet.
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

// Objects yields the objects of a resource in the server's order. The sequence ends with the first error: an *Error where the
// server did not give them, or a *document.Invalid for an object that cannot be read.
func (r *Reader) Objects(ctx context.Context, of Resource) iter.Seq2[document.Item, error] {
	return func(yield func(document.Item, error) bool) {
		for next := ""; ; {
			text, err := r.page(ctx, of, next)
			if rest := restOf(err); rest != "" {
				// The state that the pages were of is no longer kept. The rest as it is now is the next best, and what the
				// server offers.
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

// restOf is where a list goes on whose pages have expired; empty for any other error, and where the server does not say.
func restOf(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// Error says that an API server did not give a resource.
type Error struct {
	// Server is its address, Resource what kubectl calls what was asked for.
	Server, Resource string
	// Err is what the server or the connection said.
	Err error
}

func (e *Error) Error() string { return fmt.Sprintf("%s of %s: %v", e.Resource, e.Server, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
