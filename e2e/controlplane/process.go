package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Bounds on what a healthy machine does in a second or two, also when it is busy.
const (
	readyWithin = time.Minute
	stopWithin  = 20 * time.Second
	tick        = 20 * time.Millisecond
)

// A process is one program of the control plane, running or not.
type process struct {
	program Program
	path    string
	args    []string
	home    string // the working folder, and the user's home as far as the program can see
	log     string // file that output is appended to
	ready   string // URL that answers 200 as soon as the program is ready
	word    string // what that answer contains then

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// start starts the program without waiting for it to be ready.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.program, err)
	}
	defer log.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir = p.home
	cmd.Env = append(os.Environ(), "HOME="+p.home)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = tied()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.program, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its log and cmd.ProcessState tell how it went
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// await waits until the program is ready.
func (p *process) await(ctx context.Context, probe *http.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready within %v", readyWithin))
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("ended early: %v", p.cmd.ProcessState)
		default:
			return p.answers(ctx, probe), nil
		}
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.program, err, p.tail(20))
	}
	return nil
}

func (p *process) answers(ctx context.Context, probe *http.Client) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.ready, http.NoBody)
	if err != nil {
		return false
	}
	response, err := probe.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), p.word)
}

// stop ends the program: gently, and by force if that does not help.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended already
	gentle, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	select {
	case <-p.exited:
		return nil
	case <-gentle.Done():
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not stop within %v and was killed", p.program, stopWithin)
	}
}

// tail returns the last lines of the log.
func (p *process) tail(lines int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
