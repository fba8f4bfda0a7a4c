// Package subsets explains in which subset of a WorkloadSpread each pod of its workload is, and why,
// from files.
//
// It reads WorkloadSpreads and what is beside them as kubectl prints it, asks package workloadspread
// for the decision that this leads to, and puts it into words. It decides nothing itself, and knows
// neither clusters nor flags nor tables.
package subsets
