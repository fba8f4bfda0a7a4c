package linked

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestConditionsAfterAScaleUp(t *testing.T) {
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	}
	fake := pod("stands for others")
	fake.UID = ""
	a, b := pod("a"), pod("b")
	for name, c := range map[string]struct {
		result PodResult
		want   string
	}{
		"groups grow": {PodResult{Groups: []string{"spot-a", "spot-b"}, Triggered: []*v1.Pod{a, fake, b},
			Left: []LeftPod{{Pod: pod("c")}}}, "a True , b True "},
		"some of it failed": {PodResult{Groups: []string{"spot-a"}, Triggered: []*v1.Pod{a}, Failed: true},
			"a True ProvisioningAttemptFailed"},
		"all of it failed":       {PodResult{Triggered: []*v1.Pod{a}, Failed: true}, "a True ProvisioningAttemptFailed"},
		"nothing was to be done": {PodResult{Triggered: []*v1.Pod{a}, Reason: ReasonOf("ScaleUpNotNeeded")}, ""},
		"no options": {PodResult{Reason: ReasonOf("ScaleUpNoOptionsAvailable"),
			Left: []LeftPod{{a, "2 max node group size reached"}}}, "a False NoOptionsAvailable"},
		"too many nodes": {PodResult{Reason: ReasonOf("ScaleUpLimitedByMaxNodesTotal"), Left: []LeftPod{{Pod: a}}},
			"a False LimitedByMaxNodesTotal"},
		"a pause":                  {PodResult{Reason: ReasonOf("ScaleUpInCooldown"), Left: []LeftPod{{Pod: a}}}, "a False InCooldown"},
		"another reason is nobody": {PodResult{Reason: ReasonOf("ScaleUpOfTomorrow"), Left: []LeftPod{{Pod: a}}}, ""},
	} {
		var got []string
		for _, n := range c.result.Notices() {
			if n.Namespace != "shop" || n.Message == "" {
				t.Errorf("%s: %+v", name, n)
			}
			got = append(got, fmt.Sprintf("%s %s %s", n.Name, map[bool]string{true: "True", false: "False"}[n.Acting], n.Reason))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
