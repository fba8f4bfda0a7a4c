package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/evenkeel/evenkeel/sidecar"
)

// FileJournal keeps a text in a local file, for machines without a cluster: one autoscaler, whose
// sidecar always comes back on the same machine. It may be used by several goroutines.
type FileJournal struct {
	path string

	mu   sync.Mutex
	lock *os.File // nil when closed
}

var _ sidecar.Journal = (*FileJournal)(nil)

// OpenFileJournal opens the journal in the file at path, which need not be there yet; its folder
// does. The journal is this process's until Close, or until the process ends, however it does:
// another one that opens it meanwhile is refused. A file beside it, with .lock at the end of its
// name, stands for that and stays.
func OpenFileJournal(path string) (*FileJournal, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	if err := lockFile(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the journal: is %s used by another process? %w", path, err), lock.Close())
	}
	return &FileJournal{path: path, lock: lock}, nil
}

// String says where the text is kept.
func (j *FileJournal) String() string { return "file " + j.path }

// Load returns the text last saved, by this process or an earlier one; empty if there is no file.
func (j *FileJournal) Load(ctx context.Context) (text []byte, err error) {
	err = j.inTurn(ctx, "loading", func() error {
		found, err := os.ReadFile(j.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := checkText(found); err != nil {
			return fmt.Errorf("%s is no journal: %w", j.path, err)
		}
		text = found
		return nil
	})
	return text, err
}

// Save replaces the text: after a crash at any moment the file has the old one or the new one. When
// it returns the text is on the disk.
func (j *FileJournal) Save(ctx context.Context, text []byte) error {
	return j.inTurn(ctx, "saving", func() error {
		// The lock is ours, so a fixed name will do, and what a crash left there is overwritten.
		fresh := j.path + ".new"
		if err := checkText(text); err != nil {
			return err
		}
		if err := writeSynced(fresh, text); err != nil {
			return err
		}
		if err := os.Rename(fresh, j.path); err != nil {
			return err
		}
		return syncFolder(filepath.Dir(j.path))
	})
}

// inTurn makes a call after those before it, while the journal is open.
func (j *FileJournal) inTurn(ctx context.Context, doing string, call func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := context.Cause(ctx)
	if j.lock == nil {
		err = fmt.Errorf("%s: %w", j.path, os.ErrClosed)
	}
	if err == nil {
		err = call()
	}
	if err != nil {
		return fmt.Errorf("%s the journal: %w", doing, err)
	}
	return nil
}

// Close gives the journal to others.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lock == nil {
		return nil
	}
	err := j.lock.Close()
	j.lock = nil
	if err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	return nil
}

func writeSynced(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

// syncFolder makes a rename last.
func syncFolder(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
