package provisioning

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// status136 has the form of Cluster Autoscaler 1.36.
const status136 = `autoscalerStatus: Running
clusterWide:
  health:
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T11:00:00Z"
    nodeCounts:
      longUnregistered: 0
      registered: {beingDeleted: 0, notStarted: 1, ready: 6, suspended: 0, total: 7, unready: {resourceUnready: 0, total: 0}}
      unregistered: 0
    status: Healthy
  scaleUp:
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T12:00:10Z"
    status: InProgress
nodeGroups:
- health:
    cloudProviderTarget: 4
    lastProbeTime: "2026-06-01T12:00:40Z"
    lastTransitionTime: "2026-06-01T11:00:00Z"
    maxSize: 10
    minSize: 0
    nodeCounts:
      longUnregistered: 0
      registered: {ready: 3, notStarted: 1, total: 4, unready: {total: 0}}
      unregistered: 0
    status: Healthy
  name: spot-a
  scaleDown: {lastProbeTime: "2026-06-01T12:00:40Z", status: NoCandidates}
  scaleUp: {backoffInfo: {}, lastProbeTime: "2026-06-01T12:00:40Z", lastTransitionTime: "2026-06-01T12:00:10Z", status: InProgress}
- health: {cloudProviderTarget: 3, nodeCounts: {longUnregistered: 0, registered: {ready: 3, total: 3}}}
  name: spot-b
  scaleUp:
    backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: "no: quota"}
    lastTransitionTime: "2026-06-01T12:00:20Z"
    status: Backoff
- health: {cloudProviderTarget: 2, nodeCounts: {registered: {ready: 0, notStarted: 1, total: 1}, unregistered: 1}}
  name: after-a-restart
  scaleUp: {lastTransitionTime: "2026-06-01T12:00:30Z", status: NoActivity}
- health: {cloudProviderTarget: 2, nodeCounts: {longUnregistered: 1, registered: {ready: 0, total: 1, unready: {total: 1}}}}
  name: never-comes
  scaleUp: {lastTransitionTime: "2026-06-01T12:00:30Z", status: NoActivity}
time: 2026-06-01 12:00:40.519207846 +0000 UTC
`

func TestTheStatusOfClusterAutoscalerIsRead(t *testing.T) {
	s, err := ParseStatus(status136)
	if err != nil {
		t.Fatal(err)
	}
	if want := noon.Add(40*time.Second + 519207846); !s.Time.Equal(want) {
		t.Errorf("time is %v, want %v", s.Time, want)
	}
	want := map[string]Group{"spot-a": growing(10), "spot-b": resting(20), "after-a-restart": growing(30), "never-comes": resting(30)}
	for name, w := range want {
		if g := s.Groups[name]; g.Growing != w.Growing || !g.Since.Equal(w.Since) {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
	}
	if len(s.Groups) != len(want) {
		t.Errorf("%d groups, want %d", len(s.Groups), len(want))
	}
}

func TestWhatIsNotAStatusIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"Cluster-autoscaler status at 2018-07-25": "time: parsing time",
		"":                "it is empty",
		"nodeGroups: []":  "it has no time",
		"time: yesterday": "time: parsing time",
		"- a\n- b":        "cannot unmarshal array",
		"time: 2026-06-01 12:00:40 +0000 UTC\nnodeGroups: [{health: 3}]": "nodeGroups.health",
		"\tnonsense": "status of Cluster Autoscaler: ",
	} {
		if _, err := ParseStatus(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestTheGroupsOfAMessage(t *testing.T) {
	for message, want := range map[string][]string{
		"pod triggered scale-up: [{group 3->4 (max: 10)}]":                                 {"group"},
		"pod triggered scale-up: [{a 0->1 (max: 3)} {b 0->2 (max: 3)}]":                    {"a", "b"},
		"pod triggered scale-up: [{my asg 3->4 (max: 10)}]":                                {"my asg"},
		"(combined from similar events): pod triggered scale-up: [{group 3->4 (max: 10)}]": {"group"},
		"pod triggered scale-up: [{https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/g 1->2 (max: " +
			"9)}]": {"https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/g"},
		"pod triggered scale-up: [{a 0->1 (max: 3)} {b 0->2": nil,
		"pod triggered scale-up: []":                         nil,
		"Pod should schedule on: nodeclaim/spot-x7":          nil,
		"": nil,
	} {
		if got, ok := groupsOf(message); !slices.Equal(got, want) || ok != (want != nil) {
			t.Errorf("%q: %q, %t, want %q", message, got, ok, want)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add(status136)
	f.Add("time: 2026-06-01 12:00:40 +0000 UTC\nnodeGroups: [{name: a, scaleUp: {status: InProgress}}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStatus(text)
		if err != nil {
			if s.Groups != nil {
				t.Error("a part of a bad status is taken")
			}
			return
		}
		if s.Time.IsZero() && !strings.Contains(text, "0001") {
			t.Error("a status without its time")
		}
		// A status never makes Of fail, and only one that is not old says anything.
		scaleUp, known := Of(pending(), nil, &s, at(60))
		if known && (!scaleUp.Acting || at(60).Sub(s.Time) > Fresh) {
			t.Errorf("%+v of a status of %v", scaleUp, s.Time)
		}
	})
}

func FuzzGroupsOfMessage(f *testing.F) {
	f.Add("spot-a", "my asg", 3)
	f.Add("a 1->2 (max: 3)", "}", -1)
	f.Fuzz(func(t *testing.T, a, b string, size int) {
		message := fmt.Sprintf("pod triggered scale-up: [{%s %d->%d (max: %d)} {%s 0->1 (max: 9)}]", a, size, size+1, size, b)
		got, ok := groupsOf(message)
		plain := func(s string) bool { return s != "" && !strings.ContainsAny(s, "{}\n") && !strings.Contains(s, "->") }
		if plain(a) && plain(b) && (!ok || !slices.Equal(got, []string{a, b})) {
			t.Errorf("%q: %q, %t", message, got, ok)
		}
		if ok && len(got) == 0 {
			t.Errorf("%q: no group, and yet all", message)
		}
		if got, ok := groupsOf(message[:len(message)-3]); ok {
			t.Errorf("a message that is cut has all groups: %q", got)
		}
		// Any text is a possible message of an event.
		for _, text := range []string{a, b, triggeredPrefix + a, triggeredPrefix + "[{" + b + "}]"} {
			e := event("TriggeredScaleUp", text, 5, 5)
			if s, known := Of(pending(), []v1.Event{e}, loop(0, nil), at(60)); !known || !s.Acting {
				t.Errorf("%q: %+v, %t", text, s, known)
			}
		}
	})
}
