package grpcexpander

import (
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// requestFromWire decodes each distinct pod once, however many options have it.
func requestFromWire(wire *grpcexpanderpb.BestOptionsRequest) (expander.Question, error) {
	request := expander.Question{Options: make([]expander.Offer, 0, len(wire.GetOptions()))}
	pods := distinct{index: map[string]int{}}
	for _, o := range wire.GetOptions() {
		encoded := o.GetPodBytes()
		if len(encoded) == 0 {
			encoded = o.GetPod()
		}
		option := expander.Offer{Group: o.GetNodeGroupId(), NodeCount: int(o.GetNodeCount()), Debug: o.GetDebug(),
			Pods: make([]int, 0, len(encoded))}
		for _, pod := range encoded {
			option.Pods = append(option.Pods, pods.add(pod))
		}
		request.Options = append(request.Options, option)
	}
	var err error
	if request.Pods, err = decodePods(pods.encoded); err != nil {
		return expander.Question{}, err
	}
	encoded := wire.GetNodeBytesMap()
	if len(encoded) == 0 {
		encoded = wire.GetNodeMap()
	}
	request.Nodes = make(map[string]*v1.Node, len(encoded))
	for group, text := range encoded {
		node := &v1.Node{}
		if err := node.Unmarshal(text); err != nil {
			return expander.Question{}, fmt.Errorf("template of %q: %w", group, err)
		}
		request.Nodes[group] = node
	}
	return request, nil
}

// distinct numbers different texts in the order of their first occurrence.
type distinct struct {
	encoded [][]byte
	index   map[string]int
}

func (d *distinct) add(text []byte) int {
	i, known := d.index[string(text)]
	if !known {
		i = len(d.encoded)
		d.index[string(text)] = i
		d.encoded = append(d.encoded, text)
	}
	return i
}

// decodePods uses all processors, because decoding is most of the work of a large request.
func decodePods(encoded [][]byte) ([]*v1.Pod, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	pods := make([]*v1.Pod, len(encoded))
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	for i, text := range encoded {
		decoding.Go(func() error {
			pods[i] = &v1.Pod{}
			if err := pods[i].Unmarshal(text); err != nil {
				return fmt.Errorf("pod %d: %w", i, err)
			}
			return nil
		})
	}
	return pods, decoding.Wait()
}
