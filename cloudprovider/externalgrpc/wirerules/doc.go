// Package wirerules checks a server of the external cloud provider protocol in
// what only the wire shows: codes, fields, sizes of messages. What a provider has
// to keep however it is reached is checked by package conformance.
//
// The rules are about what Cluster Autoscaler 1.35 and later do with an answer.
// They know no server, and open no connection.
package wirerules
