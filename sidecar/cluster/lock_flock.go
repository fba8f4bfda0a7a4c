//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cluster

import (
	"os"
	"syscall"
)

// lockFile locks an open file for this process until it is closed.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
