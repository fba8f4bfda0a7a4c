// Package wirerules checks a server of the external cloud provider protocol in what only the wire
// shows: codes, fields, sizes of messages. Package conformance checks the rules that apply to every
// provider.
//
// The rules are based on how Cluster Autoscaler 1.35 and later use an answer. They know no server,
// and open no connection.
package wirerules
