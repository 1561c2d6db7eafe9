package variable_test

import (
	"testing"

	"switchyard.dev/protos/crd/variable"
)

func TestInvalidValuesOfVariablesAreNamed(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "x": "", "é\n\x01\x7f": "", "\uFFFD": "", "\x00": "has a NUL byte (byte 1)", "ab\x00\xff": "has a NUL byte (byte 3)",
		"\xff": "is not UTF-8 (byte 1)", "é\xe9x": "is not UTF-8 (byte 3)", "x\xed\xa0\x80": "is not UTF-8 (byte 2)", "\xff\x00": "has a NUL byte (byte 2)",
	} {
		if got := variable.Describe([]byte(value)); got != want {
			t.Errorf("%q: %q, not %q", value, got, want)
		}
	}
}
