package grpcexpanderpb_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

func Example() {
	bytes, err := proto.Marshal(&grpcexpanderpb.Option{NodeGroupId: "a", NodeCount: 3, PodBytes: [][]byte{{0x70}}})
	fmt.Printf("% x %v\n", bytes, err)
	// Output: 0a 01 61 10 03 2a 01 70 <nil>
}
