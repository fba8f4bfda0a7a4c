package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errChanged is returned by a pass if another replica was faster: everything must be read again.
var errChanged = errors.New("something was changed since it was read")

// passes is how often a pass that other replicas were faster than is tried at once.
const passes = 8

// Keeper keeps the certificate and the configurations of webhooks.
type Keeper struct {
	client   client.WithWatch
	options  Options
	rotation rotation
	wake     chan struct{}

	syncing   sync.Mutex           // held during a pass; it guards what follows
	unneeded  map[string]time.Time // selected namespaces without need, since when
	last      map[string]string    // what each configuration was last completed with
	published string               // the authorities that all configurations have
	since     time.Time            // since when they do

	mu        sync.Mutex
	held      *state // what is served
	announced map[string]time.Time
	selecting []string
	found     findings
	begun     bool   // a pass has found out whether the API server may call
	logged    string // the last problem in the log
}

// findings are what the last pass found.
type findings struct {
	done        bool
	called      bool  // the API server may call this program
	certificate error // why the Secret is of no use
	problem     string
}

// New returns a Keeper. It writes with c, which must not depend on a leader.
func New(c client.WithWatch, o Options) (*Keeper, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	hosts := append([]string{fmt.Sprintf("%s.%s.svc", o.Service, o.Namespace)}, o.Hosts...)
	return &Keeper{
		client: c, options: o, rotation: rotation{hosts: hosts, lifetime: o.Lifetime}, wake: make(chan struct{}, 1),
		last: map[string]string{}, announced: map[string]time.Time{},
	}, nil
}

// Run keeps the certificate and the configurations until ctx is done.
func (k *Keeper) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	watch := func(list client.ObjectList, o ...client.ListOption) {
		watches.Go(func() { k.watch(ctx, list, o...) })
	}
	if k.options.Files.Cert == "" {
		watch(&v1.SecretList{}, client.InNamespace(k.options.Namespace), client.MatchingFields{"metadata.name": k.options.Secret})
	}
	watch(&admissionv1.MutatingWebhookConfigurationList{}, client.MatchingFields{"metadata.name": k.options.Configuration})
	watch(&admissionv1.ValidatingWebhookConfigurationList{}, client.MatchingFields{"metadata.name": k.options.Configuration})
	for {
		again := k.options.Clock.NewTimer(k.sync(ctx))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-k.wake:
			again.Stop()
		case <-again.C():
		}
	}
}

// watch has each change of an object noticed. If it may not be watched, it is polled.
func (k *Keeper) watch(ctx context.Context, list client.ObjectList, o ...client.ListOption) {
	for ctx.Err() == nil {
		if changes, err := k.client.Watch(ctx, list, o...); err == nil {
			end := context.AfterFunc(ctx, changes.Stop)
			for range changes.ResultChan() {
				k.Wake()
			}
			end()
			changes.Stop()
		}
		pause := k.options.Clock.NewTimer(retryInterval)
		select {
		case <-ctx.Done():
		case <-pause.C():
		}
		pause.Stop()
	}
}

// Wake has everything read again at once. It must be called when the namespaces may have changed.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default: // it is awake
	}
}

// sync passes until no other replica was faster, and returns how soon it must pass again.
func (k *Keeper) sync(ctx context.Context) time.Duration {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	return k.passUntilQuiet(ctx)
}

func (k *Keeper) passUntilQuiet(ctx context.Context) time.Duration {
	for range passes {
		switch again, err := k.pass(ctx); {
		case ctx.Err() != nil:
			return pollInterval
		case errors.Is(err, errChanged):
		case err != nil:
			return retryInterval
		default:
			return again
		}
	}
	return retryInterval
}

// pass does what is due now: see the doc of the package for the order.
func (k *Keeper) pass(ctx context.Context) (again time.Duration, err error) {
	both := k.configurations(ctx)
	authorities, again, certificateErr := k.certificate(ctx, known(both))
	if errors.Is(certificateErr, errChanged) {
		return 0, certificateErr
	}
	names, namesErr := k.namespaces(ctx, both)
	if err := k.write(ctx, both, authorities, names); err != nil {
		return 0, err
	}
	problems := []error{certificateErr, namesErr}
	found := findings{done: true, certificate: certificateErr}
	complete := true
	for _, c := range both {
		problems = append(problems, c.problem)
		found.done, found.called = found.done && c.known, found.called || c.exists
		complete = complete && c.exists && c.problem == nil
	}
	if certificateErr == nil {
		k.publish(both, authorities)
	}
	if !complete {
		names = nil
	}
	err = errors.Join(problems...)
	k.report(found, err, names)
	k.options.Metrics.see(both, len(names), certificateErr)
	return again, err
}

