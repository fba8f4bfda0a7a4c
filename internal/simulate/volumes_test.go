package simulate_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// Storage of a small cluster in three zones.
const (
	lateClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
`
	earlyClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: early}
provisioner: ebs.csi.aws.com
`
)

// claimed is a claim as the API server has it; volume is empty where it is unbound.
func claimed(name, class, volume string) string {
	bound := ""
	if volume != "" {
		bound = `, annotations: {pv.kubernetes.io/bind-completed: "yes"}`
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: default, name: %s%s}
spec: {storageClassName: %s, volumeName: %q, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`, name, bound, class, volume)
}

func volumeIn(name, claim, where string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s%s}
spec:
  storageClassName: late
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  claimRef: {namespace: default, name: %s}
`, name, where, claim)
}

func affinity(key, zone string) string {
	return fmt.Sprintf("  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: In, values: [%s]}]}]}}\n", key,
		zone)
}

func podWith(name, more string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: %s, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]}
spec:
  containers: [{name: c, resources: {requests: {cpu: 1}}}]
%s`, name, more)
}

func mounting(claim string) string {
	return fmt.Sprintf("  volumes: [{name: data, persistentVolumeClaim: {claimName: %s}}]\n", claim)
}

// simulated plays pods and storage of one file on three empty zones and returns the report.
func simulated(t *testing.T, more string, objects ...string) *v1alpha1.ScenarioReportStatus {
	t.Helper()
	spec := `
machines: [{name: m, resources: {cpu: 4, memory: 16Gi}}]
nodeGroups: [{name: a, zone: a, machine: m, max: 9}, {name: b, zone: b, machine: m, max: 9}, {name: c, zone: c, machine: m, max: 9}]
` + more
	if len(objects) > 0 {
		spec += "\npodsFrom: [{file: dump.yaml, unbind: true}]"
	}
	text := "apiVersion: evenkeel.dev/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
	docs, err := document.Read("s.yaml", strings.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"dump.yaml": {Data: []byte(strings.Join(objects, "---\n"))}}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: func(name string) (io.ReadCloser, error) { return files.Open(name) }})
	if err != nil {
		t.Fatal(err)
	}
	report, err := simulate.Run(t.Context(), setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &report.Status
}

// sizes are the sizes of the groups a, b and c.
func sizes(s *v1alpha1.ScenarioReportStatus) string {
	var all []string
	for _, g := range s.Groups {
		all = append(all, fmt.Sprint(g.After))
	}
	return strings.Join(all, "/")
}

func warnings(s *v1alpha1.ScenarioReportStatus) []string {
	var all []string
	for _, row := range s.Timeline {
		if row.What == v1alpha1.RowWarning {
			all = append(all, row.Text)
		}
	}
	return all
}

func TestClaimsDecideInWhichZoneAPodRuns(t *testing.T) {
	t.Parallel()
	on := podWith("p", mounting("data"))
	for name, tc := range map[string]struct {
		objects []string
		sizes   string
		pending string // a part of the reason; empty if the pod runs
	}{
		"bound, node affinity": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", "") + affinity("topology.kubernetes.io/zone", "b")}, "0/1/0", ""},
		"bound, the zone key of AWS": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", "") + affinity("topology.ebs.csi.aws.com/zone", "c")}, "0/0/1", ""},
		"bound, the zone key of Google": {[]string{claimed("data", "late", "v"), volumeIn("v", "data", "") + affinity("topology.gke.io/zone",
			"c")}, "0/0/1", ""},
		"bound, the zone key of Azure": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", "") + affinity("topology.disk.csi.azure.com/zone", "c")}, "0/0/1", ""},
		"bound, the beta key": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", "") + affinity("failure-domain.beta.kubernetes.io/zone", "c")}, "0/0/1", ""},
		"bound, zone label": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", ", labels: {topology.kubernetes.io/zone: b}")}, "0/1/0", ""},
		"bound, beta zone label": {[]string{claimed("data", "late", "v"),
			volumeIn("v", "data", ", labels: {failure-domain.beta.kubernetes.io/zone: b}")}, "0/1/0", ""},
		"bound to a node that is gone": {[]string{claimed("data", "late", "v"), volumeIn("v", "data", "") + affinity("kubernetes.io/hostname",
			"old-node")}, "0/0/0", "node(s) didn't match PersistentVolume's node affinity"},
		"waiting for its first consumer": {[]string{lateClass, claimed("data", "late", "")}, "one of them", ""},
		"of the default class": {[]string{lateClass, strings.Replace(claimed("data", "late", ""), "storageClassName: late, ", "", 1)},
			"one of them", ""},
		"waiting, and allowed in a zone": {[]string{lateClass +
			"allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [c]}]}]\n", claimed("data", "late", "")},
			"0/0/1", ""},
		"of a class that binds at once": {[]string{earlyClass, claimed("data", "early", "")}, "0/0/0",
			"class early binds at once: its provisioner makes the volume of claim data before the pod is scheduled"},
		"missing":                         {nil, "0/0/0", `persistentvolumeclaim "data" not found`},
		"bound, and its volume is not in": {[]string{claimed("data", "late", "v")}, "0/0/0", `persistentvolume "v" not found`},
		"made by its StatefulSet": {[]string{lateClass, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: default, name: db}
spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]}
`}, "one of them", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, made := on, name == "made by its StatefulSet"
			if made {
				pod = podWith("p", mounting("data-p"))
			}
			s := simulated(t, "", append([]string{pod}, tc.objects...)...)
			if said := strings.Contains(strings.Join(s.Notes, "\n"), "lack 1 persistent volume claim that StatefulSets make for their pods, "+
				"so the zones of the volumes are unknown: default/data-p; "); said != made {
				t.Errorf("notes %q", s.Notes)
			}
			if got := sizes(s); got != tc.sizes && (tc.sizes != "one of them" || s.NodesOrdered != 1) {
				t.Errorf("sizes %s, want %s", got, tc.sizes)
			}
			if tc.pending == "" {
				if s.Running != 1 {
					t.Errorf("%d pods run: %+v", s.Running, s.PendingPods)
				}
			} else if len(s.PendingPods) != 1 || !strings.Contains(s.PendingPods[0].Reason, tc.pending) {
				t.Errorf("pending %+v, want %q", s.PendingPods, tc.pending)
			}
		})
	}
}

