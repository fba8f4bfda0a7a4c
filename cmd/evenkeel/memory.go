package main

import (
	"os"
	"runtime/debug"
)

// collectSeldom trades memory for speed, and for answers that are not delayed: the heap may grow to
// five times what is in use, unless that comes near 800 MiB. The environment's GOGC and GOMEMLIMIT
// win. The function returned restores both.
func collectSeldom() (undo func()) {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	undo = func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }
	debug.SetGCPercent(percent)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(800 << 20)
	}
	return undo
}
