// Package admission answers the webhooks of WorkloadSpreads: it puts new pods into their subsets, and
// refuses WorkloadSpreads that are invalid.
//
// What is decided is answered as allowed or refused. What cannot be decided, because the API server
// does not answer for instance, is answered as a failed call with status 500, so that the failure
// policy of the webhook says what happens.
//
// The package does not decide which subset a pod gets, which is what workloadspread does, and opens no
// port: it hands out handlers.
package admission
