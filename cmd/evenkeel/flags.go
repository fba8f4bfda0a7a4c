package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// positive checks flags that are durations, by their names.
func positive(f *pflag.FlagSet, names ...string) error {
	return atLeast(f, 1, "must be positive", names)
}

// notNegative does so for durations that may be 0.
func notNegative(f *pflag.FlagSet, names ...string) error {
	return atLeast(f, 0, "must not be negative", names)
}

func atLeast(f *pflag.FlagSet, least time.Duration, demand string, names []string) error {
	for _, name := range names {
		if value, err := f.GetDuration(name); err != nil || value < least {
			return errors.Join(err, fmt.Errorf("invalid --%s %s: %s", name, value, demand))
		}
	}
	return nil
}

// refuse is an error if it applies, so that rules about flags can be listed in the order in which they
// are checked.
func refuse(applies bool, format string, args ...any) error {
	if !applies {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// misuse is one with a hint.
func misuse(applies bool, hint, format string, args ...any) error {
	if !applies {
		return nil
	}
	return &usageError{fmt.Errorf(format, args...), hint}
}

// addCertificate adds the flags of a certificate, whose names begin with prefix, and of the authority of the other side unless
// the help for it is empty.
func addCertificate(f *pflag.FlagSet, files *serving.Files, prefix, cert, authority string) {
	f.StringVar(&files.Cert, prefix+"cert", "", cert)
	f.StringVar(&files.Key, prefix+"key", "", "key of --"+prefix+"cert")
	if authority != "" {
		f.StringVar(&files.CACert, prefix+"cacert", "", authority)
	}
}

// mostVerbose is the highest verbosity. Above it, the client of Kubernetes logs all that it sends and
// receives: Secrets too.
const mostVerbose = 7

// silence keeps the log of what is linked into a Cluster Autoscaler from standard error, where a
// simulation plays it: the report says the same.
var silence = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// logFlags are the flags for the log of a server, with the names that Kubernetes components use.
type logFlags struct {
	format    string
	verbosity int
}

func (l *logFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "logging-format", "text", "log format: text or json")
	flags.IntVarP(&l.verbosity, "v", "v", 0, fmt.Sprintf("log verbosity: from 0 for decisions and failures, to %d", mostVerbose))
}

// serving is the work of a server, with a log on standard error, which is also in the context.
func (l *logFlags) serving(work func(ctx context.Context, log logr.Logger) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		log, err := l.logger(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return work(logr.NewContext(cmd.Context(), log), log)
	}
}

// logger returns a logger that writes to the given stream.
func (l *logFlags) logger(stderr io.Writer) (logr.Logger, error) {
	if l.verbosity < 0 {
		return logr.Discard(), &usageError{fmt.Errorf("invalid --v %d", l.verbosity), "must be 0 or more"}
	}
	verbosity := min(l.verbosity, mostVerbose)
	switch l.format {
	case "text":
		return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr), textlogger.Verbosity(verbosity))), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)})), nil
	}
	return logr.Discard(), &usageError{fmt.Errorf("invalid --logging-format %q", l.format), "must be text or json"}
}

// The listeners that need no TLS for the protocol that they speak.
const providerListener, metricsListener = "provider", "metrics"

// plaintextFlag is the flag --allow-plaintext of a server: the listeners that it names, or all of them without a value.
type plaintextFlag struct{ listeners, allowed []string }

func (p *plaintextFlag) addTo(f *pflag.FlagSet, listeners ...string) {
	p.listeners = listeners
	f.Var(p, "allow-plaintext", "`LISTENERS` that may be without TLS on addresses other than loopback, comma-separated: "+
		strings.Join(listeners, ", ")+"; all without a value")
	f.Lookup("allow-plaintext").NoOptDefVal = "true"
}

// Set implements pflag.Value.
func (p *plaintextFlag) Set(value string) error {
	p.allowed = nil
	if all, err := strconv.ParseBool(value); err == nil {
		if all {
			p.allowed = p.listeners
		}
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		if !slices.Contains(p.listeners, name) {
			return fmt.Errorf("there is no listener %q: must be %s", name, strings.Join(p.listeners, " or "))
		}
		p.allowed = append(p.allowed, name)
	}
	return nil
}

// String implements pflag.Value.
func (p *plaintextFlag) String() string { return strings.Join(p.allowed, ",") }

// Type implements pflag.Value.
func (*plaintextFlag) Type() string { return "listeners" }

func (p *plaintextFlag) allows(listener string) bool { return slices.Contains(p.allowed, listener) }

// collectOften has the garbage collected when the heap has grown by a quarter, for commands that hold a dump: they are to need no
// more memory than about twice its size. The environment's GOGC wins.
func collectOften() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(25)
	return func() { debug.SetGCPercent(before) }
}

// seldom is for collect: it trades memory for speed, and for answers that are not delayed.
const seldom = 400

// collect has the garbage collected when the heap has grown by so many percent of what is in use, or
// comes near 800 MiB. The environment's GOGC and GOMEMLIMIT win. The function returned restores both.
func collect(percent int) (undo func()) {
	before, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	undo = func() { debug.SetGCPercent(before); debug.SetMemoryLimit(limit) }
	debug.SetGCPercent(before)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(800 << 20)
	}
	return undo
}
