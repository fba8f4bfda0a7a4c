package grpcexpander

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
)

// requestFromWire decodes each distinct pod once, however many options have it.
func requestFromWire(wire *grpcexpanderpb.BestOptionsRequest) (expander.Question, error) {
	request := expander.Question{Options: make([]expander.Offer, 0, len(wire.GetOptions()))}
	pods := distinct{seed: maphash.MakeSeed(), index: map[uint64]int{}}
	for _, o := range wire.GetOptions() {
		encoded := o.GetPodBytes()
		if len(encoded) == 0 {
			encoded = o.GetPod()
		}
		option := expander.Offer{Group: o.GetNodeGroupId(), NodeCount: int(o.GetNodeCount()), Debug: o.GetDebug(), Pods: make([]int, 0, len(encoded))}
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

// distinct numbers different texts in the order of their first occurrence, without copying them.
type distinct struct {
	encoded [][]byte
	seed    maphash.Seed
	index   map[uint64]int // by hash, or the next free number after it
}

func (d *distinct) add(text []byte) int {
	for key := maphash.Bytes(d.seed, text); ; key++ {
		i, ok := d.index[key]
		if !ok {
			d.index[key] = len(d.encoded)
			d.encoded = append(d.encoded, text)
			return len(d.encoded) - 1
		}
		if bytes.Equal(d.encoded[i], text) {
			return i
		}
	}
}

// decodePods uses all processors, because decoding is most of the work of a large request.
func decodePods(encoded [][]byte) ([]*v1.Pod, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	pods := make([]*v1.Pod, len(encoded))
	errs := make([]error, min(runtime.GOMAXPROCS(0), len(encoded)))
	var wg sync.WaitGroup
	for worker := range errs {
		wg.Go(func() {
			for i := worker; i < len(encoded) && errs[worker] == nil; i += len(errs) {
				pods[i] = &v1.Pod{}
				if err := pods[i].Unmarshal(encoded[i]); err != nil {
					errs[worker] = fmt.Errorf("pod %d: %w", i, err)
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return pods, nil
}
