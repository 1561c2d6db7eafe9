package jetstream

import "time"

// cost is what the disk lets a commit cost: a lone message waits for one sync of
// a file that is there, an atomic batch for several, of files that the server
// makes and takes away again. On a quiet disk that is seven times as much, on a
// busy one a hundred times, so what is better for a few facts is measured and
// not assumed.
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

// limit returns how many of n waiting facts to publish at a time: all of them, or
// one after the other where that is faster. What is known of batches fades while
// none is made, so that one slow batch does not decide for long.
func (c *cost) limit(n int) int {
	if n < 2 || c.alone == 0 || time.Duration(n)*c.alone >= c.together {
		return n
	}
	c.together -= c.together / 64
	return 1
}
