package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger"
)

// logFlags say how a server logs, under the names of Kubernetes' components.
type logFlags struct {
	format    string
	verbosity int
}

func (l *logFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "logging-format", "text", "how the log is written: text or json")
	flags.IntVarP(&l.verbosity, "v", "v", 0, "how much is logged: 0 for decisions and failures, up to 5")
}

// logger writes to the given stream.
func (l *logFlags) logger(stderr io.Writer) (logr.Logger, error) {
	if l.verbosity < 0 {
		return logr.Discard(), &usageError{fmt.Errorf("invalid --v %d", l.verbosity), "must be 0 or more"}
	}
	switch l.format {
	case "text":
		return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(stderr), textlogger.Verbosity(l.verbosity))), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: slog.Level(-l.verbosity)})), nil
	}
	return logr.Discard(), &usageError{fmt.Errorf("invalid --logging-format %q", l.format), "must be text or json"}
}
