package externalgrpcpb_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func Example() {
	bytes, err := proto.Marshal(&externalgrpcpb.NodeGroupIncreaseSizeRequest{Id: "a", Delta: 3})
	fmt.Printf("% x %v\n", bytes, err) // delta is 1, id is 2
	// Output: 08 03 12 01 61 <nil>
}
