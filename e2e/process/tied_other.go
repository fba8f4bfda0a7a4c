//go:build !linux

package process

import "syscall"

// tied has no effect here: programs outlive a test that is killed.
func tied() *syscall.SysProcAttr { return nil }
