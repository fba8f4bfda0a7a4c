package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/zonemarks"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// shiftFlags are the flags of a server that obeys zonal shifts.
type shiftFlags struct {
	file, configMap, namespace string
	pace                       zonalshift.Pace
	detect                     zonalshift.Detect
}

func (o *shiftFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.file, "zonal-shift-file", "",
		"file of the zones that are shifted away, as evenkeel zone writes it; read again when it changes, and need not exist")
	f.StringVar(&o.configMap, "zonal-shift-configmap", "",
		"ConfigMap of the zones that are shifted away, in --namespace; evenkeel zone writes "+zonemarks.DefaultConfigMap)
	f.DurationVar(&o.pace.Interval, "zonal-shift-return-interval", zonalshift.DefaultReturnInterval,
		"interval of the pace at which a zone catches up after its return; 0 levels at once")
	f.IntVar(&o.pace.Nodes, "zonal-shift-return-nodes", zonalshift.DefaultReturnNodes,
		"nodes that a node group of a returned zone may make up for in an interval")
	f.IntVar(&o.pace.Percentage, "zonal-shift-return-percentage", zonalshift.DefaultReturnPercentage,
		"percentage of its missing nodes that a node group of a returned zone may make up for in an interval, if that is more nodes")
	f.IntVar(&o.detect.UnreadyPercentage, "zonal-shift-detect-unready-percentage", 0,
		"shift a zone away when this percentage of its nodes, and at least two, are not ready any more; 0 never does")
	f.BoolVar(&o.detect.Refusals, "zonal-shift-detect-refusals", false, "shift a zone away when all node groups there are backed off")
	f.DurationVar(&o.detect.After, "zonal-shift-detect-after", zonalshift.DefaultDetectAfter,
		"how long a problem must last before its zone is shifted away")
	f.DurationVar(&o.detect.Calm, "zonal-shift-detect-calm", zonalshift.DefaultDetectCalm,
		"how long a zone must be well before it comes back by itself")
}

func (o *shiftFlags) options() zonalshift.Options {
	return zonalshift.Options{Pace: &o.pace, Detect: o.detect}
}

// flagNames are the flags of the options by the paths in the errors of zonalshift.
var flagNames = map[string]string{
	"returnInterval": "zonal-shift-return-interval", "returnNodes": "zonal-shift-return-nodes",
	"returnPercentage":        "zonal-shift-return-percentage",
	"detectUnreadyPercentage": "zonal-shift-detect-unready-percentage", "detectAfter": "zonal-shift-detect-after",
	"detectCalm": "zonal-shift-detect-calm",
}

// validate refuses flags that make no sense, and a file that cannot be read. A file that becomes
// unusable later is reported, and what it had before holds on.
func (o *shiftFlags) validate() error {
	if o.file != "" && o.configMap != "" {
		return errors.New("--zonal-shift-file and --zonal-shift-configmap cannot be combined: the marks are in one place")
	}
	_, err := zonalshift.New(o.options())
	var invalid *apportion.InvalidError
	if errors.As(err, &invalid) {
		return fmt.Errorf("invalid --%s %v: %s", flagNames[invalid.Path], invalid.Value, invalid.Reason)
	}
	if err != nil || o.file == "" {
		return err
	}
	if _, err := os.Stat(filepath.Dir(o.file)); err != nil {
		return fmt.Errorf("--zonal-shift-file=%s: its folder must exist: %w", o.file, err)
	}
	text, err := zonemarks.File{Path: o.file}.Load(context.Background())
	if err == nil {
		_, _, err = zonemarks.Parse(o.file, text)
	}
	if err != nil {
		return fmt.Errorf("--zonal-shift-file: %w (mend it, or remove it to shift no zone away)", err)
	}
	return nil
}

// watch reports the marks until stop is called or ctx is done, and what it has read first before it
// returns.
func (o *shiftFlags) watch(ctx context.Context, config *rest.Config,
	report func(source string, marks []zonalshift.Mark, err error)) (stop func(), err error) {
	var store zonemarks.Store
	switch {
	case o.file != "":
		store = zonemarks.File{Path: o.file}
	case o.configMap != "":
		client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "evenkeel-sidecar"))
		if err != nil {
			return nil, &usageError{err, "see --kubeconfig"}
		}
		store = zonemarks.ConfigMap{Client: client, Namespace: o.namespace, Name: o.configMap}
	default:
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	first := make(chan struct{})
	var once sync.Once
	running.Go(func() {
		zonemarks.Watch(ctx, store, clock.RealClock{}, func(marks []zonalshift.Mark, err error) {
			report(store.String(), marks, err)
			once.Do(func() { close(first) })
		})
	})
	select {
	case <-first:
	case <-ctx.Done():
	case <-clock.RealClock{}.After(zonemarks.Interval): // the API server may not answer; then the marks come later
	}
	return func() { cancel(); running.Wait() }, nil
}
