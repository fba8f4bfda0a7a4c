package externalgrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/util/version"
)

// library begins what a client written in Go says of itself, before the version of its gRPC library.
const library = "grpc-go/"

// libraryOf136 is the lowest version that Cluster Autoscaler 1.36 can be built with. Releases 1.35
// and 1.34 have 1.75 and 1.72.
var libraryOf136 = version.MustParseSemantic("1.81.0")

// Before136 reports whether a served call is from a release of Cluster Autoscaler before 1.36.
// Nothing in the protocol tells these apart, but the version of the gRPC library does, in the
// header user-agent. A client that says nothing of the kind counts as newer.
func Before136(ctx context.Context) bool {
	for _, agent := range metadata.ValueFromIncomingContext(ctx, "user-agent") {
		for _, field := range strings.Fields(agent) {
			if name, found := strings.CutPrefix(field, library); found {
				v, err := version.ParseSemantic(name)
				return err == nil && v.LessThan(libraryOf136)
			}
		}
	}
	return false
}
