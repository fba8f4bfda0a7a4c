package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// auditPolicy has the API server write down who changed what, when that is done.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
  "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
  "rules": [{"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]}, {"level": "None"}]}
`

// auditReadsPolicy has it write down what is read, too, and watches when they begin.
const auditReadsPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
  "omitStages": ["RequestReceived", "Panic"], "rules": [{"level": "Metadata"}]}
`

// writing are the verbs of those who change something.
var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

// A Write is a call that changed something in the API server, or was to.
type Write struct {
	// Verb is create, update, patch, delete or deletecollection, and get, list or watch of those that Calls returns.
	Verb string
	// Group, Resource and Subresource say what was written: for the Scale of a
	// Deployment they are apps, deployments and scale.
	Group, Resource, Subresource string
	// Namespace and Name are those of the object, in which a name that is generated
	// is not known.
	Namespace, Name string
	// Code is the HTTP status of the answer.
	Code int
	// At is when the call came in.
	At time.Time
}

// A Mark is a point in the history of writes. The zero value is its beginning.
type Mark int64

// by is who acted.
func by(e *auditv1.Event) string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// Mark returns the present point in the history of writes, for Writes. The control
// plane must have been started with Options.Audit.
func (c *ControlPlane) Mark() (Mark, error) {
	info, err := os.Stat(c.layout.audit())
	if err != nil {
		return 0, fmt.Errorf("finding the end of the audit log: %w", err)
	}
	return Mark(info.Size()), nil // perhaps in the middle of a line that is being written
}

// Writes returns what a user, or who acted as that user, has written since, in the
// order of the answers. A call is in it when it is answered; if the answer is
// long, a moment later. All programs of the control plane are the user admin.
func (c *ControlPlane) Writes(user string, since Mark) ([]Write, error) {
	calls, err := c.Calls(user, since)
	return slices.DeleteFunc(calls, func(w Write) bool { return !slices.Contains(writing, w.Verb) }), err
}

// Calls returns what Writes does, and what the user has read if the control plane was started with Options.AuditReads.
func (c *ControlPlane) Calls(user string, since Mark) ([]Write, error) {
	log, err := os.Open(c.layout.audit())
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer log.Close()
	if _, err := log.Seek(max(0, int64(since)-1), io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	if since > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n")) // the end of the last line before the mark
	}
	var writes []Write
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		e := auditv1.Event{ObjectRef: &auditv1.ObjectReference{}, ResponseStatus: &metav1.Status{}}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		if by(&e) != user {
			continue
		}
		o := e.ObjectRef
		writes = append(writes, Write{
			Verb: e.Verb, Group: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource,
			Namespace: o.Namespace, Name: o.Name, Code: int(e.ResponseStatus.Code), At: e.RequestReceivedTimestamp.Time,
		})
	}
	return writes, nil
}
