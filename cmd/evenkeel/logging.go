package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

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
	flags.IntVarP(&l.verbosity, "v", "v", 0, "log verbosity: from 0 for decisions and failures, to 5")
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