func TestCapacityOfADriverDecidesInWhichZoneAVolumeIsMade(t *testing.T) {
	t.Parallel()
	capacity := func(zone, size string) string {
		return fmt.Sprintf("\napiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {namespace: kube-system, "+
			"name: in-%s}\nstorageClassName: late\ncapacity: %s\nnodeTopology: {matchLabels: {topology.kubernetes.io/zone: %s}}\n", zone, size, zone)
	}
	driver := "\napiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: ebs.csi.aws.com}\nspec: {storageCapacity: true}\n"
	s := simulated(t, "", podWith("p", mounting("data")), lateClass, claimed("data", "late", ""), driver, capacity("a", "500Mi"),
		capacity("b", "2Gi"))
	if sizes(s) != "0/1/0" || s.Running != 1 {
		t.Errorf("sizes %s, %d running, %+v", sizes(s), s.Running, s.PendingPods)
	}
}

func TestVolumesMadeBeforehandAreForOnePodEach(t *testing.T) {
	t.Parallel()
	local := "\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: local}\nprovisioner: " +
		"kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n"
	objects := []string{local}
	for i := range 3 {
		objects = append(objects, podWith(fmt.Sprintf("p-%d", i), mounting(fmt.Sprintf("data-%d", i))),
			claimed(fmt.Sprintf("data-%d", i), "local", ""))
	}
	for _, zone := range []string{"b", "c"} {
		free := strings.Replace(volumeIn("disk-"+zone, "", ""), "storageClassName: late", "storageClassName: local", 1)
		free = strings.Replace(free, "  claimRef: {namespace: default, name: }\n", "", 1)
		objects = append(objects, free+affinity("topology.kubernetes.io/zone", zone)+"status: {phase: Available}\n")
	}
	s := simulated(t, "", objects...)
	if s.Running != 2 || s.Pending != 1 || sizes(s) != "0/1/1" {
		t.Errorf("%d running, %d pending, sizes %s: %+v", s.Running, s.Pending, sizes(s), s.PendingPods)
	}
}

func TestPodsThatShareAWaitingClaimRunInOneZone(t *testing.T) {
	t.Parallel()
	objects := []string{lateClass, claimed("data", "late", "")}
	for i := range 9 {
		objects = append(objects, podWith(fmt.Sprintf("p-%d", i), mounting("data")))
	}
	s := simulated(t, "", objects...)
	if s.Running != 9 || !slices.Contains([]string{"3/0/0", "0/3/0", "0/0/3"}, sizes(s)) {
		t.Errorf("%d running, sizes %s", s.Running, sizes(s))
	}
}

const ephemeralPod = "  volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: late, " +
	"accessModes: [ReadWriteOnce]}}}}]\n"

func TestAnEphemeralVolumeIsMadeWithItsPod(t *testing.T) {
	t.Parallel()
	if s := simulated(t, "", podWith("p", ephemeralPod), lateClass); s.Running != 1 {
		t.Errorf("%+v", s.PendingPods)
	}
	if s := simulated(t, "", podWith("p", strings.Replace(ephemeralPod, "late", "early", 1)), earlyClass); s.Running != 0 {
		t.Error("runs without a volume")
	}
}

