package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestResultsDecideRequeueing(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("it has changed"))
	wrapped := fmt.Errorf("write status of Thing a: %w", conflict)
	away := errors.New("the routing log is away")
	for _, tt := range []struct {
		name           string
		err            error
		soon, reported bool
	}{
		{"nothing went wrong", nil, false, false},
		{"a conflict, at once", conflict, true, false},
		{"one that is wrapped", wrapped, true, false},
		{"several, and nothing else", errors.Join(wrapped, fmt.Errorf("change: %w", errors.Join(conflict, conflict))), true, false},
		{"something else, with more and more time in between", away, false, true},
		{"something else and a conflict", errors.Join(away, wrapped), false, true},
		{"a conflict and something else, deep within", fmt.Errorf("act: %w", errors.Join(wrapped, errors.Join(conflict, away))), false, true},
		{"the process ends", fmt.Errorf("put: %w", context.Canceled), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			result, err := result(time.Hour, tt.err)
			if tt.err == nil != (result.RequeueAfter == time.Hour) || tt.err != nil && (result.RequeueAfter > 0) != tt.soon || (err != nil) != tt.reported {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}
