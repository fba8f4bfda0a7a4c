package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// MaxLine is how long a line may be that is read, in bytes.
const MaxLine = 1 << 30

// maxTime is the latest time of a call that is read: thirty years.
const maxTime = 30 * 365 * 24 * time.Hour

// Call is a call and its answer.
type Call struct {
	Method   string // /package.Service/Method
	Request  proto.Message
	Response proto.Message // nil where Err is not
	Err      error         // of gRPC; nil where the call succeeded
	Time     time.Duration // since the recording began
}

// failure is the error of a call as it is written.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Write writes a call as a line. Each message is in memory once more while it is
// written, as JSON.
func Write(out io.Writer, c *Call) error {
	head := struct {
		Method string `json:"method"`
	}{c.Method}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	line := &pieces{out: out}
	line.add(text[:len(text)-1]) // the object stays open
	line.message(`,"request":`, c.Request)
	if c.Err == nil {
		line.message(`,"response":`, c.Response)
	} else {
		found := status.Convert(c.Err)
		text, err := json.Marshal(failure{found.Code().String(), found.Message()})
		if err != nil {
			return err
		}
		line.add([]byte(`,"error":`))
		line.add(text)
	}
	line.add([]byte(`,"t":`))
	line.add(strconv.AppendFloat(nil, c.Time.Seconds(), 'f', -1, 64))
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

// Read reads the calls of a recording, line by line. The services of the files are
// those it knows; messages have the types generated for them. A line that is no
// call of theirs gives an error that names it, and the next one is read all the
// same. It ends at the end, or where in can not be read.
func Read(in io.Reader, files ...protoreflect.FileDescriptor) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, MaxLine)
		for n := 1; lines.Scan(); n++ {
			if len(lines.Bytes()) == 0 {
				continue
			}
			call, err := parse(lines.Bytes(), files)
			if err != nil {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if !yield(call, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, fmt.Errorf("reading a recording: %w", err))
		}
	}
}

func parse(line []byte, files []protoreflect.FileDescriptor) (*Call, error) {
	var raw struct {
		Method   string          `json:"method"`
		Request  json.RawMessage `json:"request"`
		Response json.RawMessage `json:"response"`
		Error    *failure        `json:"error"`
		T        float64         `json:"t"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	method := find(raw.Method, files)
	switch {
	case method == nil:
		return nil, fmt.Errorf("method %q: not known", raw.Method)
	case raw.Request == nil:
		return nil, errors.New("request: missing")
	case (raw.Response == nil) == (raw.Error == nil):
		return nil, errors.New("response, error: there has to be one of them")
	case raw.T < 0 || raw.T > maxTime.Seconds():
		return nil, fmt.Errorf("t: %v is no time of a recording", raw.T)
	}
	call := &Call{Method: raw.Method, Time: time.Duration(math.Round(raw.T * float64(time.Second)))}
	var err error
	if call.Request, err = decode(raw.Request, method.Input()); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if raw.Error != nil {
		code, err := raw.Error.code()
		if err != nil {
			return nil, fmt.Errorf("error: %w", err)
		}
		call.Err = status.Error(code, raw.Error.Message)
		return call, nil
	}
	if call.Response, err = decode(raw.Response, method.Output()); err != nil {
		return nil, fmt.Errorf("response: %w", err)
	}
	return call, nil
}

// find finds the method of a full name, /package.Service/Method; nil if there is none.
func find(full string, files []protoreflect.FileDescriptor) protoreflect.MethodDescriptor {
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				if full == fmt.Sprintf("/%s/%s", service.FullName(), method.Name()) {
					return method
				}
			}
		}
	}
	return nil
}

func decode(text []byte, of protoreflect.MessageDescriptor) (proto.Message, error) {
	generated, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return nil, err
	}
	m := generated.New().Interface()
	return m, protojson.Unmarshal(text, m)
}

// code is that of the error the client saw.
func (f *failure) code() (codes.Code, error) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if code.String() == f.Code {
			return code, nil
		}
	}
	return codes.OK, fmt.Errorf("code %q: not one of gRPC", f.Code)
}
