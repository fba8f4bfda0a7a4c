// Package externalgrpc implements Cluster Autoscaler's external cloud provider protocol: Server
// serves any cloudprovider.Provider, and Client is a cloudprovider.Provider that calls any such
// server.
//
// The package translates messages and keeps no state except the list of groups between two
// refreshes. It opens no connection and no listener, and decides nothing.
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
// Errors cross the wire as a gRPC code, which is all that Cluster Autoscaler and other servers
// know, and a detail naming the sentinel error of package cloudprovider, so that errors.Is,
// cloudprovider.Refused and OwnMistake answer the same on both sides. If a server sends no
// such detail, the client trusts only Unimplemented, NotFound, and InvalidArgument for changes of
// size; everything else is cloudprovider.ErrUnavailable, after which a caller must check whether
// its call took effect.
//
// # Options
//
// As soon as a group has any options, Cluster Autoscaler takes its MaxNodeStartupTime as zero.
// Therefore the server answers Unimplemented unless a group's options differ from the defaults.
package externalgrpc
