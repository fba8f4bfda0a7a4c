package cluster

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/steering"
)

// Notices writes what is done about pods into their condition NodeProvisioningInProgress.
type Notices struct{ writer *conditions.Writer }

func newNotices(client kubernetes.Interface, o *Options) *Notices {
	return &Notices{conditions.New(client.CoreV1(), conditions.Options{Metrics: o.PodConditions, Clock: o.Clock, Log: o.Log})}
}

// Set has conditions written soon. It never blocks.
func (n *Notices) Set(notices []steering.Notice) {
	out := make([]conditions.Notice, len(notices))
	for i, one := range notices {
		reason := ""
		switch {
		case !one.Acting:
			reason = provisioning.ReasonNoOptions
		case one.Failed:
			reason = provisioning.ReasonAttemptFailed
		}
		out[i] = conditions.Notice{Namespace: one.Namespace, Name: one.Name, UID: one.UID, Acting: one.Acting, Reason: reason,
			Message: one.Message}
	}
	n.writer.Set(out)
}

func (n *Notices) run(ctx context.Context) { n.writer.Run(ctx) }
