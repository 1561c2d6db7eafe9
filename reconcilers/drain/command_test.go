package drain_test

import (
	"io"
	"strings"
	"testing"
	"time"

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

func TestWhatIsMissingIsNamed(t *testing.T) {
	if err := drain.Run(t.Context(), drain.Config{}); err == nil || !strings.Contains(err.Error(), "Client") {
		t.Error(err)
	}
}
