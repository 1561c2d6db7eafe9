package access

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"switchyard.dev/eventbus/callers"
)

// waitWithin is how long a check waits for its turn: less than a client has for its handshake.
const waitWithin = 8 * time.Second

var errTurn = errors.New("too many unknown tokens are being checked: try again in a few seconds")

// pools bound the reviews of tokens, so that reviews of one kind do not delay those of another.
type pools struct {
	// users bounds the reviews of each user: of a token that the API server has signed, or has
	// accepted in the last hour.
	users *callers.Pool
	// addresses bounds the reviews of unknown tokens from each address that is a caller, and
	// unknown those from all addresses.
	addresses *callers.Pool
	unknown   *turns
}

func newPools() pools {
	return pools{
		users:     callers.NewPool("checks of tokens", callers.Bounds{Each: 8, Pods: 256, Rate: 20, Burst: 100}),
		addresses: callers.NewPool("checks of tokens", callers.Bounds{Each: 8, Strangers: callers.AnyNumber, Rate: 20, Burst: 100}),
		unknown:   newTurns(16, 100, 200),
	}
}

// known admits a review of a token that is known to be a user's.
func (p pools) known(user string) (leave func(), err error) {
	return p.users.Enter(callers.Caller{Kind: callers.Pod, Name: user})
}

// stranger admits a review of an unknown token once its turn has come.
func (p pools) stranger(ctx context.Context, by callers.Caller) (leave func(), err error) {
	gone, err := p.addresses.Enter(by)
	if err != nil {
		return nil, err
	}
	end, err := p.unknown.take(ctx)
	if err != nil {
		gone()
		return nil, err
	}
	return func() { end(); gone() }, nil
}

// turns lets callers through in the order in which they came: so many at once, and so many a
// second. A caller that would not get a turn in time is refused at once, so that no more wait
// than are served in waitWithin.
type turns struct {
	places *semaphore.Weighted
	speed  *rate.Limiter
}

func newTurns(atOnce int64, perSecond float64, burst int) *turns {
	return &turns{semaphore.NewWeighted(atOnce), rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// take waits for a turn. The error is errTurn.
func (t *turns) take(ctx context.Context) (leave func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, waitWithin)
	defer cancel()
	if err := t.speed.Wait(waiting); err != nil {
		return nil, errTurn
	}
	if err := t.places.Acquire(waiting, 1); err != nil {
		return nil, errTurn
	}
	return func() { t.places.Release(1) }, nil
}
