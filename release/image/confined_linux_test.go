package image_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/evenkeel/evenkeel/release/image"
)

// rootVariable makes the test binary run the program of the root file system that it names, confined.
const rootVariable = "EVENKEEL_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(rootVariable); root != "" {
		log.Fatalln("confine:", confine(root, os.Args[1:]))
	}
	m.Run()
}

// TestRunsConfined: a program of the image runs as the manifests ask for, and finds its user and the certificates.
func TestRunsConfined(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "layout")
	if err := image.Write(folder, probeOptions(t, "testdata/probe")); err != nil {
		t.Fatal(err)
	}
	got := decode(t, runConfined(t, folder))
	want := map[string]any{
		"uid": 65532.0, "gid": 65532.0, "groups": 0.0, "user": "nonroot", "certificates": true, "readOnly": true, "noNewPrivs": true,
		"files": []any{"etc", "evenkeel"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the program saw\n%v, want\n%v", got, want)
	}
}

// runConfined unpacks the image of this machine's architecture and runs its program with the security context of the manifests:
// user and group 65532, a root file system that cannot be written, no capabilities, no new privileges; and in mount, process, IPC
// and network namespaces of its own. The seccomp profile is that of the container runtime, and is not applied here.
func runConfined(t *testing.T, folder string, args ...string) []byte {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the user and mount file systems")
	}
	_, images := read(t, folder)
	root := t.TempDir()
	for i, arch := range architectures {
		if arch == runtime.GOARCH {
			unpack(t, images[i], root)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{rootVariable + "=" + root}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
	}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine does not allow namespaces")
	}
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	return out
}

// confine makes the caller the confined program; it returns only an error. Capabilities end with the change of the user, and the
// bounding set is emptied before.
func confine(root string, args []string) error {
	runtime.LockOSThread()
	const (
		dropCapability = 24
		noNewPrivs     = 38
	)
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount(root, root, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind mount: %w", err)
	}
	const flags = syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV
	if err := syscall.Mount("", root, "", flags, ""); err != nil {
		return fmt.Errorf("read-only root: %w", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.Chroot("."); err != nil {
		return err
	}
	for capability := uintptr(0); ; capability++ { // up to the first that the kernel does not know
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, dropCapability, capability, 0); errno != 0 {
			break
		}
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(image.User), syscall.Setuid(image.User)); err != nil {
		return err
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return syscall.Exec(image.Program, append([]string{image.Program}, args...), []string{"PATH=/"})
}

// unpack writes the files of an image below a folder.
func unpack(t *testing.T, img v1.Image, root string) {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name, mode := filepath.Join(root, header.Name), header.FileInfo().Mode()
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, mode); err != nil {
				t.Fatal(err)
			}
			continue
		}
		body, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, body, mode); err != nil {
			t.Fatal(err)
		}
	}
}
