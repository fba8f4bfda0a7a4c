// Package controlplane runs a real Kubernetes control plane for tests: etcd,
// kube-apiserver, kube-scheduler and kube-controller-manager, and kwok, which
// plays the kubelets of any number of nodes. The programs are ordinary processes
// on loopback, compiled from the versions that the module "programs" pins. They
// start in seconds once they are built.
//
// The package knows nothing of node groups, autoscalers or clouds.
package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// Options configure a control plane. The zero value is one with defaults.
type Options struct {
	// Args are further command-line flags of programs. They win over those that
	// Start gives.
	Args map[Program][]string
	// Audit has the API server write down every write, for ControlPlane.Writes.
	Audit bool
	// AuditReads has it write down every read as well, for ControlPlane.Calls. That is much.
	AuditReads bool
	// Name sets a control plane apart from others of the test, in the names of logs
	// and within the etcd that they share.
	Name string
	// Beside is a control plane whose etcd is used, too. It must outlive this one.
	Beside *ControlPlane
	// Bare leaves out the scheduler, the controllers and kwok: what is stored stays as
	// it is.
	Bare bool
}

// ControlPlane is a control plane that runs. Its methods may be called from
// several goroutines, except for Restart of one program and those of its Process.
type ControlPlane struct {
	// Config reaches the API server as a user who may do everything, as often as
	// it likes. It stays valid when the API server restarts.
	Config *rest.Config
	// Kubeconfig is the path of a file that says the same.
	Kubeconfig string
	// Kubectl is the path of the kubectl that belongs to it.
	Kubectl string
	// Client uses Config. It knows the types of client-go, and does not cache.
	Client client.WithWatch

	layout    layout
	programs  []Program // that run for it alone, in the order of start
	processes map[Program]*process.Process
	probe     *http.Client
}

