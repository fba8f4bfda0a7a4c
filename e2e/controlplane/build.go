package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

const (
	module     = "github.com/evenkeel/evenkeel/e2e"
	kubernetes = "k8s.io/kubernetes"
)

// packages are what Build compiles, in the versions of the folder "programs".
var packages = map[Program]string{
	Etcd:              "go.etcd.io/etcd/server/v3",
	APIServer:         kubernetes + "/cmd/kube-apiserver",
	Scheduler:         kubernetes + "/cmd/kube-scheduler",
	ControllerManager: kubernetes + "/cmd/kube-controller-manager",
	Kwok:              "sigs.k8s.io/kwok/cmd/kwok",
	kubectl:           kubernetes + "/cmd/kubectl",
}

// Build returns the folder that holds the programs, each under its name. It compiles them if that
// was not done yet for the pinned versions and this Go: minutes with an empty build cache, and then
// say is called first. Of several calls at the same time, in whatever process, one builds and the
// others wait.
func Build(ctx context.Context, say func(format string, args ...any)) (string, error) {
	root, err := list(ctx, ".", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	programs := filepath.Join(root, "programs")
	version, err := list(ctx, programs, "{{.Version}}", kubernetes)
	if err != nil {
		return "", err
	}
	flags := "-s -w" + stamp(version)
	key, err := cacheKey(programs, flags)
	if err != nil {
		return "", fmt.Errorf("keying the control plane's programs: %w", err)
	}
	cache := filepath.Join(root, "bin")
	folder := filepath.Join(cache, key)
	if exists(folder) {
		return folder, nil
	}
	unlock, err := lock(cache)
	if err != nil {
		return "", fmt.Errorf("locking %s: %w", cache, err)
	}
	defer unlock()
	if exists(folder) {
		return folder, nil
	}
	say("building the control plane of Kubernetes %s: minutes the first time", version)
	// Whatever lies here is of other versions, or of a build that was broken off.
	if err := empty(cache); err != nil {
		return "", fmt.Errorf("clearing %s: %w", cache, err)
	}
	if err := compile(ctx, programs, flags, folder); err != nil {
		return "", fmt.Errorf("building the control plane: %w", err)
	}
	return folder, nil
}

// list prints something about a module as seen from a folder.
func list(ctx context.Context, folder, format, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", format, module)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = exit.Stderr
		}
		return "", fmt.Errorf("asking go for module %s: %w\n%s", module, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// stamp makes the programs report their version; without it they report a
// placeholder.
func stamp(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const base, client = " -X k8s.io/component-base/version.", " -X k8s.io/client-go/pkg/version."
	return base + "gitVersion=" + version + base + "gitMajor=" + major + base + "gitMinor=" + minor +
		client + "gitVersion=" + version
}

func cacheKey(source, flags string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	fmt.Fprint(h, packages, flags, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// compile builds all programs by one command, which shares what they share, and
// moves them to the folder when they are complete.
func compile(ctx context.Context, source, flags, folder string) error {
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return err
	}
	args := []string{"build", "-ldflags", flags, "-o", fresh + string(filepath.Separator)}
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		args = append(args, packages[p])
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	// go names a program after the last element of its path that is no version.
	if err := os.Rename(filepath.Join(fresh, "server"), filepath.Join(fresh, string(Etcd))); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	return os.Rename(fresh, folder)
}

// lock creates the folder and holds it against other processes until unlock is
// called or this process ends.
func lock(folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

const lockFile = "lock"

// empty removes what lies in the folder, except for its lock.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
