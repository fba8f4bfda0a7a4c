package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/evenkeel/evenkeel/cmd/evenkeel/internal/printing"
	"github.com/evenkeel/evenkeel/internal/serving/recording"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// eventFile is the file of --record-events.
type eventFile struct {
	*os.File
	log    logr.Logger
	failed sync.Once
}

func openEvents(name string, log logr.Logger) (*eventFile, error) {
	file, err := recording.OpenFile(name)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--record-events=%s: %w", name, err), "must be a file that can be written"}
	}
	return &eventFile{File: file, log: log}, nil
}

func (f *eventFile) add(e *steering.Recorded) {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err != nil {
		f.failed.Do(func() { f.log.Error(err, "Events are missing from the recording", "file", f.Name()) })
	}
}

func (o *sidecarOptions) runReplay(cmd *cobra.Command) error {
	options, err := o.decisions()
	if err != nil {
		return err
	}
	in, err := inputsOf(cmd).open(o.replay)
	if err != nil {
		return &usageError{fmt.Errorf("--replay: %w", err), "must be a file of --record-events"}
	}
	defer in.Close()
	out, err := sidecar.Replay(in, options.Options)
	if err != nil {
		return &usageError{fmt.Errorf("--replay=%s: %w", o.replay, err), "see the flags that say which groups are similar, and --record-events"}
	}
	printer := o.output.Printer(cmd)
	if err := printer.Result(out, decisionTable(out.Decisions), differenceTable(out.Differ)); err != nil {
		return err
	}
	if printer.Tables() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d events, %d of them answered otherwise than they were.\n", out.Events, len(out.Differ))
	}
	if len(out.Differ) > 0 {
		return errReported
	}
	return nil
}

func decisionTable(decisions []steering.Decision) printing.Grid {
	return printing.GridOf(printing.Columns("TIME", "CALL", "GROUP", "ASKED", "GRANTED", "REASON", "ERROR"), decisions,
		func(d *steering.Decision) []any {
			return []any{d.Time.UTC().Format(time.RFC3339), d.Call, d.Group, d.Asked, d.Granted, d.Reason, d.Error}
		})
}

func differenceTable(differ []sidecar.Difference) printing.Grid {
	return printing.GridOf(printing.Columns("LINE", "TIME", "EVENT", "WAS", "NOW"), differ, func(d *sidecar.Difference) []any {
		return []any{d.Line, d.Time.UTC().Format(time.RFC3339), d.Event, d.Was, d.Now}
	})
}
