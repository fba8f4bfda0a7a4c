package steering

// Effects are the results of an event other than its answer. Orders to the cloud are answers, since the
// state has to know the result of each.
type Effects struct {
	Decisions []Decision
	Events    []KubernetesEvent
	Warnings  []string
	Logs      []Log
	Counts    map[Counter]int
	Notices   []Notice // about pods, if that is wanted
}

// KubernetesEvent is published. It is of the type Warning unless it is Normal.
type KubernetesEvent struct {
	Reason, Message string
	Normal          bool
}

// Log is a line of the log.
type Log struct {
	Verbosity int
	Err       error // nil for what is no failure
	Message   string
	Values    []any // keys and values in turns
}

// Counter is one of the numbers that only grow.
type Counter string

const (
	NodesAsked       Counter = "nodes asked for"
	NodesGranted     Counter = "nodes granted"
	MembersBackedOff Counter = "members backed off"
	ProcessesNoticed Counter = "processes of Cluster Autoscaler noticed"
	NodesLate        Counter = "nodes given up at a start-up deadline"
	SetsUneven       Counter = "sets let become uneven"
	NodesFailed      Counter = "nodes taken back because they could not be created"
	NodesOverdue     Counter = "nodes taken back because the cloud had not begun to create them"
	NodesGivenUp     Counter = "nodes taken back by Cluster Autoscaler"
	GrantsInFull     Counter = "increases granted in full"
	JournalFailed    Counter = "journal not read or written"
)

func (s *State) count(c Counter, n int) {
	if s.out.Counts == nil {
		s.out.Counts = map[Counter]int{}
	}
	s.out.Counts[c] += n
}

func (s *State) log(l Log) { s.out.Logs = append(s.out.Logs, l) }

// event publishes something as a Kubernetes event.
func (s *State) event(reason, message string) {
	s.out.Events = append(s.out.Events, KubernetesEvent{Reason: reason, Message: message})
}

// inform is event for what needs no attention.
func (s *State) inform(reason, message string) {
	s.out.Events = append(s.out.Events, KubernetesEvent{Reason: reason, Message: message, Normal: true})
}

// note has a decision kept and logged.
func (s *State) note(d Decision) {
	d.Time = s.now
	s.out.Decisions = append(s.out.Decisions, d)
}

// warn has somebody look at something, once.
func (s *State) warn(reason, message string) {
	if s.pods.warned[message] {
		return
	}
	s.pods.warned[message] = true
	s.out.Warnings = append(s.out.Warnings, message)
	s.alarm(reason, message)
}

// alarm is warn for what may come again.
func (s *State) alarm(reason, message string) {
	s.log(Log{Message: "Warning", Values: []any{"reason", reason, "message", message}})
	s.event(reason, message)
}
