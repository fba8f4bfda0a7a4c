package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/document/live"
)

var pods = live.Resource{Name: "pods", Path: "/api/v1/pods"}

// An apiServer serves pods in pages, as the API server does: the items of a list do not repeat its
// kind.
type apiServer struct {
	pods  int
	sizes []int // of the pages served

	expires bool // the second page once
	denies  bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("continue"))
	switch {
	case r.Method != http.MethodGet || r.URL.Path != pods.Path || err != nil:
		s.answer(w, metav1.Status{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest})
		return
	case s.denies:
		s.answer(w, metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `User "jane" cannot list resource "pods"`})
		return
	case s.expires && from > 0:
		s.expires = false
		s.answer(w, metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
			ListMeta: metav1.ListMeta{Continue: strconv.Itoa(from)}})
		return
	}
	to := min(from+limit, s.pods)
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for i := from; i < to; i++ {
		list.Items = append(list.Items, v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%04d", i)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
		})
	}
	if to < s.pods {
		list.Continue = strconv.Itoa(to)
	}
	s.sizes = append(s.sizes, len(list.Items))
	s.write(w, http.StatusOK, list)
}

func (s *apiServer) answer(w http.ResponseWriter, status metav1.Status) {
	status.TypeMeta, status.Status = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, metav1.StatusFailure
	s.write(w, int(status.Code), status)
}

func (*apiServer) write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who has gone needs no answer
}

func read(ctx context.Context, t *testing.T, s *apiServer) (names []string, server string, err error) {
	t.Helper()
	http := httptest.NewServer(s)
	defer http.Close()
	reader, err := live.New(&rest.Config{Host: http.URL})
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range reader.Objects(ctx, pods) {
		if err != nil {
			return names, http.URL, err
		}
		if _, ok := item.Object.(*v1.Pod); !ok || item.Kind != "Pod" || item.APIVersion != "v1" || item.Namespace != "default" {
			t.Fatalf("got %+v", item)
		}
		names = append(names, item.Name)
	}
	return names, http.URL, nil
}

func wanted(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("web-%04d", i))
	}
	return names
}

func TestListsAreReadInPages(t *testing.T) {
	for pods, sizes := range map[int][]int{0: {0}, 1: {1}, 500: {500}, 501: {500, 1}, 1203: {500, 500, 203}} {
		s := &apiServer{pods: pods}
		names, _, err := read(t.Context(), t, s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted(pods), names); diff != "" {
			t.Errorf("%d pods (-want +got):\n%s", pods, diff)
		}
		if diff := cmp.Diff(sizes, s.sizes); diff != "" {
			t.Errorf("pages of %d pods (-want +got):\n%s", pods, diff)
		}
	}
}

// The state that pages are of is kept for some minutes only. What the server then offers is taken.
func TestAListWhosePagesExpireGoesOn(t *testing.T) {
	names, _, err := read(t.Context(), t, &apiServer{pods: 1100, expires: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted(1100), names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMissingRightNamesServerAndResource(t *testing.T) {
	_, server, err := read(t.Context(), t, &apiServer{denies: true})
	var refused *live.Error
	if !errors.As(err, &refused) || !apierrors.IsForbidden(err) || refused.Server != server || refused.Resource != "pods" {
		t.Fatalf("got %v", err)
	}
	if want := "pods of " + server + `: User "jane" cannot list resource "pods"`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := read(ctx, t, &apiServer{pods: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// An object that cannot be read is reported as for a file.
func TestAnObjectThatCannotBeReadIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"name":"c"}],"priority":"high"}}]}`)
	}))
	defer server.Close()
	reader, err := live.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range reader.Objects(t.Context(), pods) {
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "items[0] (Pod default/web): spec.priority") {
			t.Errorf("got %v", err)
		}
	}
}
