package simulate

import (
	"io"
	"io/fs"
	"time"

	"github.com/evenkeel/evenkeel/predicates"
)

// Progress is how far the reading of a scenario's files or its run has come.
type Progress struct {
	At      time.Duration // virtual time
	Rounds  int           // those that have begun
	Pending int           // pods, at the instant At
	// Step is what is being done. Between two steps it is the zero value.
	Step predicates.Step
}

// progress says how far a run has come, where anybody wants to know.
type progress struct {
	tell func(Progress)
	now  Progress
}

// moment begins another instant of the run.
func (p *progress) moment(s *simulation) {
	if p.tell != nil {
		p.now = Progress{At: s.elapsed(), Rounds: s.rounds, Pending: len(s.cluster.waiting())}
		p.tell(p.now)
	}
}

// step describes the work within an instant.
func (p *progress) step(step predicates.Step) {
	if p.tell != nil {
		p.now.Step = step
		p.tell(p.now)
	}
}

// counted says how much of a file has been read.
type counted struct {
	io.Reader
	size, read int64
	step       predicates.Step
	tell       func(Progress)
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
	c.tell(Progress{Step: c.step})
}

// watched is the file, and says how much of it has been read where anybody wants
// to know.
func (f *Files) watched(name string, file io.Reader) io.Reader {
	if f.Progress == nil {
		return file
	}
	c := &counted{Reader: file, step: predicates.Step{Doing: "reading " + name, Of: "MiB"}, tell: f.Progress}
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
