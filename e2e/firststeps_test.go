package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// A newcomer: the commands of the README, as they are written, in a cluster that has nothing of evenkeel. They are five at the
// most, and in the end there is an object that is balanced, and a picture.
func TestFirstFiveMinutes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Five commands in a cluster\n")
	_, block, _ := strings.Cut(section, "\n```sh\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	commands := strings.Split(block, "\n")
	if len(commands) < 3 || len(commands) > 5 {
		t.Fatalf("the commands are %q", commands)
	}
	plane := controlplane.Start(t, controlplane.Options{})
	c := clientOf(t, plane)
	helm, err := buildHelm()
	if err != nil {
		t.Fatal(err)
	}
	k := newKubectl(t, plane, c, metav1.NamespaceDefault)
	k.environment = append(k.environment, "PATH="+strings.Join([]string{filepath.Dir(helm), evenkeel.Folder(t), filepath.Dir(plane.Kubectl),
		os.Getenv("PATH")}, ":"))
	picture := filepath.Join(t.TempDir(), "report.html")
	ran := make(chan error, 1)
	go func() { ran <- k.follow(ctx, t, commands, picture) }()
	startsWhereItIsInstalled(ctx, t, plane, c)
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("there is no picture: %v", err)
	}
	for _, name := range []string{"web-a", "web-b", "web-c"} {
		var d appsv1.Deployment
		if err := plane.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, &d); err != nil || *d.Spec.Replicas != 4 {
			t.Errorf("%s: %v replicas, %v", name, d.Spec.Replicas, err)
		}
	}
}

// follow runs commands one after the other, and shows how long each took. A picture is written where it is asked for.
func (k *kubectl) follow(ctx context.Context, t *testing.T, commands []string, picture string) error {
	var all time.Duration
	for _, command := range commands {
		begin := time.Now()
		lines, err := k.run(ctx, strings.Replace(command, "report.html", picture, 1))
		if err != nil {
			return err
		}
		took := time.Since(begin)
		all += took
		t.Logf("%.1f s: %s\n%s", took.Seconds(), command, strings.Join(lines, "\n"))
	}
	t.Logf("%.1f s in all", all.Seconds())
	return nil
}
