package history

import (
	"errors"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// ErrNotReached is the error for a position that the log has not reached; test with errors.Is.
var ErrNotReached = errors.New("this version has not been reached")

// Gone is the error for a version or a range that is no longer kept; it names the oldest one that
// is. It is an eventbus.ErrGone, or an eventbus.ErrEpochEnded.
type Gone struct {
	// Asked describes the requested version in readable form.
	Asked string
	// OtherEpoch: the place is of another life of the log, of which nothing is
	// kept. It makes this an ErrEpochEnded.
	OtherEpoch bool
	// Oldest is the oldest version that there is, and Recorded when it was made.
	// Zero when there is none yet.
	Oldest   event.Pos
	Recorded time.Time
}

// Error implements error.
func (g *Gone) Error() string {
	why := "is not kept"
	if g.OtherEpoch {
		why = "is of an epoch of the log that has ended"
	}
	if g.Oldest == (event.Pos{}) {
		return fmt.Sprintf("%s %s; the log holds no whole table yet", g.Asked, why)
	}
	return fmt.Sprintf("%s %s; the oldest version is %d of epoch %s, of %s",
		g.Asked, why, g.Oldest.Seq, g.Oldest.Epoch, g.Recorded.UTC().Format(time.RFC3339))
}

// Unwrap returns the error of eventbus that it is.
func (g *Gone) Unwrap() error {
	if g.OtherEpoch {
		return eventbus.ErrEpochEnded
	}
	return eventbus.ErrGone
}
