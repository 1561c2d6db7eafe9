package wait

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUntilReturnsWhatIsStillWrongWhenThereIsNoMorePatience(t *testing.T) {
	wrong, looks := errors.New("wrong"), 0
	err := Until(t.Context(), 50*time.Millisecond, "it is right", func() error { looks++; return wrong })
	if !errors.Is(err, wrong) || looks < 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Until(ended, time.Hour, "it is right", func() error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v after its context has ended", err)
	}
	looks = 0
	if err := Until(t.Context(), time.Minute, "it is right", func() error {
		if looks++; looks < 3 {
			return wrong
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	looks = 0
	if err := Until(t.Context(), time.Second, "it is right", func() error {
		looks++
		return Final(wrong)
	}); err != wrong || looks != 1 { //nolint:errorlint // it is the error itself
		t.Errorf("%v after %d looks at what waiting does not mend", err, looks)
	}
}
