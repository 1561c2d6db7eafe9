package workflows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tests/e2e/sample"
	"switchyard.dev/tools/demo/resource"
	"switchyard.dev/tools/wait"
)

// A step that fails is told of with the last lines that it printed, in which a value's name stands
// for the value; one that removes holds the sandbox until somebody has it run again or gives up.
func TestAFailedStepRevealsNoValue(t *testing.T) {
	const value = "CANARY-42000126"
	s := sample.Open(t)
	folder := t.TempDir()
	for _, name := range []string{"plugin.yaml", "sandbox.yaml"} {
		text, err := testdata.ReadFile("testdata/failing/" + name)
		s.Must(err)
		s.Must(os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	does := func(want string, args ...string) {
		t.Helper()
		out, err := resource.Command(t.Context(), args...)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, want) || strings.Contains(out, value) {
			t.Errorf("switchyard %s says without %q, or with the value:\n%s", strings.Join(args, " "), want, out)
		}
	}
	does("failing", "resourceplugin", "apply", "-f", filepath.Join(folder, "plugin.yaml"))
	t.Cleanup(func() { // Its own context has ended by now.
		_, _ = resource.Command(context.Background(), "resource", "give-up", "--sandbox", "gina", "db")
		_, _ = resource.Command(context.Background(), "resourceplugin", "delete", "failing")
	})
	does("nobody has the password <password>", "sandbox", "apply", "-f", filepath.Join(folder, "sandbox.yaml"), "--wait-timeout", "2m")
	s.Hidden(value)
	does("", "sandbox", "delete", "gina", "--wait=false")
	wait.Eventually(t, time.Minute, "the step that removes has failed", func() error {
		out, err := resource.Command(t.Context(), "resource", "get", "--sandbox", "gina", "db")
		if err == nil && !strings.Contains(out, "<password> is in use") {
			err = errors.New(out)
		}
		return err
	})
	s.Hidden(value)
	does("db", "resource", "give-up", "--sandbox", "gina", "db")
	does("", "sandbox", "delete", "gina", "--wait-timeout", "1m")
	s.Hidden(value)
}
