//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package cluster

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lockFile has no lock to offer here that ends with its process.
func lockFile(*os.File) error {
	return fmt.Errorf("a journal in a file on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
