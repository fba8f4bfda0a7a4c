package sidecar

// Rule is one of the rules that keep steering exact, for tests to switch off.
type Rule = rule

// The rules.
const (
	SeeWhatCannotBeSeen    = seeWhatCannotBeSeen
	HideFailures           = hideFailures
	StayWithTheSet         = stayWithTheSet
	NeedIsTheLargest       = needIsTheLargest
	NoticeNewProcesses     = noticeNewProcesses
	ClampDecreases         = clampDecreases
	JournalIncreases       = journalIncreases
	PauseOnErrors          = pauseOnErrors
	NoOptions              = noOptions
	PassThroughWhenUnasked = passThroughWhenUnasked
	WaitForNodes           = waitForNodes
)

// Without switches rules off.
func (o Options) Without(rules ...Rule) Options {
	for _, r := range rules {
		o.without |= r
	}
	return o
}

// Target is the target size of a group; nobody has asked.
func (s *Sidecar) Target(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book(id).target
}