// A workload whose zone is down until 2h, and what its pods then need.
func TestAPodComesBackToTheZoneOfItsVolume(t *testing.T) {
	t.Parallel()
	outage := `
duration: 3h
options: {scaleDownEnabled: true}
storageClasses: [{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}]
faults: {outages: [{zones: [a], from: 10m, until: 2h, mode: Vanish}]}
`
	own := outage + "workloads: [{name: db, replicas: 1, requests: {cpu: 1}, volumeClaimTemplates: [{metadata: {name: " +
		"data}, spec: {storageClassName: late}}]}]"
	s := simulated(t, own)
	if s.Running != 1 || s.Groups[0].Pods != 1 || sizes(s) != "1/0/0" {
		t.Errorf("%d running, sizes %s; the volume is in a: %+v", s.Running, sizes(s), s.Timeline)
	}
	fleeting := outage +
		"workloads:\n- name: db\n  replicas: 1\n  template:\n    spec:\n      containers: [{name: c, resources: {requests: {cpu: 1}}}]\n    " +
		ephemeralPod
	if s := simulated(t, fleeting); s.Running != 1 || s.Groups[0].Pods != 0 {
		t.Errorf("a new pod has a new ephemeral volume, in another zone: %+v", s.Timeline)
	}
}

func TestNodesTakeAsManyVolumesAsTheirDriverSays(t *testing.T) {
	t.Parallel()
	workload := "\nworkloads: [{name: db, replicas: 6, requests: {cpu: 100m}, volumeClaimTemplates: [{metadata: {name: " +
		"data}, spec: {storageClassName: late}}, {metadata: {name: log}, spec: {storageClassName: late}}]}]"
	node := "\napiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {pool: a, topology.kubernetes.io/zone: a, " +
		"node.kubernetes.io/instance-type: m}}\nstatus: {capacity: {cpu: 4, memory: 16Gi, pods: 110}}\n"
	drivers := "\napiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: n1}\nspec: {drivers: [{name: " +
		"ebs.csi.aws.com, nodeID: i-1, topologyKeys: [topology.ebs.csi.aws.com/zone], allocatable: {count: 4}}]}\n"
	for name, tc := range map[string]struct {
		more    string
		objects []string
		nodes   int
	}{
		"no limit":        {"", []string{lateClass}, 1},
		"of another node": {"\nnodesFrom: [{file: dump.yaml}]\ngroupLabel: pool", []string{node, drivers, lateClass}, 3},
		"of the same machine type": {"\nnodesFrom: [{file: dump.yaml}]\ngroupLabel: other",
			[]string{strings.Replace(node, "topology.kubernetes.io/zone: a", "x: y", 1), drivers, lateClass}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simulated(t, workload+tc.more, append(tc.objects, podWith("small", ""))...)
			ordered := s.NodesOrdered
			if tc.more != "" {
				ordered++ // the node that is there
			}
			if s.Running != 7 || ordered != tc.nodes {
				t.Errorf("%d running on %d nodes, want %d: %+v %+v", s.Running, ordered, tc.nodes, s.PendingPods, s.Timeline)
			}
		})
	}
}

func TestAMissingClaimIsToldOnceWithTheRemedy(t *testing.T) {
	t.Parallel()
	var objects []string
	for i := range 5 {
		objects = append(objects, podWith(fmt.Sprintf("p-%d", i), mounting(fmt.Sprintf("data-%d", i))))
	}
	s := simulated(t, "", append(objects, podWith("q", mounting("data-0")))...)
	want := "5 persistent volume claims are not in the input, so that pods with them fit nowhere: default/data-0 of pod " +
		"default/p-0 and 1 more, default/data-1 of pod default/p-1, " +
		"default/data-2 of pod default/p-2 and 2 more; add what this prints to a file of storageFrom: kubectl get " +
		"pvc,pv,sc,csinodes,csidrivers,csistoragecapacities,volumeattachments -A -o json"
	if got := warnings(s); len(got) != 1 || got[0] != want {
		t.Errorf("warnings %q\nwant one: %q", got, want)
	}
	s = simulated(t, "", podWith("p", mounting("data")), claimed("data", "late", "v"), podWith("q", mounting("other")),
		claimed("other", "late", ""))
	if got := warnings(s); len(got) != 2 || !strings.HasPrefix(got[0],
		"1 persistent volume is not in the input, so that pods with them fit nowhere: v of claim default/data;") ||
		!strings.HasPrefix(got[1],
			"1 StorageClass object is not in the input, so that pods with them fit nowhere: late of claim default/other;") {
		t.Errorf("warnings %q", got)
	}
}

func TestAPodWithADeviceClaimIsTold(t *testing.T) {
	t.Parallel()
	s := simulated(t, "", podWith("p", "  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]\n"))
	if len(s.PendingPods) != 1 || !strings.Contains(s.PendingPods[0].Reason, "devices of the resource.k8s.io API are not simulated") {
		t.Errorf("%+v", s.PendingPods)
	}
}
