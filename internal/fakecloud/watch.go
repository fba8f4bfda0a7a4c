package fakecloud

import (
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/fake"
)

// Watch watches the callers of a cloud: changed is called after every call that may have changed the
// cloud, may be nil; the logger logs changes and calls that failed to make one, and with verbosity 4
// all calls. The cloud's own log of calls stays empty. It must be called before the cloud is.
func Watch(cloud *fake.Cloud, changed func(), logger klog.Logger) {
	cloud.Observe(func(call fake.Call) func(fake.Call) {
		before := cloud.Target(call.Group)
		return func(call fake.Call) {
			how, number := "delta", call.Delta
			switch call.Method {
			case fake.MethodDeleteNodes:
				how, number = "deletedNodes", len(call.Nodes)
			case fake.MethodIncreaseSize, fake.MethodDecreaseTargetSize:
			default:
				logger.V(4).Info("Answered a call", "method", call.Method, "error", call.Error)
				return
			}
			switch after := cloud.Target(call.Group); { // even a call that fails may take effect
			case after != before:
				logger.Info("The size of a node group was changed", "group", call.Group, how, number, "from", before, "to", after, "error", call.Error)
			case call.Error != "":
				logger.Info("A call did not change the size of a node group", "group", call.Group, how, number, "size", after, "error", call.Error)
			default:
				logger.V(4).Info("A call had nothing to change", "group", call.Group, how, number, "size", after)
			}
			if changed != nil {
				changed()
			}
		}
	})
}
