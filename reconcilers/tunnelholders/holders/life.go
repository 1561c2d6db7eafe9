package holders

import "time"

const (
	// Silence is the time without a report after which a proxy is lost; it reports each second.
	Silence = 5 * time.Second
	// Resume is the time limit for a report on another stream after one broke.
	Resume = time.Second
	// Reserved is how long the tunnels of a lost proxy stay with their users.
	Reserved = 5 * time.Second
)

// Life has the times that determine whether a proxy is alive.
type Life struct {
	// Begun is the time of the first connection attempt.
	Begun time.Time
	// Heard is the time of its last report; zero: never.
	Heard time.Time
	// Broken is the time at which the last stream ended; zero while there is one, or if there was none.
	Broken time.Time
}

// End returns the time at which the proxy is lost, without a further report.
func (l Life) End() time.Time {
	if l.Heard.IsZero() {
		return l.Begun.Add(Silence)
	}
	end := l.Heard.Add(Silence)
	if again := l.Broken.Add(Resume); !l.Broken.IsZero() && again.Before(end) {
		return again
	}
	return end
}

// Gone reports whether the proxy is lost.
func (l Life) Gone(now time.Time) bool { return !now.Before(l.End()) }

// Free returns the time from which any user can have the tunnels of the proxy.
func (l Life) Free() time.Time { return l.End().Add(Reserved) }

// Awaited reports whether the first report of the proxy is still expected.
func (l Life) Awaited(now time.Time) bool { return l.Heard.IsZero() && !l.Gone(now) }
