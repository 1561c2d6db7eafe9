package holders

import "time"

const (
	// Silence is after how long a proxy that tells nothing is gone; it tells something
	// each second.
	Silence = 5 * time.Second
	// Resume is how long it may take until another stream tells something where one broke.
	Resume = time.Second
	// Reserved is how long the tunnels of a lost proxy stay with their users.
	Reserved = 5 * time.Second
)

// Life is what tells whether a proxy is there.
type Life struct {
	// Begun is since when it is asked.
	Begun time.Time
	// Heard is when it told something for the last time; zero: never.
	Heard time.Time
	// Broken is since when there is no stream, after there was one; zero: there is one.
	Broken time.Time
}

// End returns from when on the proxy is gone, unless it tells something before.
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

// Gone reports whether the proxy is gone.
func (l Life) Gone(now time.Time) bool { return !now.Before(l.End()) }

// Free returns from when on any user can have the tunnels of the proxy.
func (l Life) Free() time.Time { return l.End().Add(Reserved) }

// Awaited reports whether the proxy may still tell what it holds, and has told nothing yet.
func (l Life) Awaited(now time.Time) bool { return l.Heard.IsZero() && !l.Gone(now) }
