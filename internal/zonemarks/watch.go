package zonemarks

import (
	"bytes"
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/zonalshift"
)

// Interval is how often a store is read.
const Interval = 5 * time.Second

// timeout bounds one reading.
const timeout = 4 * time.Second

// Watch reads a store until ctx is done, and reports what it has read when that has changed, the
// first time always. An error says why it cannot be used: what was reported before it still holds.
func Watch(ctx context.Context, store Store, clock clock.WithTicker, report func(marks []zonalshift.Mark, err error)) {
	var last []byte
	var lastErr string
	first := true
	read := func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		text, err := store.Load(ctx)
		var marks []zonalshift.Mark
		if err == nil {
			if !first && lastErr == "" && bytes.Equal(text, last) {
				return
			}
			_, marks, err = Parse(store.String(), text)
		}
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return // the program ends
		}
		if err != nil {
			if first || err.Error() != lastErr {
				report(nil, err)
			}
			first, lastErr = false, err.Error()
			return
		}
		first, last, lastErr = false, text, ""
		report(marks, nil)
	}
	ticker := clock.NewTicker(Interval)
	defer ticker.Stop()
	for {
		read()
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
	}
}
