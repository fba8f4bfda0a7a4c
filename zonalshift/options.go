package zonalshift

import (
	"cmp"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
)

// Defaults of Options.
const (
	DefaultReturnInterval   = 5 * time.Minute
	DefaultReturnNodes      = 1
	DefaultReturnPercentage = 25
	DefaultDetectAfter      = time.Minute
	DefaultDetectCalm       = 10 * time.Minute
)

// Options of Shifts. The zero value lets domains return at the default pace, and detects nothing.
type Options struct {
	// Pace is how fast a domain that has come back catches up; nil is the default pace.
	Pace *Pace
	// Detect says when a domain is shifted away without a mark.
	Detect Detect
}

// Pace bounds how far a node group that has come back is levelled with the others of its set in one
// interval: by Nodes or by Percentage of what it lacks then, whichever is more. Its even share of
// new nodes is not part of that.
type Pace struct {
	Interval   time.Duration // 0 levels at once
	Nodes      int           // 1 or more
	Percentage int           // 0 to 100
}

// Detect says when a domain is shifted away without a mark. The zero value detects nothing. The
// domains are zones.
type Detect struct {
	// UnreadyPercentage is the share of a zone's nodes from which on it is shifted away when they
	// were ready and are not any more; 0 never. A single node is not enough. The zone comes back below
	// half of that share.
	UnreadyPercentage int
	// Refusals shifts a zone away when all node groups there refuse. It comes back when none does.
	Refusals bool
	// After is how long it must have lasted, and Calm how long all must be well before the zone comes
	// back; 0 are the defaults.
	After, Calm time.Duration
}

func (d *Detect) on() bool             { return d.UnreadyPercentage > 0 || d.Refusals }
func (d *Detect) after() time.Duration { return cmp.Or(d.After, DefaultDetectAfter) }
func (d *Detect) calm() time.Duration  { return cmp.Or(d.Calm, DefaultDetectCalm) }

func (o *Options) pace() Pace {
	if o.Pace == nil {
		return Pace{DefaultReturnInterval, DefaultReturnNodes, DefaultReturnPercentage}
	}
	return *o.Pace
}

// OptionName is the name in flags and documents of an option that New refuses, by the path in its
// error: zonalShiftReturnNodes for returnNodes.
func OptionName(path string) string {
	return "zonalShift" + strings.ToUpper(path[:1]) + path[1:]
}

func (o *Options) validate() error {
	p := o.pace()
	switch {
	case p.Interval < 0:
		return apportion.Invalid("returnInterval", p.Interval, "must not be negative; 0 levels at once")
	case p.Nodes < 1:
		return apportion.Invalid("returnNodes", p.Nodes, "must be at least 1")
	case p.Percentage < 0 || p.Percentage > 100:
		return apportion.Invalid("returnPercentage", p.Percentage, "must be between 0 and 100")
	case o.Detect.UnreadyPercentage < 0 || o.Detect.UnreadyPercentage > 100:
		return apportion.Invalid("detectUnreadyPercentage", o.Detect.UnreadyPercentage, "must be between 0 and 100; 0 detects nothing")
	case o.Detect.After < 0:
		return apportion.Invalid("detectAfter", o.Detect.After, "must not be negative")
	case o.Detect.Calm < 0:
		return apportion.Invalid("detectCalm", o.Detect.Calm, "must not be negative")
	}
	return nil
}
