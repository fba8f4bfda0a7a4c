package removal

import (
	"fmt"
	"math"
	"math/bits"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/podfit"
)

// inUse reports why a node is used too much to go; empty where it is not. Of a node with GPUs nothing else
// counts. What the pods of daemon sets request counts, unless the group says otherwise: then it is taken off
// what the node offers.
func (f *facts) inUse(n *Node, g *Group, gpuLabel string) string {
	by := settings{g.Settings.ScaleDownUtilizationThreshold, g.Settings.ScaleDownGPUUtilizationThreshold,
		g.Settings.IgnoreDaemonSetsUtilization, gpuLabel}
	if f.busyFor == nil || *f.busyFor != by {
		f.busy, f.busyFor = f.usage(n.Node.Node, by), &by
	}
	return f.busy
}

func (f *facts) usage(n *v1.Node, by settings) string {
	used, ignored := f.used.Plus(1, f.byDaemons), podfit.Resources{}
	if by.ignoreDaemons {
		used, ignored = f.used, f.byDaemons
	}
	offered := n.Status.Allocatable
	if kind, count := template.GPUs(offered); count > 0 {
		return excess(kind, used[kind], count-ignored[kind], by.gpuThreshold)
	}
	if _, labelled := n.Labels[by.gpuLabel]; labelled {
		return "" // its GPUs are not ready, so nobody uses them
	}
	for _, r := range []struct {
		name          v1.ResourceName
		used, offered int64
	}{
		{v1.ResourceCPU, used[v1.ResourceCPU], offered.Cpu().MilliValue() - ignored[v1.ResourceCPU]},
		{v1.ResourceMemory, used[v1.ResourceMemory], offered.Memory().Value() - ignored[v1.ResourceMemory]},
	} {
		if _, known := offered[r.name]; !known {
			return fmt.Sprintf("does not say how much %s it has", r.name)
		}
		if reason := excess(r.name, r.used, r.offered, by.threshold); reason != "" {
			return reason
		}
	}
	return ""
}

// excess says that more than a share of a resource is requested; empty where it is not so.
func excess(name v1.ResourceName, used, offered int64, share float64) string {
	threshold := int64(math.Round(share * Whole))
	if exceeds(used, offered, threshold) {
		return fmt.Sprintf("more than %s of its %s is requested", percent(threshold), name)
	}
	return ""
}

func isDaemonPod(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// exceeds reports whether part is more than so many millionths of all, exactly.
func exceeds(part, all, millionths int64) bool {
	if part <= 0 || all <= 0 {
		return part > 0
	}
	leftHigh, leftLow := bits.Mul64(uint64(part), Whole)
	rightHigh, rightLow := bits.Mul64(uint64(all), uint64(millionths))
	return leftHigh > rightHigh || leftHigh == rightHigh && leftLow > rightLow
}

func percent(millionths int64) string {
	const one = Whole / 100
	if millionths%one == 0 {
		return fmt.Sprintf("%d%%", millionths/one)
	}
	return fmt.Sprintf("%.4g%%", float64(millionths)/one)
}
