package apply

import (
	"context"
	"errors"
)

// Try is Apply with a refusal as a result of its own: then it returns no object. With an error
// that another attempt may clear it returns have.
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
