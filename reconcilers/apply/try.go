package apply

import (
	"context"
	"errors"
)

// Try does what Apply does, and returns a refusal beside the error: then there is no object of
// ours. Where trying again may help, the one that was there stays.
func Try[T any, P Object[T]](ctx context.Context, w Writer, want, have P) (P, *Refusal, error) {
	now, err := Apply(ctx, w, want, have)
	if r := new(Refusal); errors.As(err, &r) {
		return nil, r, nil
	}
	if err != nil {
		return have, nil, err
	}
	return now, nil, nil
}
