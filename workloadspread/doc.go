// Package workloadspread decides in which subset of a WorkloadSpread each pod of a workload belongs.
//
//   - [Admit] chooses the subset of a pod that is being created, and [Recount] counts the pods that there
//     are before one passes a subset that is full. Both answer with the status to store.
//   - [Inject] puts the rules of the subset into the pod.
//   - [Decide] looks at all pods: it corrects the counts, classifies pods that were there before,
//     orders the scale-down by deletion costs, and lets pods that cannot be scheduled move on.
//   - [Validate] says what is wrong with a spec, and [Observe] reads what is needed of the workload.
//
// [Limits] is how many pods each subset may have. A subset never gets more of one revision; during a
// rollout all revisions together have at most the surge of the workload more.
//
// The package does nothing itself. It knows no client, no clock and no log, and it does not choose
// nodes: whether a subset has room for a pod, and what an autoscaler does about one, is handed in.
package workloadspread
