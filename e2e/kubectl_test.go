package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// kubectl runs command lines as somebody types them in a shell, in the folder of the project and in
// a namespace of the cluster.
type kubectl struct {
	client.Client
	namespace   string
	environment []string
}

func newKubectl(t *testing.T, plane *controlplane.ControlPlane, c client.Client, namespace string) *kubectl {
	t.Helper()
	config, err := clientcmd.LoadFromFile(plane.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &kubectl{Client: c, namespace: namespace, environment: append(os.Environ(),
		"HOME="+home, "KUBECONFIG="+kubeconfig, "PATH="+filepath.Dir(plane.Kubectl)+":"+os.Getenv("PATH"))}
}

// documentedTimeout is a timeout of a documented command. A busy machine takes longer.
var documentedTimeout = regexp.MustCompile(`--timeout=(60s|2m|5m)\b`)

// run runs a command line and returns what it prints.
func (k *kubectl) run(ctx context.Context, line string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", documentedTimeout.ReplaceAllString(line, "--timeout=10m"))
	cmd.Dir, cmd.Env = "..", k.environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), nil
}
