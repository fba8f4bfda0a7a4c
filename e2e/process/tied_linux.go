package process

import "syscall"

// tied makes the programs end with the test, also if it has no chance to
// stop them: a panic, a timeout, a kill.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