// report makes public what a pass found. A problem is logged when two passes had it, because some end
// by themselves while the program starts.
func (k *Keeper) report(l findings, err error, names []string) {
	if err != nil {
		l.problem = err.Error()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lasts := l.problem == k.found.problem
	k.found, k.selecting, k.begun = l, names, k.begun || l.done
	switch {
	case l.problem == k.logged:
	case err == nil:
		k.options.Log.Info("Webhooks are complete again")
		k.logged = ""
	case lasts:
		k.options.Log.Error(err, "Webhooks are not complete, everything else continues")
		k.logged = l.problem
	}
}

// publish notes since when all configurations have the authorities.
func (k *Keeper) publish(both []*configuration, authorities []byte) {
	for _, c := range both {
		if c.unsure {
			k.published = ""
			return
		}
	}
	if k.published != string(authorities) {
		k.published, k.since = string(authorities), k.options.Clock.Now()
	}
}

// certificate brings the Secret one step further, serves what it says, and returns the authorities that
// the API server must trust.
func (k *Keeper) certificate(ctx context.Context, known []*x509.Certificate) (authorities []byte, again time.Duration, err error) {
	if k.options.Files.Cert != "" {
		authorities, err = k.given()
		return authorities, pollInterval, err
	}
	secret := &v1.Secret{}
	err = k.client.Get(ctx, client.ObjectKey{Namespace: k.options.Namespace, Name: k.options.Secret}, secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, 0, fmt.Errorf("reading Secret %s/%s with the certificate: %w", k.options.Namespace, k.options.Secret, err)
	}
	exists := err == nil
	var stored *state
	if exists {
		if stored, err = parseState(secret); err != nil {
			k.options.Log.Error(err, "The certificate in the Secret is not usable and is replaced", "secret", k.options.Secret)
		}
	}
	now := k.options.Clock.Now()
	noticed := stored != nil && k.published == string(stored.bundle()) && now.Sub(k.since) >= k.rotation.propagation()
	next, step, err := k.rotation.advance(stored, k.serving(), known, noticed, now)
	if err != nil {
		return nil, 0, err
	}
	if step != stepNone {
		next.store(secret)
		if err := k.save(ctx, secret, exists); err != nil {
			return nil, 0, err
		}
		k.options.Log.Info("Webhooks: "+step, "secret", k.options.Secret, "expires", next.current.expires())
	}
	if step == stepMade || step == stepReplaced {
		k.options.Metrics.rotations.Inc()
	}
	k.mu.Lock()
	k.held = next
	k.mu.Unlock()
	return next.bundle(), k.rotation.again(next, now, pollInterval), nil
}

// given are the authorities of a certificate from elsewhere, nil if they are not kept here.
func (k *Keeper) given() ([]byte, error) {
	if k.options.Files.CACert == "" {
		return nil, nil
	}
	text, err := os.ReadFile(k.options.Files.CACert)
	if err != nil {
		return nil, err
	}
	if _, err := cert.ParseCertsPEM(text); err != nil {
		return nil, fmt.Errorf("CA certificate %s: %w", k.options.Files.CACert, err)
	}
	return bytes.TrimSpace(text), nil
}

// save creates or updates the Secret. It returns errChanged if another replica was faster.
func (k *Keeper) save(ctx context.Context, secret *v1.Secret, exists bool) (err error) {
	secret.Namespace, secret.Name = k.options.Namespace, k.options.Secret
	if exists {
		err = k.client.Update(ctx, secret)
	} else {
		secret.ObjectMeta = metav1.ObjectMeta{
			Namespace: k.options.Namespace, Name: k.options.Secret, Annotations: secret.Annotations,
			Labels: map[string]string{"app.kubernetes.io/name": "evenkeel"},
		}
		secret.Type = v1.SecretTypeTLS
		err = k.client.Create(ctx, secret)
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || exists && apierrors.IsNotFound(err):
		return errChanged
	case err != nil:
		return fmt.Errorf("storing the certificate in Secret %s/%s: %w", k.options.Namespace, k.options.Secret, err)
	}
	return nil
}

func (k *Keeper) serving() *state {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

// Certificate is what to present at a handshake; nil until there is one.
func (k *Keeper) Certificate() *tls.Certificate {
	if held := k.serving(); held != nil {
		return held.current.tls
	}
	return nil
}

// Ready fails while the API server may call this program and there is no valid certificate to present, and until the
// configurations were completed once: a rollout is over when the webhooks are called.
// Nobody calls it while no configuration is installed: that is no reason not to do everything else.
func (k *Keeper) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.options.Files.Cert != "" {
		return nil // the server of the files knows
	}
	if k.begun && k.held != nil && k.options.Clock.Now().Before(k.held.current.expires()) {
		return nil
	}
	switch {
	case !k.found.done:
		return errors.New("it is not known yet whether the webhooks are installed")
	case !k.found.called:
		return nil
	case k.found.certificate != nil:
		return k.found.certificate
	}
	return errors.New("the certificate has expired")
}

// Cover has the API server send the requests of a namespace, and returns when it is known to. It must be
// called before something in the namespace needs the webhooks. A namespace that needs none after a while
// is forgotten. One that does not exist is refused: not only the API server can call a webhook, and names that are
// made up would fill the configurations until the API server takes them no more.
func (k *Keeper) Cover(ctx context.Context, namespace string) error {
	if namespace == k.options.Namespace || slices.Contains(k.options.Exempt, namespace) {
		return fmt.Errorf("namespace %s is exempt from webhooks", namespace)
	}
	var found v1.NamespaceList // to list namespaces is a right that the controllers have in any case, unlike to get one
	if err := k.client.List(ctx, &found, client.MatchingFields{metav1.ObjectNameField: namespace}); err != nil {
		return fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if len(found.Items) == 0 {
		return fmt.Errorf("namespace %q does not exist", namespace)
	}
	k.mu.Lock()
	k.announced[namespace] = k.options.Clock.Now()
	k.mu.Unlock()
	k.syncing.Lock() // while this waits, another call may cover the namespace
	defer k.syncing.Unlock()
	if !k.covers(namespace) {
		k.passUntilQuiet(ctx)
	}
	if !k.covers(namespace) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return fmt.Errorf("the API server does not send the pods of namespace %s yet: %s", namespace, k.found.problem)
	}
	return nil
}

func (k *Keeper) covers(namespace string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, found := slices.BinarySearch(k.selecting, namespace)
	return found
}
