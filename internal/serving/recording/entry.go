package recording

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// entry is a call and its answer, which wait to be written.
type entry struct {
	method   string // /package.Service/Method
	request  proto.Message
	response proto.Message // nil where err is not
	err      error         // of gRPC; nil where the call succeeded
	time     time.Duration // since the recording began
	size     int           // of the messages, in bytes
}

// write writes the call as a line. Each message is in memory once more while it is written, as JSON. An error of
// the file is that of the flush.
func (e *entry) write(out *bufio.Writer) error {
	request, err := encoded(e.request)
	if err != nil {
		return err
	}
	var answer []byte
	name := "response"
	if e.err == nil {
		answer, err = encoded(e.response)
	} else {
		failed := status.Convert(e.err)
		name = "error"
		answer, err = json.Marshal(struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		}{failed.Code().String(), failed.Message()})
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, `{"method":%q,"request":`, e.method)
	_, _ = out.Write(request)
	_, _ = fmt.Fprintf(out, `,%q:`, name)
	_, _ = out.Write(answer)
	_, _ = fmt.Fprintf(out, `,"t":%s}`+"\n", strconv.FormatFloat(e.time.Seconds(), 'f', -1, 64))
	return out.Flush()
}

// encoded has room for bytes in base64 from the beginning, so that a large message is not copied as it grows.
func encoded(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{}.MarshalAppend(make([]byte, 0, proto.Size(m)*3/2+64), m)
}
