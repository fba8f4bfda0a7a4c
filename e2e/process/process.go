// Package process runs programs for tests: on a log file, ended with the test,
// started again at will. It knows none of the programs.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Bounds on what a healthy machine does in a second or two, also when it is busy.
const (
	readyWithin = 5 * time.Minute
	stopWithin  = 5 * time.Minute
	saidWithin  = 2 * time.Second
	tick        = 200 * time.Millisecond
)

// A Process is a program that runs or not. Its methods must not be called
// concurrently.
type Process struct {
	// Name is what errors call the program.
	Name string
	// Path and Args are the command line.
	Path string
	Args []string
	// Home is the working folder, and the user's home as far as the program can see.
	Home string
	// Env are variables that the program has in addition to those of this one.
	Env []string
	// Log is the file that output is appended to.
	Log string
	// Ready reports whether the program serves.
	Ready func(context.Context) bool

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
}

// Start starts the program without waiting for it to be ready.
func (p *Process) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Home
	cmd.Env = slices.Concat(os.Environ(), []string{"HOME=" + p.Home}, p.Env)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = tied()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its log and cmd.ProcessState tell how it went
	}()
	p.cmd, p.exited = cmd, exited
	return nil
}

// Launch starts the program, again at its old address if it was stopped, and waits until it is ready.
func (p *Process) Launch(ctx context.Context) error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Await(ctx)
}

// Await waits until the program is ready. It fails early if the program ends.
func (p *Process) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready within %v", readyWithin))
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("ended early: %v", p.cmd.ProcessState)
		default:
			return p.Ready(ctx), nil
		}
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.Name, err, p.Tail(20))
	}
	return nil
}

// Stop ends the program: gently, and by force if that does not help. Stopping
// what does not run is no error.
func (p *Process) Stop() error {
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
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // a Go program logs what it is doing
		said, cancel := context.WithTimeout(context.Background(), saidWithin)
		defer cancel()
		select {
		case <-p.exited:
		case <-said.Done():
		}
		p.Kill()
		return fmt.Errorf("%s did not stop within %v and was killed", p.Name, stopWithin)
	}
}

// Runs reports whether the program has been started and has not ended.
func (p *Process) Runs() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill ends the program at once, as a crash would.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // an error says that it has ended already
	<-p.exited
}

// Pause has the program do nothing until Resume: it accepts connections, and does
// not answer.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// ExitCode is that of the process that was started last, once it has ended; -1 if a
// signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// PID identifies the process that was started last to the operating system.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Tail returns the last lines of the log.
func (p *Process) Tail(lines int) string {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
