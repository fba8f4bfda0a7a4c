package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	began       = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	leases      = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	errLostLine = errors.New("the line went dead")
)

// A server holds one ConfigMap and one Lease, with the API server's rules for versions.
type server struct {
	clock   *clocktesting.FakeClock
	text    *v1.ConfigMap // nil: there is none
	lease   *coordinationv1.Lease
	version int
	leases  int // made so far
	terms   int // of leadership so far

	// applied receives every write that changed the text.
	applied func(process string)
}

func newServer() *server { return &server{clock: clocktesting.NewFakeClock(began)} }

// lead hands the lease over; to "" it is released.
func (s *server) lead(identity string) {
	if s.lease == nil {
		s.recreateLease(identity)
		return
	}
	s.terms++
	s.lease.Spec.HolderIdentity = ptr.To(identity)
	s.lease.Spec.LeaseTransitions = ptr.To(*s.lease.Spec.LeaseTransitions + 1)
	s.lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(s.clock.Now()))
}

func (s *server) recreateLease(identity string) {
	s.leases++
	s.terms++
	s.lease = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultLease, UID: types.UID(fmt.Sprint("lease-", s.leases))},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(identity), LeaseTransitions: ptr.To[int32](0), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(s.clock.Now())),
		},
	}
}

func (s *server) stored() string {
	if s.text == nil {
		return ""
	}
	return s.text.Data[DataKey]
}

func (s *server) write(process string, m *v1.ConfigMap, create bool) error {
	switch {
	case create && s.text != nil:
		return apierrors.NewAlreadyExists(configMaps, m.Name)
	case !create && s.text == nil:
		return apierrors.NewNotFound(configMaps, m.Name)
	case !create && m.ResourceVersion != s.text.ResourceVersion:
		return apierrors.NewConflict(configMaps, m.Name, errors.New("changed"))
	}
	changed := s.stored() != m.Data[DataKey]
	s.version++
	s.text = m.DeepCopy()
	s.text.ResourceVersion = strconv.Itoa(s.version)
	if changed && s.applied != nil {
		s.applied(process)
	}
	return nil
}

// A line is the way of one process to the server, on which requests can be held up and writes lost.
type line struct {
	*fake.Clientset

	before   func() // runs, once, while a request is on its way
	after    int    // this many others
	lose     bool   // the answer of the next write, and the write comes later
	late     []func()
	denied   bool // the server refuses everything
	term     int  // in which the lease was read last
	requests []string
}

func (s *server) line(process string) *line {
	l := &line{Clientset: &fake.Clientset{}}
	react := func(verb, resource string, f func(a clienttesting.Action) (runtime.Object, error)) {
		l.PrependReactor(verb, resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
			l.requests = append(l.requests, verb+" "+resource)
			if f := l.before; f != nil && l.after <= 0 {
				l.before = nil
				f()
			}
			l.after--
			if l.denied {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("no role"))
			}
			o, err := f(a)
			return true, o, err
		})
	}
	react("get", "configmaps", func(clienttesting.Action) (runtime.Object, error) {
		if s.text == nil {
			return nil, apierrors.NewNotFound(configMaps, DefaultConfigMap)
		}
		return s.text.DeepCopy(), nil
	})
	react("get", "leases", func(clienttesting.Action) (runtime.Object, error) {
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leases, DefaultLease)
		}
		l.term = s.terms
		return s.lease.DeepCopy(), nil
	})
	write := func(m *v1.ConfigMap, create bool) (runtime.Object, error) {
		if l.lose {
			l.lose = false
			l.late = append(l.late, func() { _ = s.write(process, m, create) })
			return nil, errLostLine
		}
		if err := s.write(process, m, create); err != nil {
			return nil, err
		}
		return s.text.DeepCopy(), nil
	}
	react("create", "configmaps", func(a clienttesting.Action) (runtime.Object, error) {
		return write(a.(clienttesting.CreateAction).GetObject().(*v1.ConfigMap), true)
	})
	react("update", "configmaps", func(a clienttesting.Action) (runtime.Object, error) {
		return write(a.(clienttesting.UpdateAction).GetObject().(*v1.ConfigMap), false)
	})
	return l
}

// journal is that of a new process beside the autoscaler of this identity.
func (s *server) journal(t interface{ Fatal(...any) }, client kubernetes.Interface, process, identity, lease string) *Journal {
	o := Options{Identity: identity, Lease: lease, Clock: s.clock, Timeout: time.Minute}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	return newJournal(client, process, &o)
}
