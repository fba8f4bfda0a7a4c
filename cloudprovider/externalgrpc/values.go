package externalgrpc

import (
	"cmp"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

func int32Of(what string, n int) (int32, error) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s %d does not fit into 32 bits", what, n)
	}
	return int32(n), nil
}

func groupToWire(g cloudprovider.NodeGroup) (*externalgrpcpb.NodeGroup, error) {
	lowest, err := int32Of("minimum size of "+g.ID, g.MinSize)
	if err != nil {
		return nil, err
	}
	highest, err := int32Of("maximum size of "+g.ID, g.MaxSize)
	if err != nil {
		return nil, err
	}
	return &externalgrpcpb.NodeGroup{Id: g.ID, MinSize: lowest, MaxSize: highest, Debug: g.Debug}, nil
}

func groupFromWire(g *externalgrpcpb.NodeGroup) cloudprovider.NodeGroup {
	return cloudprovider.NodeGroup{ID: g.GetId(), MinSize: int(g.GetMinSize()), MaxSize: int(g.GetMaxSize()), Debug: g.GetDebug()}
}

func nodeToWire(node *v1.Node) *externalgrpcpb.ExternalGrpcNode {
	return &externalgrpcpb.ExternalGrpcNode{
		ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations,
	}
}

func nodeFromWire(node *externalgrpcpb.ExternalGrpcNode) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.GetName(), Labels: node.GetLabels(), Annotations: node.GetAnnotations()},
		Spec:       v1.NodeSpec{ProviderID: node.GetProviderID()},
	}
}

// instanceToWire follows the rules of the other side: without a state there is no status, and
// without a code there is no error.
func instanceToWire(in cloudprovider.Instance) *externalgrpcpb.Instance {
	out := &externalgrpcpb.Instance{Id: in.ID}
	state := in.State
	if in.Error != nil && state == 0 {
		state = cloudprovider.InstanceCreating
	}
	if state == 0 {
		return out
	}
	out.Status = &externalgrpcpb.InstanceStatus{InstanceState: externalgrpcpb.InstanceStatus_InstanceState(state)}
	if in.Error != nil {
		out.Status.ErrorInfo = &externalgrpcpb.InstanceErrorInfo{
			ErrorCode:          cmp.Or(in.Error.Code, in.Error.Class.String()),
			ErrorMessage:       in.Error.Message,
			InstanceErrorClass: int32(in.Error.Class),
		}
	}
	return out
}

func instanceFromWire(in *externalgrpcpb.Instance) cloudprovider.Instance {
	out := cloudprovider.Instance{ID: in.GetId()}
	state := cloudprovider.InstanceState(in.GetStatus().GetInstanceState())
	if state < cloudprovider.InstanceRunning || state > cloudprovider.InstanceDeleting {
		return out
	}
	out.State = state
	if info := in.GetStatus().GetErrorInfo(); info.GetErrorCode() != "" {
		out.Error = &cloudprovider.InstanceError{
			Class: cloudprovider.ErrorClass(info.GetInstanceErrorClass()), Code: info.GetErrorCode(), Message: info.GetErrorMessage(),
		}
	}
	return out
}

// wireOptions is the part of the options that crosses the wire.
func wireOptions(o cloudprovider.GroupOptions) cloudprovider.GroupOptions {
	o.MaxNodeStartupTime, o.AllowNonAtomicScaleUpToMax = 0, false
	return o
}

// optionsToWire sets all durations, because a missing one counts as zero. old adds the fields of
// 1.34 and older.
func optionsToWire(o cloudprovider.GroupOptions, old bool) *externalgrpcpb.NodeGroupAutoscalingOptions {
	out := &externalgrpcpb.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    o.ScaleDownUtilizationThreshold,
		ScaleDownGpuUtilizationThreshold: o.ScaleDownGPUUtilizationThreshold,
		ZeroOrMaxNodeScaling:             o.ZeroOrMaxNodeScaling,
		IgnoreDaemonSetsUtilization:      o.IgnoreDaemonSetsUtilization,
		ScaleDownUnneededDuration:        durationpb.New(o.ScaleDownUnneededTime),
		ScaleDownUnreadyDuration:         durationpb.New(o.ScaleDownUnreadyTime),
		MaxNodeProvisionDuration:         durationpb.New(o.MaxNodeProvisionTime),
	}
	if old {
		out.ScaleDownUnneededTime = &externalgrpcpb.KubernetesDuration{Duration: int64(o.ScaleDownUnneededTime)}
		out.ScaleDownUnreadyTime = &externalgrpcpb.KubernetesDuration{Duration: int64(o.ScaleDownUnreadyTime)}
		out.MaxNodeProvisionTime = &externalgrpcpb.KubernetesDuration{Duration: int64(o.MaxNodeProvisionTime)}
	}
	return out
}

// optionsFromWire reads the new fields, or the old ones if the new ones are missing. old reports
// whether there are any old ones.
func optionsFromWire(o *externalgrpcpb.NodeGroupAutoscalingOptions) (options cloudprovider.GroupOptions, old bool) {
	unneeded, unready, provision := o.GetScaleDownUnneededTime(), o.GetScaleDownUnreadyTime(), o.GetMaxNodeProvisionTime()
	return cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold:    o.GetScaleDownUtilizationThreshold(),
		ScaleDownGPUUtilizationThreshold: o.GetScaleDownGpuUtilizationThreshold(),
		ZeroOrMaxNodeScaling:             o.GetZeroOrMaxNodeScaling(),
		IgnoreDaemonSetsUtilization:      o.GetIgnoreDaemonSetsUtilization(),
		ScaleDownUnneededTime:            durationOf(o.GetScaleDownUnneededDuration(), unneeded),
		ScaleDownUnreadyTime:             durationOf(o.GetScaleDownUnreadyDuration(), unready),
		MaxNodeProvisionTime:             durationOf(o.GetMaxNodeProvisionDuration(), provision),
	}, unneeded != nil || unready != nil || provision != nil
}

func durationOf(d *durationpb.Duration, old *externalgrpcpb.KubernetesDuration) time.Duration {
	if d == nil {
		return time.Duration(old.GetDuration())
	}
	return d.AsDuration()
}

// timeOf returns the first time that is set.
func timeOf(t, old *timestamppb.Timestamp) time.Time {
	return cmp.Or(t, old).AsTime()
}

func priceToWire(p cloudprovider.Price) float64 { return float64(p) / float64(cloudprovider.PriceUnit) }

func priceFromWire(price float64) (cloudprovider.Price, error) {
	scaled := math.Round(price * float64(cloudprovider.PriceUnit))
	if !(math.Abs(scaled) < math.MaxInt64) { // NaN too
		return 0, fmt.Errorf("%w: price %g", cloudprovider.ErrUnavailable, price)
	}
	return cloudprovider.Price(scaled), nil
}
