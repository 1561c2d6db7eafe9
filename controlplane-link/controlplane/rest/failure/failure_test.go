package failure_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
)

func TestStatusesOfErrors(t *testing.T) {
	for err, want := range map[error]int{
		model.ErrText: 400, model.ErrNotFound: 404, model.ErrExists: 409, model.ErrInUse: 409, model.ErrMoved: 409, model.ErrDeleting: 409, model.ErrHeld: 409,
		model.ErrKeyTaken: 503, context.Canceled: 503, io.ErrUnexpectedEOF: 500,
	} {
		if got, text := failure.Status(fmt.Errorf("x: %w", err)); got != want || got == 500 && text != "internal error" {
			t.Errorf("%v: %d %s, want %d", err, got, text, want)
		}
	}
}
