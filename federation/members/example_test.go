package members_test

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/federation/members"
)

// A kubeconfig that asks to run a command is refused, and the command is not run.
func ExampleReadKubeconfig() {
	_, _, err := members.ReadKubeconfig([]byte(`
apiVersion: v1
kind: Config
current-context: paris
clusters:
- {name: paris, cluster: {server: "https://paris.example.com:6443"}}
contexts:
- {name: paris, context: {cluster: paris, user: paris}}
users:
- {name: paris, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: cloud-login, interactiveMode: Never}}}
`), time.Now())
	fmt.Println(err)
	// Output:
	// the kubeconfig asks to run a command to obtain credentials (exec), which is never done: make new credentials with evenkeel cluster join, which needs none
}
