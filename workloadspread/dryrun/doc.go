// Package dryrun asks the API server whether it would create the pods of a workload with the patches of a
// WorkloadSpread: its validation, Pod Security, limits and policies answer. Nothing is created.
//
// The package knows neither webhooks nor statuses.
package dryrun
