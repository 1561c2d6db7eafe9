package optional

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// alone returns a presence without an API server, and writes its log to output.
func alone(output io.Writer) *presence {
	kind := Kind{GroupVersionKind: schema.GroupVersionKind{Group: "made.up", Version: "v1", Kind: "Widget"}, Definition: "widgets.made.up"}
	return newPresence(Config{Logger: slog.New(slog.NewTextHandler(output, nil))}, kind, nil, nil)
}

// refuse has a watch refused, as the API server does that knows no such right.
func refuse(t *testing.T, p *presence) {
	p.watchFailed(t.Context(), nil, apierrors.NewForbidden(schema.GroupResource{Group: "made.up", Resource: "widgets"}, "", errors.New("no right")))
}

func TestOnlyASecondRefusalIsReported(t *testing.T) {
	p := alone(io.Discard)
	refuse(t, p)
	select {
	case <-p.known:
		t.Error("who waits was let go at the first refusal")
	default:
	}
	refuse(t, p)
	if _, err := p.reading(t.Context()); err == nil || !strings.Contains(err.Error(), "allow this program to get, list and watch them") {
		t.Errorf("after the second: %v", err)
	}
}

func TestAMissingRightIsLoggedOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output strings.Builder
		p := alone(&output)
		for range 3 * 60 {
			refuse(t, p)
			time.Sleep(time.Minute)
		}
		if n := strings.Count(output.String(), "level=WARN"); n != 3 {
			t.Errorf("logged %d times in three hours:\n%s", n, output.String())
		}
	})
}

func TestAKnownKindIsReportedAtOnce(t *testing.T) {
	var output strings.Builder
	p := alone(&output)
	p.settle()
	p.tooLate()
	if _, err := p.reading(t.Context()); err != nil || output.Len() > 0 {
		t.Errorf("%v, and logged:\n%s", err, output.String())
	}
}
