package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/sidecar"
)

const (
	// MaxText is the size that a journal's text stays below, in bytes.
	MaxText = 512 << 10

	// DataKey is where the text lies in the ConfigMap.
	DataKey = "journal.json"
	// AnnotationLeader has the term of the lease under which the ConfigMap was claimed last.
	AnnotationLeader = "evenkeel.dev/leader"
	// AnnotationWriter names the process that claimed it, and which of its claims that was.
	AnnotationWriter = "evenkeel.dev/writer"

	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "evenkeel"
)

// Journal keeps a text in a ConfigMap that only the leading replica can read and write; the
// package's comment says how. It may be used by several goroutines; its calls come one after the
// other.
type Journal struct {
	maps            coreclient.ConfigMapInterface
	leases          coordinationclient.LeaseInterface
	namespace, name string
	lease           string // empty: no election
	identity        string
	process         string // no other process has this name
	timeout         time.Duration
	clock           clock.PassiveClock

	turn   *semaphore.Weighted // of calls
	claims int                 // tried so far
	// held is the ConfigMap as our last Load or Save has left it. It is nil if there was none, or
	// if the last one failed in a way that leaves open what is stored, or what may still come to
	// be.
	held *v1.ConfigMap
}

func newJournal(client kubernetes.Interface, process string, o *Options) *Journal {
	return &Journal{
		maps:      client.CoreV1().ConfigMaps(o.Namespace),
		leases:    client.CoordinationV1().Leases(o.Namespace),
		namespace: o.Namespace,
		name:      o.ConfigMap,
		lease:     o.Lease,
		identity:  o.Identity,
		process:   process,
		timeout:   o.Timeout,
		clock:     o.Clock,
		turn:      semaphore.NewWeighted(1),
	}
}

// String says where the text is kept.
func (j *Journal) String() string { return "ConfigMap " + j.namespace + "/" + j.name }

// Load returns the text last saved, and makes sure that nobody who has loaded before can save any
// more.
func (j *Journal) Load(ctx context.Context) (text []byte, err error) {
	err = j.inTurn(ctx, func(ctx context.Context) (err error) {
		text, err = j.load(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("loading the journal: %w", err)
	}
	return text, nil
}

func (j *Journal) load(ctx context.Context) ([]byte, error) {
	j.held = nil
	// The order counts: first the ConfigMap, then the lease.
	found, err := j.maps.Get(ctx, j.name, metav1.GetOptions{})
	exists := !apierrors.IsNotFound(err)
	if err != nil && exists {
		return nil, j.explained(err, "get")
	}
	term, err := j.term(ctx)
	if err != nil {
		return nil, err
	}
	if exists {
		found, err = j.claim(ctx, found, term)
	} else {
		found, err = j.create(ctx, term)
	}
	if err != nil {
		return nil, err
	}
	j.held = found
	return []byte(found.Data[DataKey]), nil
}

// create makes the ConfigMap, claimed. It is made here and not by the first Save so that the
// absence of a ConfigMap can be claimed like any other state.
func (j *Journal) create(ctx context.Context, term string) (*v1.ConfigMap, error) {
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: j.name}}
	j.mark(m, term)
	m, err := j.maps.Create(ctx, m, metav1.CreateOptions{FieldManager: userAgent})
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("%w: somebody made it at the same time: %w", ErrStale, err)
	}
	return m, j.explained(err, "create")
}

func (j *Journal) claim(ctx context.Context, found *v1.ConfigMap, term string) (*v1.ConfigMap, error) {
	j.mark(found, term)
	return j.update(ctx, found)
}

// mark puts this process's mark on m. No mark is used twice: a write that changes nothing makes no
// new version.
func (j *Journal) mark(m *v1.ConfigMap, term string) {
	j.claims++
	metav1.SetMetaDataLabel(&m.ObjectMeta, labelManagedBy, managedBy)
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, AnnotationLeader, term)
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, AnnotationWriter, j.process+"/"+strconv.Itoa(j.claims))
}

