package program_test

import (
	"testing"

	"switchyard.dev/eventbus/program"
)

func TestDefaultsAreThoseThatTheEnvironmentNames(t *testing.T) {
	for text, want := range map[string]program.Defaults{"": program.Current, "1": program.Earlier, "2": program.Current} {
		got, err := program.ReadDefaults(func(name string) string {
			if name != "SWITCHYARD_DEFAULTS" {
				t.Errorf("variable %s is read", name)
			}
			return text
		})
		if err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	if got, err := program.ParseDefaults("3"); err == nil || !got.Current() {
		t.Errorf("a version of a later release is read as %d", got)
	}
	if program.Earlier.Current() {
		t.Error("earlier defaults count as current")
	}
}
