package controlplane

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// Program names a program of the control plane.
type Program string

// The programs.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	Scheduler         Program = "kube-scheduler"
	ControllerManager Program = "kube-controller-manager"
	Kwok              Program = "kwok"
	// kubectl does not run by itself.
	kubectl Program = "kubectl"
)

// programs in the order of start.
var programs = []Program{Etcd, APIServer, Scheduler, ControllerManager, Kwok}

// stages tell kwok to keep nodes ready, and to run pods, finish those of jobs
// and remove deleted ones at once.
var stages = strings.Join([]string{
	fast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
	podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
}, "\n---\n")

// A layout says where things lie: files of one folder, and ports of loopback.
type layout struct {
	folder string
	ports  map[Program]int
	prefix string // of all keys in etcd
}

func (l layout) file(name string) string { return filepath.Join(l.folder, name) }

func (l layout) kubeconfig() string { return l.file("kubeconfig") }
func (l layout) cert() string       { return l.file("serving.crt") }
func (l layout) key() string        { return l.file("serving.key") }
func (l layout) tokens() string     { return l.file("tokens.csv") }
func (l layout) accounts() string   { return l.file("service-accounts.key") }
func (l layout) stages() string     { return l.file("stages.yaml") }
func (l layout) policy() string     { return l.file("audit-policy.json") }
func (l layout) audit() string      { return l.file("audit.log") }

// url returns the address of a program.
func (l layout) url(p Program) string {
	scheme := "https"
	if p == Etcd || p == Kwok {
		scheme = "http"
	}
	return fmt.Sprintf("%s://%s:%d", scheme, process.Loopback, l.ports[p])
}

// ready returns the URL that answers 200 as soon as the program is ready, and
// what the answer must contain.
func (l layout) ready(p Program) (url, word string) {
	switch p {
	case APIServer, Etcd:
		return l.url(p) + "/readyz", ""
	case ControllerManager:
		// It says that it is healthy before it has built its controllers, and ends
		// if the API server does not answer meanwhile. Later it lists them.
		return l.url(p) + "/healthz?verbose", "node-lifecycle-controller ok"
	default:
		return l.url(p) + "/healthz", ""
	}
}

// args returns the command line of a program. Everything is on loopback.
func (l layout) args(p Program) []string {
	switch p {
	case Etcd:
		return []string{
			"--data-dir=" + l.file("etcd"),
			"--listen-client-urls=" + l.url(Etcd), "--advertise-client-urls=" + l.url(Etcd),
			"--listen-peer-urls=http://" + process.Loopback + ":0",
			"--unsafe-no-fsync", // the data need not outlive the machine
		}
	case APIServer:
		return append(l.serving(APIServer),
			"--etcd-servers="+l.url(Etcd), "--etcd-prefix="+l.prefix,
			"--advertise-address="+process.Loopback, "--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=10.0.0.0/24",
			"--client-ca-file="+l.cert(), // nobody has such a certificate, but the others look for the setting
			"--token-auth-file="+l.tokens(), "--authorization-mode=RBAC",
			"--service-account-issuer="+l.url(APIServer),
			"--service-account-key-file="+l.accounts(), "--service-account-signing-key-file="+l.accounts(),
			// Pods need no service account then, which controllers create with some delay.
			"--disable-admission-plugins=ServiceAccount",
			"--allow-privileged",
			"--shutdown-watch-termination-grace-period=1s", // watches hold up the end of the server for a minute otherwise
		)
	case Scheduler:
		return append(l.serving(Scheduler), l.client()...)
	case ControllerManager:
		return append(append(l.serving(ControllerManager), l.client()...),
			"--service-account-private-key-file="+l.accounts(),
			// Kwok does not make pods ready again whose node was late for a moment, as kubelets do.
			"--node-monitor-grace-period=1h")
	default:
		return []string{
			"--kubeconfig=" + l.kubeconfig(), "--config=" + l.stages(),
			"--server-address=" + net.JoinHostPort(process.Loopback, fmt.Sprint(l.ports[Kwok])),
			"--node-ip=" + process.Loopback,
			"--manage-all-nodes", "--node-lease-duration-seconds=40",
		}
	}
}

// auditing returns the flags by which the API server writes down what is written.
// Lines are in the log before a call is over: that is its default, not a batch
// every now and then.
func (l layout) auditing() []string {
	const megabytes = 1 << 20 // so it is never begun anew
	return []string{
		"--audit-policy-file=" + l.policy(), "--audit-log-path=" + l.audit(), fmt.Sprintf("--audit-log-maxsize=%d", megabytes),
	}
}

// serving returns the flags by which a Kubernetes component listens.
func (l layout) serving(p Program) []string {
	return []string{
		"--bind-address=" + process.Loopback, fmt.Sprintf("--secure-port=%d", l.ports[p]),
		"--tls-cert-file=" + l.cert(), "--tls-private-key-file=" + l.key(),
	}
}

// client returns the flags by which a Kubernetes component talks to the API
// server, without holding itself back.
func (l layout) client() []string {
	return []string{
		"--kubeconfig=" + l.kubeconfig(),
		"--authentication-kubeconfig=" + l.kubeconfig(), "--authorization-kubeconfig=" + l.kubeconfig(),
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		"--leader-elect=false",
	}
}

// freePorts finds a free port of loopback for every program.
func freePorts() (map[Program]int, error) {
	found, err := process.FreePorts(len(programs))
	if err != nil {
		return nil, err
	}
	ports := map[Program]int{}
	for i, p := range programs {
		ports[p] = found[i]
	}
	return ports, nil
}
