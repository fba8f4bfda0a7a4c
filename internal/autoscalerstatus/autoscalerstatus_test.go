package autoscalerstatus

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// Releases up to 1.29 write text; the times of states still have the reading of the monotonic clock.
const of129 = `Cluster-autoscaler status at 2024-02-03 10:20:41.206117341 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=6 unready=1 (resourceUnready=0) notStarted=1 longNotStarted=0 registered=8 longUnregistered=1)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2
  ScaleUp:     InProgress (ready=6 registered=8)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:20:20.25 +0000 UTC m=+66.1
  ScaleDown:   NoCandidates (candidates=0)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2

NodeGroups:
  Name:        workers-eu-west-1a
  Health:      Healthy (ready=4 unready=0 (resourceUnready=0) notStarted=1 longNotStarted=0 registered=5 longUnregistered=0 cloudProviderTarget=6 (minSize=1, maxSize=10))
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2
  ScaleUp:     InProgress (ready=4 cloudProviderTarget=6)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:20:20.25 +0000 UTC m=+66.1
  ScaleDown:   NoCandidates (candidates=0)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2

  Name:        https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/workers-b
  Health:      Unhealthy (ready=2 unready=1 (resourceUnready=0) notStarted=0 longNotStarted=0 registered=3 longUnregistered=1 cloudProviderTarget=4 (minSize=0, maxSize=5))
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:20:30 +0000 UTC m=+76.1
  ScaleUp:     Backoff (ready=2 cloudProviderTarget=4)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:20:30 +0000 UTC m=+76.1
  ScaleDown:   NoCandidates (candidates=0)
               LastProbeTime:      2024-02-03 10:20:40.001 +0000 UTC m=+86.5
               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2

`

// Until 1.34 the fields are in the order of the Go types, and states have nanoseconds.
const of132 = `time: 2025-03-04 11:00:10.206117341 +0100 CET
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 3
        ready: 3
        notStarted: 0
        unready:
          total: 0
          resourceUnready: 0
      longUnregistered: 0
      unregistered: 1
    lastProbeTime: "2025-03-04T11:00:10.206117341+01:00"
    lastTransitionTime: "2025-03-04T10:50:00.1+01:00"
nodeGroups:
- name: eks-workers-a-6ac8f0e2
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 4
        ready: 3
        notStarted: 0
        beingDeleted: 1
        unready:
          total: 0
          resourceUnready: 0
      longUnregistered: 0
      unregistered: 1
    cloudProviderTarget: 4
    minSize: 1
    maxSize: 9
    lastProbeTime: "2025-03-04T11:00:10.206117341+01:00"
    lastTransitionTime: "2025-03-04T10:50:00.1+01:00"
  scaleUp:
    status: NoActivity
    backoffInfo: {}
    lastProbeTime: "2025-03-04T11:00:10.206117341+01:00"
    lastTransitionTime: "2025-03-04T10:50:00.1+01:00"
  scaleDown:
    status: NoCandidates
    lastProbeTime: "0001-01-01T00:00:00Z"
    lastTransitionTime: "0001-01-01T00:00:00Z"
`

// Since 1.35 the fields are sorted, and states have whole seconds or null. 1.36 counts suspended nodes.
const of136 = `autoscalerStatus: Running
clusterWide:
  health:
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T11:00:00Z"
    status: Healthy
nodeGroups:
- health:
    cloudProviderTarget: 2
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T11:00:00Z"
    maxSize: 10
    minSize: 0
    nodeCounts:
      longUnregistered: 1
      registered:
        notStarted: 0
        ready: 0
        suspended: 0
        total: 1
        unready:
          resourceUnready: 0
          total: 1
      unregistered: 0
    status: Healthy
  name: workers-a
  scaleDown:
    lastProbeTime: null
    lastTransitionTime: null
    status: NoCandidates
  scaleUp:
    backoffInfo:
      errorCode: QUOTA_EXCEEDED
      errorMessage: 'creation failed: 57.0 in the region'
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T12:00:20Z"
    status: Backoff
- health: {cloudProviderTarget: 0, maxSize: 4, minSize: 0, nodeCounts: {registered: {ready: 0}}, status: Healthy}
  name: workers-b
  scaleUp: {backoffInfo: {}, lastTransitionTime: null, status: NoActivity}
time: 2026-06-01 12:00:40.519207846 +0000 UTC
`

