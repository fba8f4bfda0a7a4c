package controller

import "time"

// NoticeWatches makes Ready report a watch after patience, and forget it after quiet.
func (m *Manager) NoticeWatches(patience, quiet time.Duration) {
	m.watches.patience, m.watches.quiet = patience, quiet
}