// Save replaces the text. It answers ErrStale, wrapped, unless everything since the last Load of
// this process was written by this process, in the same term of leadership. Any error means that
// the text may not be there; after one that is not ErrNotLeader, Load comes first.
func (j *Journal) Save(ctx context.Context, text []byte) error {
	err := checkText(text)
	if err == nil {
		err = j.inTurn(ctx, func(ctx context.Context) error { return j.save(ctx, text) })
	}
	if err != nil {
		return fmt.Errorf("saving the journal: %w", err)
	}
	return nil
}

func (j *Journal) save(ctx context.Context, text []byte) error {
	term, err := j.term(ctx)
	if err != nil {
		return err
	}
	if j.held == nil {
		return fmt.Errorf("%w: what is stored is not known", ErrStale)
	}
	next := j.held.DeepCopy()
	j.held = nil
	if next.Annotations[AnnotationLeader] != term {
		return fmt.Errorf("%w: the leadership was lost and won again", ErrStale)
	}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	next.Data[DataKey] = string(text)
	next, err = j.update(ctx, next)
	if err != nil {
		return err
	}
	j.held = next
	return nil
}

// update writes m over the version it was read at.
func (j *Journal) update(ctx context.Context, m *v1.ConfigMap) (*v1.ConfigMap, error) {
	m, err := j.maps.Update(ctx, m, metav1.UpdateOptions{FieldManager: userAgent})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: somebody else has changed it: %w", ErrStale, err)
	}
	return m, j.explained(err, "update")
}

// term names the current term of leadership: it differs from that of every other holder, and of
// every other lease. It fails with ErrNotLeader where another replica leads or none; without a lease
// there is no election that could be lost. The lease is read from the API server's storage, not
// from anybody's cache.
func (j *Journal) term(ctx context.Context) (string, error) {
	if j.lease == "" {
		return "no election", nil
	}
	lease, err := j.leases.Get(ctx, j.lease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no Lease %s, as if Cluster Autoscaler elected no leader", j.lease)
	case err != nil:
		return "", explained(err, "get", "Lease "+j.namespace+"/"+j.lease)
	}
	return termOf(lease, j.identity, j.clock.Now())
}

func termOf(lease *coordinationv1.Lease, identity string, now time.Time) (string, error) {
	spec := lease.Spec
	holder := ptr.Deref(spec.HolderIdentity, "")
	if holder == "" {
		return "", fmt.Errorf("%w: nobody holds the Lease %s", sidecar.ErrNotLeader, lease.Name)
	}
	if holder != identity {
		return "", fmt.Errorf("%w: %s holds the Lease %s, and we are %s", sidecar.ErrNotLeader, holder, lease.Name, identity)
	}
	valid := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second
	if spec.RenewTime == nil || !now.Before(spec.RenewTime.Add(valid)) {
		return "", fmt.Errorf("%w: the Lease %s has expired", sidecar.ErrNotLeader, lease.Name)
	}
	return fmt.Sprintf("%s/%d/%s", lease.UID, ptr.Deref(spec.LeaseTransitions, 0), holder), nil
}

// inTurn makes a call after those before it, and bounds it.
func (j *Journal) inTurn(ctx context.Context, call func(context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, j.timeout, fmt.Errorf("no answer within %v: %w", j.timeout, context.DeadlineExceeded))
	defer cancel()
	if j.turn.Acquire(bounded, 1) != nil {
		return context.Cause(bounded)
	}
	defer j.turn.Release(1)
	return call(bounded)
}

func (j *Journal) explained(err error, verb string) error { return explained(err, verb, j.String()) }

// checkText refuses what does not come back as it was.
func checkText(text []byte) error {
	if len(text) >= MaxText {
		return fmt.Errorf("a text of %d bytes is too long: it must stay below %d", len(text), MaxText)
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("the text is not valid UTF-8")
	}
	return nil
}
