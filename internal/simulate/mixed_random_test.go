package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// mixture writes the spec of a scenario with random parts.
type mixture struct {
	*rand.Rand
	strings.Builder
	machines []string
	gpus     map[string]bool
	zones    []string
	groups   []string
}

// mixedScenario has what a Scenario document can say, all at once: several sets of groups, pods of all kinds that come and go,
// scale-down, and faults. Left out is what Cluster Autoscaler alone does not know, policies and zonal shifts, and WorkloadSpreads,
// which make other pods in each run.
func mixedScenario(r *rand.Rand) string {
	m := &mixture{Rand: r, gpus: map[string]bool{}}
	m.add("duration: 20m\nautoscaler: {mode: MODE, version: %q}\noptions: {randomSeed: SEED, %s}\n",
		m.one("1.36", "1.36", "1.36", "1.36", "1.35", "1.34"), m.options())
	m.cloud()
	m.pods()
	m.objects()
	m.faults()
	return m.String()
}

func (m *mixture) add(format string, args ...any) { fmt.Fprintf(m, format, args...) }

func (m *mixture) one(of ...string) string { return of[m.IntN(len(of))] }

// of reports true in so many of a hundred cases.
func (m *mixture) of(percent int) bool { return m.IntN(100) < percent }

// maybe is a text in so many of a hundred cases.
func (m *mixture) maybe(percent int, format string, args ...any) string {
	if !m.of(percent) {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (m *mixture) options() string {
	s := fmt.Sprintf("expander: %s, scanInterval: %s, maxNodeProvisionTime: %s", m.one("least-waste", "most-pods", "least-nodes", "random"),
		m.one("10s", "10s", "5s", "20s"), m.one("3m", "5m", "15m"))
	s += m.maybe(10, ", maxNodesTotal: %d", 8+m.IntN(30)) + m.maybe(8, ", coresTotal: %q", fmt.Sprint(30+m.IntN(150))) + m.maybe(5,
		", memoryTotal: %q", fmt.Sprint(100+m.IntN(600)))
	s += m.maybe(10, ", maxNodesPerScaleup: %d", 2+m.IntN(6)) + m.maybe(30, ", initialNodeGroupBackoffDuration: %ds",
		20+m.IntN(100)) + m.maybe(5, ", salvoScaleUp: true")
	s += m.maybe(5, ", schedulerConfig: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "+
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, "+
		"topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}]}]}")
	if m.of(80) {
		s += fmt.Sprintf(", scaleDownEnabled: true, scaleDownUnneededTime: %ds, scaleDownDelayAfterAdd: %ds, scaleDownUnreadyTime: %ds",
			20+m.IntN(120), m.IntN(90), 30+m.IntN(120))
		s += m.maybe(20, ", maxDrainParallelism: %d", 2+m.IntN(4)) + m.maybe(20, ", maxScaleDownParallelism: %d", 1+m.IntN(9)) + m.maybe(20,
			", scaleDownUtilizationThreshold: 0.%d", 3+m.IntN(6)) +
			m.maybe(20, ", skipNodesWithLocalStorage: false")
	}
	return s
}

// cloud writes machine types, each with a group in most zones, the quotas and the daemon sets.
func (m *mixture) cloud() {
	m.zones = []string{"a", "b", "c"}[:min(3, 1+m.IntN(6))]
	m.add("machines:\n")
	for i := range 1 + m.IntN(4) {
		name, cpu := fmt.Sprintf("m%d", i), 1<<m.IntN(5)
		resources := fmt.Sprintf("cpu: %d, memory: %dGi%s", cpu, cpu*2<<m.IntN(3), m.maybe(10, ", pods: %d", 4+m.IntN(8)))
		if m.gpus[name] = m.of(8); m.gpus[name] {
			resources += ", nvidia.com/gpu: 1"
		}
		m.machines = append(m.machines, name)
		m.add("- {name: %s, resources: {%s}, price: %d%s%s%s}\n", name, resources, 1+m.IntN(9), m.maybe(20, ", allocatable: {cpu: %dm}", 900*cpu),
			m.maybe(20, ", volumeLimits: {ebs.csi.aws.com: %d}", 1+m.IntN(4)),
			m.maybe(12, ", taints: [{key: dedicated, value: %s, effect: NoSchedule}]", name))
	}
	m.add("nodeGroups:\n")
	for at, machine := range m.machines {
		if len(m.zones) > 1 && m.of(8) {
			m.group(machine, "zones: ["+strings.Join(m.zones, ", ")+"]"+m.maybe(50, ", distribution: %s", m.one("Even", "Any")), machine,
				20+m.IntN(60))
			continue
		}
		boot, slow := 20+m.IntN(70), m.of(15)
		for _, zone := range m.zones {
			if at > 0 && m.of(10) { // every zone has a group
				continue
			}
			if slow {
				boot = 20 + m.IntN(220)
			}
			m.group(machine+"-"+zone, "zone: "+zone, machine, boot+60*m.IntN(7)*max(0, m.IntN(40)-38))
			if m.of(10) {
				m.group(machine+"-"+zone+"2", "zone: "+zone, machine, boot)
			}
		}
	}
	if m.of(10) {
		m.add("quotas: [{name: q, %s: [%s], %s}]\n", "zones", m.one(m.zones...), m.one("nodes: 6", "cores: 24", "memory: 100Gi"))
	}
	m.add("daemonSets:\n- {name: agent, requests: {cpu: %dm, memory: 64Mi}, tolerations: [{operator: Exists}]}\n", 10*(1+m.IntN(20)))
	if m.of(40) {
		m.add("- {name: probe, requests: {cpu: %dm, memory: 64Mi}, tolerations: [{operator: Exists}], nodeSelector: "+
			"{topology.kubernetes.io/zone: %s}}\n", 100*(2+m.IntN(8)), m.one(m.zones...))
	}
}

func (m *mixture) group(name, zone, machine string, boot int) {
	m.groups = append(m.groups, name)
	most := m.IntN(6)
	if m.of(70) {
		most += 6
	}
	m.add("- {name: %s, %s, machine: %s, max: %d, size: %d, bootTime: %ds%s%s%s%s%s%s}\n", name, zone, machine, most,
		min(most, max(0, m.IntN(5)-2)), boot,
		m.maybe(15, ", min: %d", min(most, 1)), m.maybe(20, ", readyDelay: %ds", m.IntN(60)), m.maybe(10, ", registrationDelay: %ds", m.IntN(40)),
		m.maybe(15, ", listDelay: %ds", 5+m.IntN(60)), m.maybe(2, ", allOrNothing: true"), m.maybe(2, ", registersAs: %s", m.one(m.machines...)))
}

// pods writes the workloads.
func (m *mixture) pods() {
	m.add("storageClasses: [{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: " +
		"ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}]\nworkloads:\n")
	for w := range 2 + m.IntN(5) {
		name := fmt.Sprintf("w%d", w)
		var p podParts
		for range 1 + max(0, m.IntN(4)-2) {
			m.trait(&p, name, w)
		}
		m.add("- {name: %s%s%s, template: {%s}}\n", name, m.course(), p.workload,
			p.template(fmt.Sprintf("cpu: %dm, memory: %dMi", 50*(3+m.IntN(30)), 128*(1+m.IntN(12)))))
	}
}

// course is how many pods of a workload there are, and when.
func (m *mixture) course() string {
	pods, at := 1+m.IntN(16), max(0, m.IntN(12)-4)*(10+m.IntN(60))
	s := fmt.Sprintf(", replicas: %d, arrive: %ds", pods, at)
	var steps []string
	add := func(pause, pods int) {
		at += pause
		steps = append(steps, fmt.Sprintf("{at: %ds, replicas: %d}", at, pods))
	}
	switch m.IntN(4) {
	case 0: // steadily
		for range 3 + m.IntN(10) {
			pods = max(0, pods+m.IntN(9)-4)
			add(20+m.IntN(70), pods)
		}
	case 1, 2:
		for range m.IntN(4) {
			add(30+m.IntN(400), m.IntN(20))
		}
	}
	return s + ", scale: [" + strings.Join(steps, ", ") + "]" + m.maybe(10, ", leave: %ds", at+30+m.IntN(400))
}

// podParts are parts of a workload and its pod template.
type podParts struct {
	workload, requests, container, metadata, spec string
	spreads, terms                                []string
}

func (p *podParts) template(requests string) string {
	spec := p.spec
	if len(p.spreads) > 0 {
		spec += ", topologySpreadConstraints: [" + strings.Join(p.spreads, ", ") + "]"
	}
	if len(p.terms) > 0 {
		spec += ", affinity: {" + strings.Join(p.terms, ", ") + "}"
	}
	return fmt.Sprintf("metadata: {%s}, spec: {containers: [{name: c, resources: {requests: {%s%s}}%s}]%s}", p.metadata, requests, p.requests,
		p.container, spec)
}

// trait adds what makes pods different from plain ones, unless they have it.
func (m *mixture) trait(p *podParts, name string, number int) {
	own := "labelSelector: {matchLabels: {app: " + name + "}}"
	once := func(to *string, key, text string) {
		if !strings.Contains(*to, key) {
			*to += text
		}
	}
	spread := func(key string) {
		if text := fmt.Sprintf("{maxSkew: %d, topologyKey: %s, whenUnsatisfiable: %s, %s}", 1+max(0, m.IntN(4)-2), key,
			m.one("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"), own); !strings.Contains(strings.Join(p.spreads, ""), key) {
			p.spreads = append(p.spreads, text)
		}
	}
	term := func(kind, key, selector string) {
		if !strings.Contains(strings.Join(p.terms, ""), kind+":") {
			p.terms = append(p.terms, fmt.Sprintf("%s: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, %s}]}", kind, key,
				selector))
		}
	}
	switch m.IntN(22) {
	case 0, 1, 2:
		spread("topology.kubernetes.io/zone")
	case 3:
		spread("kubernetes.io/hostname")
	case 4, 5:
		term("podAntiAffinity", "kubernetes.io/hostname", own)
	case 6:
		term(m.one("podAntiAffinity", "podAffinity"), "topology.kubernetes.io/zone", own)
	case 7:
		term("podAffinity", m.one("topology.kubernetes.io/zone", "kubernetes.io/hostname"),
			fmt.Sprintf("labelSelector: {matchLabels: {app: w%d}}", m.IntN(number+1)))
	case 8, 9:
		once(&p.spec, "nodeSelector", ", nodeSelector: {topology.kubernetes.io/zone: "+m.one(m.zones...)+"}")
	case 10:
		once(&p.spec, "nodeSelector", ", nodeSelector: {node.kubernetes.io/instance-type: "+m.one(m.machines...)+"}")
	case 11:
		once(&p.workload, ":",
			", volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: late, accessModes: [ReadWriteOnce], "+
				"resources: {requests: {storage: 1Gi}}}}]")
	case 12:
		once(&p.workload, ":", ", kind: "+m.one("StatefulSet", "ReplicaSet", "Job", "Deployment, rollouts: [{at: 10m}]"))
	case 13:
		once(&p.container, "ports", fmt.Sprintf(", ports: [{containerPort: 80, hostPort: %d}]", 8080+m.IntN(2)))
	case 14, 15:
		once(&p.spec, "priority", fmt.Sprintf(", priority: %s%s", m.one("-20", "-5", "10", "1000"), m.maybe(30, ", preemptionPolicy: Never")))
	case 16:
		once(&p.metadata, "annotations", `annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}`)
	case 17:
		once(&p.spec, "volumes", ", volumes: [{name: scratch, emptyDir: {}}]")
	}
	if m.of(40) {
		once(&p.spec, "tolerations", ", tolerations: [{operator: Exists}]")
	}
	if machine := m.one(m.machines...); m.gpus[machine] && m.of(30) {
		once(&p.requests, "gpu", ", nvidia.com/gpu: 1")
	}
}

// objects writes budgets, capacity buffers and provisioning requests, the latter with pods that use what they got.
func (m *mixture) objects() {
	var all []string
	template := fmt.Sprintf("{metadata: {labels: {app: chunk}}, spec: {containers: [{name: c, resources: {requests: {cpu: %dm}}}]%s%s}}",
		100*(3+m.IntN(12)),
		m.maybe(30, ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "+
			"kubernetes.io/hostname, labelSelector: {matchLabels: {app: chunk}}}]}}"),
		m.maybe(20, ", nodeSelector: {topology.kubernetes.io/zone: %s}", m.one(m.zones...)))
	if m.of(25) {
		all = append(all, fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pdb, namespace: "+
			"default}, spec: {%s: %d, selector: {matchLabels: {app: w0}}}}", m.one("minAvailable", "maxUnavailable"), m.IntN(4)))
	}
	if m.of(20) {
		spec := fmt.Sprintf("podTemplateRef: {name: chunk}, replicas: %d", 1+m.IntN(4))
		if m.of(30) {
			spec = fmt.Sprintf("scalableRef: {apiGroup: apps, kind: Deployment, name: w0}, percentage: %d", 10+m.IntN(60))
		}
		all = append(all, fmt.Sprintf("{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: "+
			"spare, namespace: default}, spec: {%s}}", spec))
	}
	if m.of(20) {
		count := 1 + m.IntN(12)
		all = append(all, fmt.Sprintf("{apiVersion: autoscaling.x-k8s.io/v1, kind: ProvisioningRequest, metadata: {name: "+
			"train, namespace: default}, spec: {provisioningClassName: %s, podSets: [{podTemplateRef: {name: chunk}, count: %d}]}}",
			m.one("best-effort-atomic-scale-up.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
				"check-capacity.autoscaling.x-k8s.io"), count))
		if m.of(60) { // the workloads come last
			m.add("- {name: train, replicas: %d, arrive: %ds, template: %s}\n", count, 120+m.IntN(400),
				strings.Replace(template, "labels:", "annotations: {autoscaling.x-k8s.io/consume-provisioning-request: train}, labels:", 1))
		}
	}
	if len(all) > 0 {
		m.add("objects: [{apiVersion: v1, kind: PodTemplate, metadata: {name: chunk, namespace: default}, template: %s}, %s]\n", template,
			strings.Join(all, ", "))
	}
}

func (m *mixture) faults() {
	lists := map[string][]string{}
	for range max(0, m.IntN(5)-1) {
		from := m.IntN(480)
		window := fmt.Sprintf("from: %ds", from) + m.maybe(92, ", until: %ds", from+20+m.IntN(400))
		where := m.one("zones: ["+m.one(m.zones...)+"]", "groups: ["+m.one(m.groups...)+"]", "groups: ["+m.one(m.groups...)+"]")
		switch m.IntN(10) {
		case 0, 1, 2, 3:
			lists["stockOuts"] = append(lists["stockOuts"],
				fmt.Sprintf("{%s, %s, %s}", where, window, m.one("mode: Refuse", "mode: Silent", "mode: Silent, left: 1", "mode: Refuse, left: 2",
					"mode: Fail", "mode: Fail, failAfter: 30s")))
		case 4, 5:
			lists["outages"] = append(lists["outages"], fmt.Sprintf("{zones: [%s], mode: %s, %s}", m.one(m.zones...),
				m.one("Unready", "Unready", "Vanish"), window))
		default:
			what := m.one("delay: 2s", "delay: 8s", "error: boom", "error: boom, delay: 3s", "error: boom, afterEffect: true",
				"delay: 8s, afterEffect: true")
			affected := "groups: [" + m.one(m.groups...) + "], first: " + fmt.Sprint(1+m.IntN(5)) + ", "
			lists["calls"] = append(lists["calls"], fmt.Sprintf("{methods: [%s], %s%s, %s}",
				m.one("IncreaseSize", "IncreaseSize", "IncreaseSize", "TargetSize", "Nodes", "Template", "DeleteNodes", "Refresh", "NodeGroups",
					"NodeGroupForNode"),
				m.one("", affected), what, window))
		}
	}
	m.add("faults:\n")
	for _, kind := range []string{"stockOuts", "outages", "calls"} {
		m.add("  %s: [%s]\n", kind, strings.Join(lists[kind], ", "))
	}
}
