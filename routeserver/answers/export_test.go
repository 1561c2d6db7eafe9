package answers

// Holds returns how many bytes are kept, in how many answers.
func (s *Store) Holds() (bytes, answers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.kept.Len()
}
