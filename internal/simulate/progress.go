package simulate

import (
	"io"
	"io/fs"
	"time"

	"github.com/evenkeel/evenkeel/predicates"
)

// Progress is the progress of reading a scenario's files, or of its run.
type Progress struct {
	At      time.Duration // virtual time
	Rounds  int           // those that have begun
	Pending int           // pods, at the instant At
	// Step is the current step. Between two steps it is the zero value.
	Step predicates.Step
}

// progress reports the progress of a run, if a callback is set.
type progress struct {
	report func(Progress)
	now    Progress
}

// moment reports the next instant of the run.
func (p *progress) moment(s *simulation) {
	if p.report != nil {
		p.now = Progress{At: s.elapsed(), Rounds: s.rounds, Pending: len(s.cluster.waiting())}
		p.report(p.now)
	}
}

// step reports the work within an instant.
func (p *progress) step(step predicates.Step) {
	if p.report != nil {
		p.now.Step = step
		p.report(p.now)
	}
}

// counted reports how much of a file has been read.
type counted struct {
	io.Reader
	size, read int64
	step       predicates.Step
	progress   func(Progress)
}

const mebi = 1 << 20

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	c.report()
	return n, err
}

func (c *counted) report() {
	c.step.Done, c.step.Total = int(c.read/mebi), int(c.size/mebi)
	c.progress(Progress{Step: c.step})
}

// watched returns the file, wrapped to report how much of it has been read if a callback is set.
func (f *Files) watched(name string, file io.Reader) io.Reader {
	if f.Progress == nil {
		return file
	}
	c := &counted{Reader: file, step: predicates.Step{Doing: "reading " + name, Of: "MiB"}, progress: f.Progress}
	switch of := file.(type) {
	case inMemory:
		c.size = of.Size()
	case interface{ Stat() (fs.FileInfo, error) }:
		if info, err := of.Stat(); err == nil && info.Mode().IsRegular() {
			c.size = info.Size()
		}
	}
	c.report()
	return c
}
