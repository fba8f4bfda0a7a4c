package grpcexpander

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

const (
	// MaxMessage is the maximum size of a message in bytes: every option contains all its pods.
	// Cluster Autoscaler sends messages of any size.
	MaxMessage = 128 << 20
	// maxErrorText bounds the bytes of an error's text, which travels in a header.
	maxErrorText = 4096
)

// Server serves a chooser to Cluster Autoscaler. It needs a grpc.Server that
// receives messages up to MaxMessage.
type Server struct {
	grpcexpanderpb.UnimplementedExpanderServer
	chooser expander.Chooser
}

// NewServer returns a server for the chooser.
func NewServer(chooser expander.Chooser) *Server { return &Server{chooser: chooser} }

// Register makes the server answer on a grpc.Server.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	grpcexpanderpb.RegisterExpanderServer(registrar, s)
}

// BestOptions implements the protocol.
func (s *Server) BestOptions(ctx context.Context, wire *grpcexpanderpb.BestOptionsRequest) (*grpcexpanderpb.BestOptionsResponse, error) {
	request, err := requestFromWire(wire)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, short(err))
	}
	offered := make(map[string]bool, len(request.Options))
	for i := range request.Options {
		offered[request.Options[i].Group] = true
	}
	groups, err := s.chooser.BestOptions(ctx, request)
	if err != nil {
		return nil, toStatus(err)
	}
	answer := &grpcexpanderpb.BestOptionsResponse{}
	for _, group := range groups {
		if !offered[group] {
			return nil, status.Errorf(codes.Internal, "chose %q, which is not an option", group)
		}
		answer.Options = append(answer.Options, &grpcexpanderpb.Option{NodeGroupId: group})
	}
	return answer, nil
}

func toStatus(err error) error {
	code := status.FromContextError(err).Code()
	if code == codes.Unknown {
		code = codes.Unavailable
	}
	return status.Error(code, short(err))
}

func short(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
}
