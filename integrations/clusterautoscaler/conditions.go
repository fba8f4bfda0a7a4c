package clusterautoscaler

import (
	"context"
	"fmt"
	"sync"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/status"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
)

var conditionMetrics = sync.OnceValue(func() *conditions.Metrics {
	return conditions.NewMetrics(legacyregistry.Registerer(), linked.MetricsPrefix)
})

// podConditions writes the conditions of pods after every scale-up.
type podConditions struct {
	status.ScaleUpStatusProcessor
	set  func([]conditions.Notice)
	stop func()
}

// installConditions has the conditions of pods written, if that was asked for. The processor that is there
// goes first: it takes out pods that stand for others.
func (b *Balancer) installConditions(p *processors.AutoscalingProcessors) error {
	if !b.conditions {
		return nil
	}
	pods := b.pods
	if pods == nil {
		client, err := ownClient(b.client)
		if err != nil {
			return fmt.Errorf("install evenkeel: build a client for the conditions of pods: %w", err)
		}
		pods = client.CoreV1()
	}
	writer := conditions.New(pods, conditions.Options{Metrics: conditionMetrics(), Log: klog.Background().WithName("evenkeel")})
	ctx, stop := context.WithCancel(context.Background())
	go writer.Run(ctx)
	next := p.ScaleUpStatusProcessor
	if next == nil {
		next = &status.NoOpScaleUpStatusProcessor{}
	}
	p.ScaleUpStatusProcessor = &podConditions{ScaleUpStatusProcessor: next, set: writer.Set, stop: stop}
	return nil
}

// ownClient is one beside the autoscaler's, whose few requests per second are for its loop.
func ownClient(options config.KubeClientOptions) (*kubernetes.Clientset, error) {
	c := kube_util.GetKubeConfig(options)
	c.QPS = -1 // the writer has a limit
	return kubernetes.NewForConfig(c)
}

// Process has the wrapped processor do what it does, and the conditions written.
func (c *podConditions) Process(ctx *ca_context.AutoscalingContext, s *status.ScaleUpStatus) {
	c.ScaleUpStatusProcessor.Process(ctx, s)
	if s != nil {
		c.set(podResult(s).Notices())
	}
}

// CleanUp is called when the autoscaler ends.
func (c *podConditions) CleanUp() {
	c.ScaleUpStatusProcessor.CleanUp()
	c.stop()
}

// podResult reads what a scale-up has meant for pods.
func podResult(s *status.ScaleUpStatus) linked.PodResult {
	out := linked.PodResult{Triggered: s.PodsTriggeredScaleUp, Failed: s.Result == status.ScaleUpError,
		Reason: linked.ReasonOf(s.Result.String())}
	for _, info := range s.ScaleUpInfos {
		out.Groups = append(out.Groups, info.Group.Id())
	}
	considered := cloudprovider.NodeGroupListToMapById(s.ConsideredNodeGroups)
	for _, left := range s.PodsRemainUnschedulable {
		out.Left = append(out.Left, linked.LeftPod{Pod: left.Pod, Why: status.ReasonsMessage(s.Result, left, considered)})
	}
	return out
}