// Start builds what is not built yet and starts a control plane, which lives as
// long as the test. It is ready when Start returns: the API server answers, the
// scheduler and the controllers run, and kwok looks after nodes. Logs lie in the
// test's artifact folder, a file for each program; if the test fails, their ends
// are shown. It needs a POSIX system.
func Start(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	c := build(t, o)
	if err := c.launchAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// StartBeside starts control planes with the options of a first one, by name. They
// use its etcd, and start at the same time.
func StartBeside(t testing.TB, first *ControlPlane, o Options, names ...string) []*ControlPlane {
	t.Helper()
	var planes []*ControlPlane
	for _, name := range names {
		o.Name, o.Beside = name, first
		planes = append(planes, build(t, o))
	}
	errs := make([]error, len(planes))
	var starting sync.WaitGroup
	for i, c := range planes {
		starting.Go(func() { errs[i] = c.launchAll(t.Context()) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return planes
}

// build makes a control plane that does not run yet, and ends with the test.
func build(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	binaries, err := Build(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	c := &ControlPlane{
		Kubectl: filepath.Join(binaries, string(kubectl)),
		layout:  layout{folder: t.TempDir(), ports: ports, prefix: "/registry"}, processes: map[Program]*process.Process{},
		programs: programs,
	}
	if o.Beside != nil {
		c.layout.prefix, c.programs = "/"+o.Name, programs[1:]
		c.layout.ports[Etcd] = o.Beside.layout.ports[Etcd]
	}
	if o.Bare {
		c.programs = slices.DeleteFunc(slices.Clone(c.programs), func(p Program) bool { return p != Etcd && p != APIServer })
	}
	policy := auditPolicy
	if o.AuditReads {
		policy = auditReadsPolicy
	}
	if err := c.prepare(policy); err != nil {
		t.Fatalf("preparing the control plane: %v", err)
	}
	for _, p := range c.programs {
		ready, word := c.layout.ready(p)
		args := c.layout.args(p)
		if (o.Audit || o.AuditReads) && p == APIServer {
			args = append(args, c.layout.auditing()...)
		}
		name := strings.TrimPrefix(o.Name+"-"+string(p), "-")
		c.processes[p] = &process.Process{
			Name:  name,
			Path:  filepath.Join(binaries, string(p)),
			Args:  append(args, o.Args[p]...),
			Home:  c.layout.folder,
			Env:   []string{"GOGC=400"}, // a sixth less processor time, for memory that there is
			Log:   filepath.Join(t.ArtifactDir(), name+".log"),
			Ready: process.AnswersWith(c.probe, ready, word),
		}
	}
	t.Cleanup(func() {
		if err := c.stopAll(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			c.showLogs(t)
		}
	})
	return c
}

// prepare writes the files that the programs read, one of them with a policy of the audit log, and builds the clients.
func (c *ControlPlane) prepare(audit string) error {
	own, err := shared()
	if err != nil {
		return err
	}
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	token := rand.Text()
	c.Kubeconfig = c.layout.kubeconfig()
	c.Config = &rest.Config{
		Host:            c.layout.url(APIServer),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: own.authority},
		QPS:             -1,
	}
	kubeconfig, err := clientcmd.Write(kubeconfigOf(c.Config))
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		c.layout.cert():       own.Cert,
		c.layout.key():        own.Key,
		c.layout.accounts():   accounts,
		c.layout.tokens():     []byte(token + `,admin,admin,"system:masters"` + "\n"),
		c.layout.kubeconfig(): kubeconfig,
		c.layout.stages():     []byte(stages),
		c.layout.policy():     []byte(audit),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	roots, err := cert.NewPoolFromBytes(own.authority)
	if err != nil {
		return err
	}
	c.probe = &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	return nil
}

func kubeconfigOf(c *rest.Config) clientcmdapi.Config {
	const name = "e2e"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			Token: c.BearerToken, Impersonate: c.Impersonate.UserName, ImpersonateGroups: c.Impersonate.Groups,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}

// KubeconfigAs writes a kubeconfig, a file of the test, for a program that has the
// rights of another user and no more.
func (c *ControlPlane) KubeconfigAs(t testing.TB, user string, groups ...string) string {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(config), path); err != nil {
		t.Fatalf("writing a kubeconfig for %s: %v", user, err)
	}
	return path
}

// launchAll starts every program as soon as what it needs is ready.
func (c *ControlPlane) launchAll(ctx context.Context) error {
	for _, p := range []Program{Etcd, APIServer} {
		if c.processes[p] == nil {
			continue // it runs for another control plane
		}
		if err := c.processes[p].Launch(ctx); err != nil {
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(c.programs), func(p Program) bool { return p == Etcd || p == APIServer })
	for _, p := range rest {
		if err := c.processes[p].Start(); err != nil {
			return err
		}
	}
	for _, p := range rest {
		if err := c.processes[p].Await(ctx); err != nil {
			return err
		}
	}
	cl, err := client.NewWithWatch(c.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	c.Client = cl
	return nil
}

func (c *ControlPlane) stopAll() error {
	var errs []error
	for _, p := range slices.Backward(c.programs) {
		errs = append(errs, c.processes[p].Stop())
	}
	return errors.Join(errs...)
}

// Process is a program of the control plane. What it stored stays when it ends.
func (c *ControlPlane) Process(p Program) *process.Process { return c.processes[p] }

// Restart stops a program and launches it again. After a restart of kwok, nodes
// it knew before go on only after their leases have run out, 40 seconds later;
// after one of etcd, the API server takes some 10 seconds to come back.
func (c *ControlPlane) Restart(ctx context.Context, p Program) error {
	if err := c.processes[p].Stop(); err != nil {
		return err
	}
	return c.processes[p].Launch(ctx)
}

// Save keeps a copy of what etcd has stored, for Restore. The API server does not answer meanwhile.
func (c *ControlPlane) Save(ctx context.Context) error {
	return c.copied(ctx, c.layout.file("etcd"), c.layout.file("saved"))
}

// Restore puts back what Save has kept: what was stored since is lost.
func (c *ControlPlane) Restore(ctx context.Context) error {
	return c.copied(ctx, c.layout.file("saved"), c.layout.file("etcd"))
}

// copied replaces a folder of etcd while it and the API server are stopped.
func (c *ControlPlane) copied(ctx context.Context, from, to string) error {
	if err := errors.Join(c.processes[APIServer].Stop(), c.processes[Etcd].Stop(), os.RemoveAll(to)); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copying the data of etcd: %w", err)
	}
	if err := c.processes[Etcd].Launch(ctx); err != nil {
		return err
	}
	return c.processes[APIServer].Launch(ctx)
}

func (c *ControlPlane) showLogs(t testing.TB) {
	t.Helper()
	for _, p := range c.programs {
		t.Logf("the end of %s:\n%s", c.processes[p].Log, c.processes[p].Tail(15))
	}
}
