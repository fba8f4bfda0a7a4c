package autoscaler

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// A tap passes on what it is sent, says what it was and how it was answered,
// and keeps the server's clients apart.
func TestTap(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Te") != "trailers" {
			t.Errorf("Te is %q: no gRPC server takes that", r.Header.Get("Te"))
		}
		if r.URL.Path == "/service/Refused" {
			w.Header().Set("Grpc-Status", "14") // the answer has no message, so this is no trailer
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(body)
		w.Header().Set("Grpc-Status", "0")
	}))
	server.Config.Protocols = http2()
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	tap := NewTap(t, server.Listener.Addr().String())

	message := increase("b", 3)
	for range 2 {
		client := &http.Client{Transport: &http.Transport{Protocols: http2()}}
		for _, c := range []struct {
			method, status string
			body           []byte
		}{
			{Refresh, "0", []byte{0, 0, 0, 0, 0}},
			{IncreaseSize, "0", message},
			{"Refused", "14", message},
		} {
			status, echo := post(t, client, "http://"+tap.Address+"/service/"+c.method, c.body)
			if status != c.status || c.status == "0" && !bytes.Equal(echo, c.body) {
				t.Errorf("%s was answered with %q and %x, want %q and %x", c.method, status, echo, c.status, c.body)
			}
		}
		client.CloseIdleConnections()
	}
	if got := connections.Load(); got != 2 {
		t.Errorf("the server saw %d connections, want one for each of 2 clients", got)
	}
	calls := tap.Calls()
	want := []Call{{Method: Refresh, OK: true}, {Method: IncreaseSize, Group: "b", Delta: 3, OK: true}, {Method: "Refused"}}
	if len(calls) != 2*len(want) {
		t.Fatalf("calls are %+v, want %+v twice", calls, want)
	}
	for i, got := range calls {
		if got.At.After(got.Ended) {
			t.Errorf("call %d began at %s and ended at %s", i, got.At, got.Ended)
		}
		got.At, got.Ended = want[i%3].At, want[i%3].Ended
		if got != want[i%3] {
			t.Errorf("call %d is %+v, want %+v", i, got, want[i%3])
		}
	}
}

// A server that is not there is an error for the client, and told.
func TestTapWithoutServer(t *testing.T) {
	tap := NewTap(t, process.FreeAddress(t))
	client := &http.Client{Transport: &http.Transport{Protocols: http2()}}
	t.Cleanup(client.CloseIdleConnections)
	if status, _ := post(t, client, "http://"+tap.Address+"/service/"+Refresh, nil); status != "" {
		t.Errorf("the status is %q, want none", status)
	}
	if err := tap.Until(t.Context(), func(calls []Call) bool { return len(calls) > 0 }); err != nil {
		t.Fatal(err)
	}
	if c := tap.Calls()[0]; c.Method != Refresh || c.OK {
		t.Errorf("the call is %+v, want a Refresh that failed", c)
	}
}

// A loop counts once however many groups grow in it, and what failed does not count.
func TestCounts(t *testing.T) {
	loop, grown, failed := Call{Method: Refresh, OK: true}, Call{Method: IncreaseSize, OK: true}, Call{Method: IncreaseSize}
	calls := []Call{loop, failed, loop, grown, grown, {Method: Refresh}, loop, failed, grown}
	if n := Refreshes(calls); n != 3 {
		t.Errorf("%d loops were begun, want 3", n)
	}
	if got := Increases(calls); len(got) != 3 || len(calls) != 9 || calls[1] != failed {
		t.Errorf("increases are %v of %v, want 3", got, calls)
	}
	if n := Growing(calls); n != 2 {
		t.Errorf("%d loops had increases, want 2", n)
	}
}

// Bytes that are not a message of a resize have neither group nor delta.
func FuzzResize(f *testing.F) {
	f.Add(increase("b", 3))
	f.Add(increase("", -1))
	f.Add([]byte{0, 0, 0, 0, 1, 8})
	f.Add([]byte{0, 0, 0, 0, 2, 18, 200})
	f.Fuzz(func(t *testing.T, body []byte) {
		group, delta, _ := resize(body)
		again, same, _ := resize(increase(group, delta))
		if again != group || same != delta {
			t.Errorf("%x is %q %d, and written again %q %d", body, group, delta, again, same)
		}
	})
}

// The request of a deletion has a number of nodes, and no delta.
func TestDeletedNodes(t *testing.T) {
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "one")
	m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), "two")
	m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), "b")
	if group, delta, nodes := resize(append([]byte{0, 0, 0, 0, byte(len(m))}, m...)); group != "b" || delta != 0 || nodes != 2 {
		t.Errorf("a deletion of %d nodes of %q with a delta of %d, want 2 of b with none", nodes, group, delta)
	}
}

// increase is the request as gRPC sends it.
func increase(group string, delta int) []byte {
	m := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(delta))
	m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), group)
	return append([]byte{0, byte(len(m) >> 24), byte(len(m) >> 16), byte(len(m) >> 8), byte(len(m))}, m...)
}

// post makes a call as gRPC does.
func post(t *testing.T, client *http.Client, url string, body []byte) (status string, answer []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Te", "trailers")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	if status = response.Trailer.Get("Grpc-Status"); status == "" {
		status = response.Header.Get("Grpc-Status")
	}
	return status, answer
}
