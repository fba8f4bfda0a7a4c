package sidecar

// Target is the target size of a group; nobody has asked.
func (s *Sidecar) Target(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book(id).target
}
