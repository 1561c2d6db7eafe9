package transparency

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/suite"
)

func TestCompareReportsEachDifferenceAndWhetherItIsListed(t *testing.T) {
	bare := suite.Seen{"same": "200", "status": "200", "known/1": "404", "lost": "200", "better": "failed", "worse": suite.Passed}
	through := suite.Seen{"same": "200", "status": "503", "known/1": "400", "more": "200", "better": suite.Passed, "worse": "failed"}
	want := []Difference{
		{"wire", "known/1", "404", "400", true},
		{"wire", "lost", "200", unseen, false},
		{"wire", "more", unseen, "200", false},
		{"wire", "status", "200", "503", false},
		{"wire", "worse", suite.Passed, "failed", false},
	}
	if diff := cmp.Diff(want, Compare("wire", bare, through, []differences.Row{{Case: "wire/known/*"}, {Case: "h2spec/*"}, {Case: "wire/sta"}})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"worse"}, Worse("wire", bare, through, nil)); diff != "" {
		t.Error(diff)
	}
	if worse := Worse("wire", bare, through, []differences.Row{{Case: "wire/worse"}}); worse != nil {
		t.Errorf("%q are in the table", worse)
	}
}
