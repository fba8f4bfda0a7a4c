package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// absences are reasons why the autoscaler leaves a healthy group out, or counts less in it than is on
// its way, for machines that boot that fast.
func absences(boot time.Duration) []failure {
	fleet := func(late time.Duration, sizes ...int64) trial {
		return trial{groups: zones("m", 30, sizes...), demands: []demand{{machine: "m", perNode: 1}}, boot: boot, late: late}
	}
	unready := fleet(0, 3, 3, 3)
	unready.name = "a zone turns unready and nine more pods come"
	unready.outages = []v1alpha1.Outage{{
		Zones: []string{"zone-b"}, Mode: v1alpha1.OutageUnready, FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Minute}},
	}}
	booting := fleet(0, 1, 1, 1)
	booting.name = "a zone turns unready when nodes have booted and nine more pods come"
	booting.outages = []v1alpha1.Outage{{
		Zones: []string{"zone-b"}, Mode: v1alpha1.OutageUnready, FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Minute + boot}},
	}}
	late := fleet(30*time.Second, 0, 0, 0)
	late.name = "instances are listed 30 s late from zero"
	never := fleet(0, 0, 0, 0)
	never.name, never.dead, never.provision = "machines boot and never join", []string{"m-b"}, boot+time.Minute
	return []failure{
		{trial: unready, waves: []wave{{pods: 9, after: 80 * time.Second}}},
		{trial: booting, waves: []wave{{pods: 6, after: 50 * time.Second}, {pods: 9, after: 75*time.Second + boot}}},
		{trial: late, waves: []wave{{pods: 9}}},
		{trial: never, waves: []wave{{pods: 9}, {pods: 9}}},
	}
}

// Pods wait no longer with the sidecar than without, whatever the reason why the autoscaler leaves a
// group out.
func TestStockAutoscalerLeavesGroupsOut(t *testing.T) {
	autoscaler.Binary(t)
	for _, boot := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		for _, f := range absences(boot) {
			t.Run(fmt.Sprint(f.name, " with boots of ", boot), f.neverLater)
		}
	}
}
