package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/loopback"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// conformanceCloud is a cloud whose nodes take a moment, with a group whose orders stay
// unfulfilled.
func conformanceCloud(t *testing.T) *fake.Cloud {
	t.Helper()
	group := func(id string, size int) fake.Group {
		return fake.Group{ID: id, MaxSize: 10, Size: size, BootTime: 30 * time.Millisecond, TerminationTime: 30 * time.Millisecond,
			Template: cloudprovider.Template{Node: &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: id}},
				Status: v1.NodeStatus{Capacity: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
				}},
			}}}
	}
	cloud, err := fake.New(fake.Config{
		Groups:    []fake.Group{group("a", 1), group("b", 2), group("starved", 0)},
		StockOuts: []v1alpha1.StockOut{{Groups: []string{"starved"}, Mode: v1alpha1.StockOutSilent}},
	}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

// runConformance runs the command and gives its exit code and what it prints.
func runConformance(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"conformance", "--timeout", "5s", "--node-timeout", "5s"}, args...), strings.NewReader(stdin), &out,
		&errs)
	return code, out.String(), errs.String()
}

func conformanceRows(t *testing.T, stdout string) *conformanceReport {
	t.Helper()
	report := &conformanceReport{}
	if err := json.Unmarshal([]byte(stdout), report); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return report
}

// TestConformanceOfServedFake: all rules pass, and sizes are what they were.
func TestConformanceOfServedFake(t *testing.T) {
	cloud := conformanceCloud(t)
	nodes, err := json.Marshal(v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
		Items: values(cloud.RegisteredNodes())})
	if err != nil {
		t.Fatal(err)
	}
	address := loopback.Listen(t, externalgrpc.NewServer(cloud).Register)
	code, stdout, stderr := runConformance(t, string(nodes), "--address", address, "-o", "json", "--nodes", "-",
		"--group", "a", "--group", "starved")
	if code != exitSuccess || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	report := conformanceRows(t, stdout)
	for _, row := range report.Rules {
		if row.Result != "Passed" && row.Rule != "options-durations" { // no group has options
			t.Errorf("%+v", row)
		}
	}
	if report.Summary.Passed != len(conformanceRules(nil))-1 || report.Kind != "ConformanceReport" {
		t.Errorf("%+v", report.Summary)
	}
	for id, want := range map[string]int{"a": 1, "b": 2, "starved": 0} {
		if size, err := cloud.TargetSize(t.Context(), id); err != nil || size != want {
			t.Errorf("%s has %d nodes (error %v), want %d", id, size, err, want)
		}
	}
}

func values(nodes []*v1.Node) []v1.Node {
	out := make([]v1.Node, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, *n)
	}
	return out
}

// TestConformanceReadOnlyChangesNothing: neither sizes nor calls that could change them.
func TestConformanceReadOnlyChangesNothing(t *testing.T) {
	cloud := conformanceCloud(t)
	code, stdout, stderr := runConformance(t, "", "--read-only", "--address", loopback.Listen(t, externalgrpc.NewServer(cloud).Register))
	if code != exitSuccess || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, call := range cloud.Calls() {
		if slices.Contains([]string{fake.MethodIncreaseSize, fake.MethodDecreaseTargetSize, fake.MethodDeleteNodes}, call.Method) {
			t.Errorf("%+v", call)
		}
	}
	for _, want := range []string{
		"RULE                         RESULT    REASON\n",
		"listing-stable               Passed    <none>\n",
		"increase-stays               Skipped   changes sizes, but --read-only was given\n",
		"instances-match-nodes        Skipped   node objects cannot be read",
		" 0 failed, ",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// TestConformanceFails: a failed rule is exit code 1, in all formats.
func TestConformanceFails(t *testing.T) {
	address := loopback.Listen(t, externalgrpc.NewServer(conformanceCloud(t)).Register, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			answer, err := handler(ctx, request)
			if options, ok := request.(*externalgrpcpb.NodeGroupAutoscalingOptionsRequest); ok && status.Code(err) == codes.Unimplemented {
				return &externalgrpcpb.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: options.GetDefaults()}, nil
			}
			return answer, err
		}))
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		code, stdout, stderr := runConformance(t, "", "--read-only", "--address", address, "-o", format)
		if code != exitFailure || stderr != "" || !strings.Contains(stdout, "answer Unimplemented, or leave the options out") {
			t.Errorf("-o %s: exit code %d, %s%s", format, code, stderr, stdout)
		}
		if format == "json" {
			for _, row := range conformanceRows(t, stdout).Rules {
				if failed := row.Result == "Failed"; failed != (row.Rule == "options-left-out") {
					t.Errorf("%+v", row)
				}
			}
		}
	}
}

