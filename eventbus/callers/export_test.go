package callers

// Remembered is how many callers are known.
func (p *Pool) Remembered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.of)
}
