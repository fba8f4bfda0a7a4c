// Package evenkeel documents how the module is built; it holds no code.
//
// evenkeel keeps a Kubernetes fleet level across its failure domains. Every package has one job,
// and imports point downwards only, from the command line to the arithmetic. A test in this folder
// keeps the rules. What other programs may import is outside internal: it changes with notice. What
// is internal changes without.
//
// Entry. cmd/evenkeel turns flags and documents into calls and results into tables. It decides
// nothing.
//
// Drivers. A driver talks to a world, asks the layers below what to do, and does it. sidecar stands between an
// unmodified Cluster Autoscaler and its cloud; sidecar/cluster is its side of the API server.
// balancer/reconcile reads what the targets of a Balancer have and writes what they are to have.
// workloadspread/reconcile orders and moves the pods of the workloads of WorkloadSpreads, and deletioncost/reconcile
// writes the deletion costs of those that ask for them. federation/reconcile does the same in the member clusters of
// FederatedReplicaSets; federation/members keeps a connection to each member cluster, and knows what runs there and
// whether it answers; federation/join makes a cluster a member and takes that back. workloadspread/admission answers
// the webhooks of WorkloadSpreads, and workloadspread/schedule says whether their new pods would find a node. Of the
// internal ones, simulate plays scenarios in virtual time on the cloud in memory, plan answers planning documents,
// doctor says what keeps the node groups of a cluster from being even and the least that helps, explain says why the
// node groups of a fleet are similar or not, and pending what topology spread constraints mean to its pending pods,
// placement says why the replicas of FederatedReplicaSets run where they do, subsets why the pods of WorkloadSpreads
// are in their subsets, fakecloud serves the cloud in memory to Cluster Autoscaler and keeps its nodes in an API
// server, autoscaler plays the loop of Cluster Autoscaler, and linked is what is decided, counted and shown inside a
// Cluster Autoscaler of somebody's own.
//
// Edges. fake is a cloud in memory, faults included. cloudprovider/externalgrpc and expander/grpcexpander speak Cluster
// Autoscaler's two gRPC protocols: messages become values and errors, nothing is decided; wirerules are what a server
// of the first is checked for on the wire. Of the internal ones, document reads YAML and JSON strictly, with field
// paths in its errors, and document/live the same objects from a running cluster. grouppolicy reads which sets of node
// groups a user declares, and zonemarks keeps which zones users have shifted away, in a file or a ConfigMap.
// autoscalerstatus reads the status that Cluster Autoscaler keeps of itself. provisioning knows what an autoscaler does
// about a pod that waits for a node, from what it says in conditions, events and its status; provisioning/live reads
// those, and provisioning/conditions writes conditions. serving opens the gRPC servers and connections, with
// certificates and health; serving/access asks the API server who may see a page, and serving/recording keeps the calls
// that are answered. loopback connects the two ends within a test. page shows a state to people and programs, and
// simulate/htmlreport draws the results of scenarios as one page. workloadspread/store writes the status of
// WorkloadSpreads, in which several processes count pods, and workloadspread/workloads reads their workloads and pods,
// and asks whether pods would be created with their patches. controller runs controllers with a leader,
// controller/scale reads, writes and watches the Scale of any kind, controller/owners finds the controllers of an
// object, controller/passes is what controllers share that make passes over objects, and controller/podcache says what
// a cache keeps of pods. metricset makes metrics and registers them.
//
// Pipeline. steering leads from the calls of Cluster Autoscaler and the answers of its cloud to what the sidecar
// answers and orders, as a state machine. internal/autoscaler/removal says which nodes Cluster Autoscaler finds
// unneeded. balancer leads from the pods of a Balancer's targets to the replicas each of them is to have, and
// federation does the same for the clusters of a FederatedReplicaSet. workloadspread says to which subset of a
// WorkloadSpread each pod of a workload belongs, and which of them go first. deletioncost says which deletion costs
// keep a ReplicaSet level however far it is scaled down.
//
// Decisions. nodegroupset says which node groups are similar and splits nodes over them, and
// nodegroupset/template what a new node of a group looks like. estimator computes how many nodes
// pods need, and expander ranks the options that come of it. predicates says which pods fit which
// template, by the real scheduler's filters; it alone knows the scheduler. topologyspread decides
// topology spread constraints as the scheduler does, without it, and spreadplan plans nodes in all
// zones for the pending pods that have some. internal/admission says
// what an API server would refuse of nodes and pods, deferral bounds how long nodes wait for
// balance, and backoff says how long a group that has failed is left alone. zonalshift says which
// groups neither grow nor shrink while a zone is shifted away. podhealth says which replicas run,
// which have not started in time, and how many a target is able to run. Values go in, decisions
// with reasons come out: no input or output, no clock, no global state.
//
// Arithmetic. apportion shares units over bounded bins in integers, internal/spelling finds the
// name that was meant, and writes numbers into sentences. They use the standard library only.
//
// Contracts. cloudprovider is what a cloud implements, cloudprovider/conformance the rules that any
// has to keep, and api/v1alpha1 are the documents a user writes and reads. Any package may import
// them.
//
// Outside. The module integrations/clusterautoscaler links internal/linked into a Cluster
// Autoscaler of somebody's own: it translates its types and decides nothing. No package of this
// module imports it.
//
// Data. The packages below configs hold label packs and scenarios; they embed files and do nothing
// else.
package evenkeel
