package sniff

import (
	"container/list"
	"io"
	"sync"
)

// silent are connections on which neither side has spoken yet, the oldest first. When there are
// too many the oldest is closed, as servers close idle connections.
type silent struct {
	mu    sync.Mutex
	order list.List
}

// add adds a connection, and returns the function that removes it.
func (s *silent) add(c io.Closer, most int) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if oldest := s.order.Front(); oldest != nil && s.order.Len() >= most {
		_ = s.order.Remove(oldest).(io.Closer).Close()
	}
	at := s.order.PushBack(c)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.order.Remove(at) // nothing happens when it is out already
	}
}
