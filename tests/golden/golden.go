// Package golden holds what tests make against files that were recorded before. It gives the
// tests of the packages that import it the flag -update, which records them anew.
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
		t.Errorf("%s differs (-recorded +got); if that is meant, -update records it anew:\n%s", file, diff)
	}
}
