package controller

import "time"

// NoticeWatches has Ready tell of watches after patience, and forget them after quiet.
func (m *Manager) NoticeWatches(patience, quiet time.Duration) {
	m.watches.patience, m.watches.quiet = patience, quiet
}
