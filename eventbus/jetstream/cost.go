package jetstream

import "time"

// cost is the measured cost of commits: a lone message waits for one sync of an existing file,
// an atomic batch for several, of files that the server creates and deletes. On a quiet disk
// that is seven times as much, on a busy one a hundred times, so the better choice for a few
// facts is measured and not assumed.
type cost struct{ alone, together time.Duration }

// took takes in how long it took to commit n facts. Newer measurements count
// more.
func (c *cost) took(n int, d time.Duration) {
	mean := &c.alone
	if n > 1 {
		mean = &c.together
	}
	if *mean == 0 {
		*mean = d
	}
	*mean += (d - *mean) / 8
}

// limit returns how many of n waiting facts to publish at a time: all of them, or one after the
// other where that is faster. The measurement of batches fades while none is published, so that
// one slow batch does not decide for long.
func (c *cost) limit(n int) int {
	if n < 2 || c.alone == 0 || time.Duration(n)*c.alone >= c.together {
		return n
	}
	c.together -= c.together / 64
	return 1
}
