// Package externalgrpc speaks Cluster Autoscaler's external cloud provider
// protocol: Server serves any cloudprovider.Provider, Client is a
// cloudprovider.Provider over such a server, its own or anybody's.
//
// The package translates messages and keeps no state of its own but the list of
// groups between two refreshes. It opens no connection and no listener, and
// decides nothing.
//
// # Versions
//
// Cluster Autoscaler 1.35 and later use new field numbers, 1.33 and older old
// ones, 1.34 both. The server serves all of them: it reads the old fields where
// the new ones are empty, gives templates under both numbers, and answers
// options under both to a client that sent its defaults in old fields. The
// client writes and reads new fields only, falling back to the old number for
// templates.
//
// # Errors
//
// Errors cross the wire as a gRPC code, which is all that Cluster Autoscaler and
// other servers know, and a detail naming the sentinel error of package
// cloudprovider, so that errors.Is, cloudprovider.Refused, OwnMistake and
// ClassOf answer the same on both sides. Of servers that send no such detail the
// client believes only Unimplemented, NotFound, and InvalidArgument for changes
// of size; all else is cloudprovider.ErrUnavailable, after which a caller has to
// look what became of its call.
//
// # Options
//
// Cluster Autoscaler takes MaxNodeStartupTime for zero as soon as a group has
// options, whatever they are. So the server answers Unimplemented unless a
// group's options differ from the defaults.
package externalgrpc
