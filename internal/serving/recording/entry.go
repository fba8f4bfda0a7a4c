package recording

import (
	"encoding/json"
	"io"
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

// failure is the error of a call as it is written.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// write writes the call as a line. Each message is in memory once more while it is
// written, as JSON.
func (e *entry) write(out io.Writer) error {
	head := struct {
		Method string `json:"method"`
	}{e.method}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	line := &pieces{out: out}
	line.add(text[:len(text)-1]) // the object stays open
	line.message(`,"request":`, e.request)
	if e.err == nil {
		line.message(`,"response":`, e.response)
	} else {
		found := status.Convert(e.err)
		text, err := json.Marshal(failure{found.Code().String(), found.Message()})
		if err != nil {
			return err
		}
		line.add([]byte(`,"error":`))
		line.add(text)
	}
	line.add([]byte(`,"t":`))
	line.add(strconv.AppendFloat(nil, e.time.Seconds(), 'f', -1, 64))
	line.add([]byte("}\n"))
	return line.err
}

// pieces writes one piece after the other until one fails.
type pieces struct {
	out io.Writer
	err error
}

func (p *pieces) add(text []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(text)
	}
}

func (p *pieces) message(name string, m proto.Message) {
	if p.err != nil {
		return
	}
	// Room for bytes in base64, so that a large message is not copied as it grows.
	text, err := protojson.MarshalOptions{}.MarshalAppend(make([]byte, 0, proto.Size(m)*3/2+64), m)
	if err != nil {
		p.err = err
		return
	}
	p.add([]byte(name))
	p.add(text)
}
