package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/followed"
	"github.com/evenkeel/evenkeel/internal/grouppolicy"
	"github.com/evenkeel/evenkeel/sidecar"
)

// choiceFlags are the flags of a server that chooses between options of Cluster Autoscaler.
type choiceFlags struct {
	expander, priorities string
	policies             string // file
}

func (o *choiceFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.expander, "expander", expander.Default, "strategies that choose between sets, comma-separated: "+
		strings.Join(expander.Names(), ", "))
	f.StringVar(&o.priorities, "expander-priorities", "",
		"FILE with the priorities of the strategy priority: Cluster Autoscaler's ConfigMap, or its key alone; it is read again when it changes")
	f.StringVar(&o.policies, "node-group-policies", "", "FILE of NodeGroupPolicies, which declare sets; it is read again when it changes")
}

// decide sets the strategies and the declared sets, and what follows their files.
func (o *choiceFlags) decide(to *sidecar.Options) (err error) {
	if to.Chain, to.Chains, err = o.chain(); err != nil || o.policies == "" {
		return err
	}
	file, policies, err := grouppolicy.Open(o.policies)
	if err != nil {
		return err
	}
	to.Policies, to.Similarity.Policies = file, policies
	return nil
}

// chain makes the strategies; follow is what replaces them when the priorities change, if there
// are any.
func (o *choiceFlags) chain() (chain expander.Chain, follow sidecar.Followed[expander.Chain], err error) {
	names, err := expander.ParseNames(o.expander)
	if err != nil {
		return chain, nil, &usageError{fmt.Errorf("--expander=%s: %w", o.expander, err), "strategies are " + strings.Join(expander.Names(), ", ")}
	}
	if o.priorities != "" {
		file, chain, err := followed.Open(o.priorities, func(_ string, content []byte) (expander.Chain, error) {
			priorities, err := expander.ParsePriorities(content)
			if err != nil {
				return expander.Chain{}, err
			}
			return expander.New(names, expander.Config{Priorities: priorities})
		})
		if err != nil {
			return chain, nil, &usageError{fmt.Errorf("--expander-priorities=%s: %w", o.priorities, err),
				"a map from priorities to regular expressions"}
		}
		return chain, file, nil
	}
	if chain, err = expander.New(names, expander.Config{}); err != nil {
		return chain, nil, &usageError{fmt.Errorf("--expander=%s: %w", o.expander, err), "see --expander-priorities"}
	}
	return chain, nil, nil
}