func clock(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestStatusesOfAllReleases(t *testing.T) {
	refused := clock(t, "2024-02-03T10:20:30Z")
	for name, c := range map[string]struct {
		data string
		want Status
	}{
		"1.29": {of129, Status{Time: clock(t, "2024-02-03T10:20:41.206117341Z"), Running: true, Groups: []Group{
			{Name: "workers-eu-west-1a", Target: 6, MinSize: 1, MaxSize: 10, Ready: 4, NotStarted: 1, Healthy: true, ScaleUp: InProgress,
				Since: clock(t, "2024-02-03T10:20:20.25Z")},
			{
				Name: "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/workers-b", Target: 4, MaxSize: 5,
				Ready: 2, Unready: 1, LongUnregistered: 1, ScaleUp: InBackoff, Since: refused, Backoff: &Backoff{Since: refused},
			},
		}}},
		"1.29 at its start": {"Cluster-autoscaler status at 2024-02-03 10:20:41.2 +0000 UTC:\nInitializing",
			Status{Time: clock(t, "2024-02-03T10:20:41.2Z"), Message: "Initializing"}},
		"1.32": {of132, Status{Time: clock(t, "2025-03-04T10:00:10.206117341Z"), Running: true, Groups: []Group{
			{Name: "eks-workers-a-6ac8f0e2", Target: 4, MinSize: 1, MaxSize: 9, Ready: 3, Unregistered: 1, BeingDeleted: 1, Healthy: true,
				ScaleUp: NoActivity, Since: clock(t, "2025-03-04T09:50:00.1Z")},
		}}},
		"1.36": {of136, Status{Time: clock(t, "2026-06-01T12:00:40.519207846Z"), Running: true, Groups: []Group{
			{
				Name: "workers-a", Target: 2, MaxSize: 10, Unready: 1, LongUnregistered: 1, Healthy: true, ScaleUp: InBackoff,
				Since:   clock(t, "2026-06-01T12:00:20Z"),
				Backoff: &Backoff{"QUOTA_EXCEEDED", "creation failed: 57.0 in the region", clock(t, "2026-06-01T12:00:20Z")},
			},
			{Name: "workers-b", MaxSize: 4, Healthy: true, ScaleUp: NoActivity},
		}}},
		"1.36 at its start": {
			"autoscalerStatus: Initializing\ntime: 2026-06-01 12:00:40 +0000 UTC\nclusterWide: {health: {lastProbeTime: null}}\n",
			Status{Time: clock(t, "2026-06-01T12:00:40Z")},
		},
		"a release to come": {
			"autoscalerStatus: Running\nmessage: all is well\nmode: {a: 1}\ntime: 2026-06-01 12:00:40 +0000 UTC\nnodeGroups: " +
				"[{name: a, size: [1], scaleUp: {status: Slow}}]\n",
			Status{Time: clock(t, "2026-06-01T12:00:40Z"), Running: true, Message: "all is well", Groups: []Group{{Name: "a", ScaleUp: "Slow"}}},
		},
		"written by hand, without a time": {"nodeGroups: [{name: a, health: {minSize: 1, maxSize: 2}}]",
			Status{Groups: []Group{{Name: "a", MinSize: 1, MaxSize: 2}}}},
	} {
		got, err := Parse(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	const head = "time: 2026-06-01 12:00:40 +0000 UTC\n"
	for data, want := range map[string]string{
		"":                                 "it is empty",
		"time: yesterday":                  "time: parsing time",
		"time: [3]":                        "document.time of type string",
		"- a":                              "cannot unmarshal array",
		"\tnonsense":                       "status of Cluster Autoscaler: ",
		head + "nodeGroups: [{health: 3}]": "nodeGroups.health",
		head + "nodeGroups: [{health: {cloudProviderTarget: many}}]":              "nodeGroups.health.cloudProviderTarget",
		head + "nodeGroups: [{health: {nodeCounts: {registered: {ready: 1.5}}}}]": "nodeGroups.health.nodeCounts.registered.ready",
		head + "nodeGroups: [{name: a}, {scaleUp: {lastTransitionTime: never}}]":  "nodeGroups[1].scaleUp.lastTransitionTime: parsing time",
		"Cluster-autoscaler status at noon:\nCluster-wide:\n":                     "time: parsing time",
		strings.Replace(of129, "cloudProviderTarget=6 (", "cloudProviderTarget=many (",
			1): `group "workers-eu-west-1a": Health: cloudProviderTarget: strconv.Atoi: parsing "many"`,
		strings.Replace(of129,
			"10:20:20.25 +0000 UTC m=+66.1\n  ScaleDown:   NoCandidates (candidates=0)\n               LastProbeTime:      "+
				"2024-02-03 10:20:40.001 +0000 UTC m=+86.5\n               LastTransitionTime: 2024-02-03 10:19:20.5 +0000 UTC m=+6.2\n\n  Name",
			"noon\n  Name", 1): `group "workers-eu-west-1a": LastTransitionTime: parsing time`,
	} {
		if got, err := Parse(data); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	want := clock(t, "2026-06-01T12:00:40.5Z")
	for _, text := range []string{
		"2026-06-01 12:00:40.5 +0000 UTC",
		"2026-06-01 12:00:40.5 +0000 UTC m=+0.000012",
		"2026-06-01 14:00:40.5 +0200 CEST m=+41.25",
		"2026-06-01 17:30:40.5 +0530 +0530",
		"2026-06-01 17:45:40.5 +0545 +0545 m=+41.25",
		"2026-06-01 09:00:40.5 -0300 -03",
		"2026-06-01 12:00:40.5 +0000 Somewhere",
		"2026-06-01 12:00:40.5 +0000",
		"2026-06-01T12:00:40.5Z",
		"2026-06-01T14:00:40.5+02:00",
	} {
		if got, err := ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2026-06-01", "2026-06-01 12:00:40", "12:00:40", "2026-06-01 12:00:40 UTC"} {
		if got, err := ParseTime(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// What is read can be written in the form of today and read again, and is the same then.
func FuzzParse(f *testing.F) {
	for _, data := range []string{of129, of132, of136, "Cluster-autoscaler status at 2024-02-03 10:20:41.2 +0000 UTC:\nInitializing"} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		s, err := Parse(data)
		if err != nil {
			if s != nil {
				t.Error("a part of a bad status is taken")
			}
			return
		}
		if !utf8.ValidString(data) {
			return // JSON has none
		}
		again, err := Parse(today(t, s))
		if err != nil {
			t.Fatalf("%v\n%s", err, today(t, s))
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}

// today writes a status in the form of 1.36, as JSON, which is YAML.
func today(t *testing.T, s *Status) string {
	at := func(t time.Time) string { return t.Format("2006-01-02 15:04:05.999999999 -0700 MST") }
	var d document
	d.Time, d.Message, d.AutoscalerStatus = at(s.Time), s.Message, "Initializing"
	if s.Running {
		d.AutoscalerStatus = "Running"
	}
	d.NodeGroups = slices.Grow(d.NodeGroups, len(s.Groups))[:len(s.Groups)]
	for i, g := range s.Groups {
		group := &d.NodeGroups[i]
		group.Name, group.Health.CloudProviderTarget, group.Health.MinSize, group.Health.MaxSize = g.Name, g.Target, g.MinSize, g.MaxSize
		if g.Healthy {
			group.Health.Status = "Healthy"
		}
		counts := &group.Health.NodeCounts
		counts.LongUnregistered, counts.Unregistered = g.LongUnregistered, g.Unregistered
		counts.Registered.Ready, counts.Registered.NotStarted, counts.Registered.BeingDeleted = g.Ready, g.NotStarted, g.BeingDeleted
		counts.Registered.Unready.Total = g.Unready
		group.ScaleUp.Status, group.ScaleUp.LastTransitionTime = string(g.ScaleUp), at(g.Since)
		if b := g.Backoff; b != nil {
			group.ScaleUp.BackoffInfo.ErrorCode, group.ScaleUp.BackoffInfo.ErrorMessage = b.Code, b.Message
		}
	}
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
