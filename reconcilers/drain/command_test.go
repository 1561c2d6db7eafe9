package drain_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"switchyard.dev/reconcilers/drain"
)

func TestArgumentsOfTheCommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want drain.Settings
		says string
	}{
		{"without any", nil, drain.Settings{Wait: 2 * time.Minute, Force: 30 * time.Second}, ""},
		{"with both", []string{"--wait=0s", "--force-within=1s"}, drain.Settings{Force: time.Second}, ""},
		{"which keep", []string{"--keep=true", "--namespaces=a,b"}, drain.Settings{Wait: 2 * time.Minute, Force: 30 * time.Second, Keep: true, Namespaces: "a,b"}, ""},
		{"one that is none", []string{"now"}, drain.Settings{}, `unexpected argument "now"`},
		{"a time before now", []string{"--wait=-1s"}, drain.Settings{}, "wait is -1s"},
		{"no time to force", []string{"--force-within=0s"}, drain.Settings{}, "more than 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := drain.ParseSettings(tt.args, io.Discard)
			if got != tt.want || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestInterruptionAndFailureHaveOtherExitCodes(t *testing.T) {
	nowhere := &rest.Config{Host: "http://127.0.0.1:1"}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want int
	}{
		{"by a signal", stopped, drain.ExitStopped},
		{"since nobody answers", t.Context(), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := drain.Settings{Force: time.Nanosecond}.Drain(tt.ctx, nowhere, slog.New(slog.DiscardHandler))
			if got := drain.ExitCode(err); got != tt.want {
				t.Errorf("it ends with %d: %v", got, err)
			}
		})
	}
}

func TestMissingFlagsAreNamed(t *testing.T) {
	if err := drain.Run(t.Context(), drain.Config{}); err == nil || !strings.Contains(err.Error(), "Client") {
		t.Error(err)
	}
}
