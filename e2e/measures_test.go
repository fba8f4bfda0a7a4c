package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scraped are the lines of the metrics of a process.
type scraped []string

func (l *load) metrics(ctx context.Context, t *testing.T) scraped {
	t.Helper()
	code, text := scrape(ctx, t, "http://"+l.controller.Address+"/metrics", "", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	return strings.Split(text, "\n")
}

// sum adds the values of a metric with all these labels.
func (s scraped) sum(name string, labels ...string) (sum float64) {
	line := regexp.MustCompile(`^` + name + `(\{.*\})? (\S+)$`)
	for _, l := range s {
		found := line.FindStringSubmatch(l)
		if found == nil || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(found[1], label) }) {
			continue
		}
		value, err := strconv.ParseFloat(found[2], 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}

// processorTime is what the controller has used; 0 if the system does not tell.
func (l *load) processorTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.controller.PID()))
	if err != nil {
		return 0
	}
	const ticks = 100 // in a second, on all systems of Linux
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// inParallel does something with all, as fast as an API server takes it.
func inParallel[T any](t *testing.T, all []T, do func(T) error) {
	t.Helper()
	var running sync.WaitGroup
	next := make(chan T)
	for range 16 {
		running.Go(func() {
			for each := range next {
				if err := do(each); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, each := range all {
		next <- each
	}
	close(next)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// percentiles describes how long things took.
func percentiles(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	part := func(of float64) time.Duration { return round(took[int(of*float64(len(took)-1))]) }
	return fmt.Sprintf("median %s, p90 %s, p99 %s, longest %s (%d)", part(.5), part(.9), part(.99), part(1), len(took))
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[(len(took)-1)/2]
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
