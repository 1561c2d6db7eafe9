// Package golden compares the output of tests with recorded files. It adds the flag -update, which
// records them again, to the tests of the packages that import it.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "record the golden files anew")

// Compare fails a test unless got is what a file has. With -update the file is written first.
func Compare(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update records it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-recorded +got); if that is intended, record it with -update:\n%s", file, diff)
	}
}