// TestConformanceOverTLS: with the files that Cluster Autoscaler is given for its external cloud
// provider.
func TestConformanceOverTLS(t *testing.T) {
	dir := t.TempDir()
	if code := run(t.Context(), []string{"certs", "--dir", dir, "--host", "127.0.0.1"}, strings.NewReader(""), &bytes.Buffer{},
		&bytes.Buffer{}); code != exitSuccess {
		t.Fatal(code)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	server, err := serving.Listen(t.Context(), "127.0.0.1:0",
		serving.Options{Files: serving.Files{Cert: file("server.crt"), Key: file("server.key"), CACert: file("ca.crt")}})
	if err != nil {
		t.Fatal(err)
	}
	externalgrpc.NewServer(conformanceCloud(t)).Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	code, _, stderr := runConformance(t, "", "--read-only", "--address", server.Address(), "--cert", file("client.crt"), "--key",
		file("client.key"), "--cacert", file("ca.crt"))
	if code != exitSuccess {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no TLS":                {nil, exitFailure, "no connection to " + server.Address()},
		"no client certificate": {[]string{"--cacert", file("ca.crt")}, exitFailure, "no connection to "},
		"half a pair":           {[]string{"--cert", file("client.crt")}, exitUsage, "a certificate and its key belong together"},
		"another's key":         {[]string{"--cert", file("client.crt"), "--key", file("ca.key")}, exitUsage, "private key does not match"},
		"no such file":          {[]string{"--cacert", file("none.crt")}, exitUsage, "none.crt"},
	} {
		code, stdout, stderr := runConformance(t, "", append([]string{"--address", server.Address()}, test.args...)...)
		if code != test.code || stdout != "" || !strings.HasPrefix(stderr, "error: ") || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
}

// TestConformanceWrongUsage: what only a server can refuse. The rest is in
// testdata/script/conformance.txtar.
func TestConformanceWrongUsage(t *testing.T) {
	address := loopback.Listen(t, externalgrpc.NewServer(conformanceCloud(t)).Register)
	code, _, stderr := runConformance(t, "", "--address", address, "--group", "c")
	if code != exitUsage || stderr != "error: the server has no node group \"c\" (its groups are a, b, starved)\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestConformanceInterrupted: an interrupt ends it without a result.
func TestConformanceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := loopback.Listen(t, externalgrpc.NewServer(conformanceCloud(t)).Register, grpc.ChainUnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if _, ok := request.(*externalgrpcpb.RefreshRequest); ok {
				cancel()
				<-ctx.Done()
			}
			return handler(ctx, request)
		}))
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"conformance", "--read-only", "--address", address}, os.Stdin, &out, &errs); code != exitFailure ||
		out.Len() > 0 || errs.String() != "error: interrupted\n" {
		t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
	}
}

// TestDocumentedConformance: docs/conformance.md has the table that the rules make of themselves.
// -update writes it.
func TestDocumentedConformance(t *testing.T) {
	inRoot(t)
	p := readPage(t, "docs/conformance.md")
	lines := []string{"| Rule | Changes sizes | What is required |", "|---|---|---|"}
	for _, rule := range conformanceRules(nil) {
		changes := ""
		if rule.Reach == conformance.Changes {
			changes = "yes"
		}
		lines = append(lines, fmt.Sprintf("| %#q | %s | %s |", rule.Name, changes, rule.About))
	}
	if changed := p.replaceTable(t, lines); changed && *update {
		p.write(t)
	} else if changed {
		t.Fatal("the table of rules is stale: run go test ./cmd/evenkeel -run Documented -update")
	}
}

// replaceTable puts a table in place of the one with the same head, and reports whether that
// changes the page.
func (p *page) replaceTable(t *testing.T, want []string) bool {
	t.Helper()
	from := slices.Index(p.lines, want[0])
	if from < 0 {
		t.Fatalf("%s: no table %q", p.name, want[0])
	}
	to := from
	for to < len(p.lines) && strings.HasPrefix(p.lines[to], "|") {
		to++
	}
	if slices.Equal(p.lines[from:to], want) {
		return false
	}
	p.lines = slices.Replace(p.lines, from, to, want...)
	return true
}
