package process

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Loopback is the address of this machine that everything listens on.
const Loopback = "127.0.0.1"

// Run starts a program, waits until it is ready and ends it with the test. Its
// log lies in the test's artifact folder, under the program's name; if the test
// fails, the end is shown.
func Run(t testing.TB, p *Process) *Process {
	t.Helper()
	p.Log = filepath.Join(t.ArtifactDir(), p.Name+".log")
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Log, p.Tail(15))
		}
	})
	if err := p.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// Answers makes a Ready of a URL: whether it answers 200. The connection is not
// kept.
func Answers(url string) func(context.Context) bool {
	return AnswersWith(http.DefaultClient, url, "")
}

// AnswersWith is Answers by a client, with a word in what is answered.
func AnswersWith(client *http.Client, url, word string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return false
		}
		request.Close = true
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), word)
	}
}
