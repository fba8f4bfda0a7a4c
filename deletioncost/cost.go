package deletioncost

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// AnnotationWritten is on a pod whose cost was written from here, and has the same value. Any other
// cost is somebody else's and is never changed.
const AnnotationWritten = "evenkeel.dev/deletion-cost-written"

// Write is a cost to be written to a pod. With cost 0 both annotations are removed.
type Write struct {
	Pod  *v1.Pod
	Cost int
}

// Annotations are the annotations to write, nil for those to remove.
func (w Write) Annotations() map[string]*string {
	if w.Cost == 0 {
		return map[string]*string{v1.PodDeletionCost: nil, AnnotationWritten: nil}
	}
	value := strconv.Itoa(w.Cost)
	return map[string]*string{v1.PodDeletionCost: &value, AnnotationWritten: &value}
}

// costOf returns the cost of a pod as the controller of ReplicaSets reads it, and whether somebody
// else wrote it.
func costOf(pod *v1.Pod) (cost int, foreign bool) {
	value, has := pod.Annotations[v1.PodDeletionCost]
	if !has {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		n = 0
	}
	return int(n), pod.Annotations[AnnotationWritten] != value
}

// Release returns the writes that remove the costs of pods that were written from here.
func Release(pods []*v1.Pod) []Write {
	var out []Write
	for _, p := range pods {
		if _, foreign := costOf(p); p.Annotations[AnnotationWritten] != "" && !foreign {
			out = append(out, Write{Pod: p})
		}
	}
	return out
}
