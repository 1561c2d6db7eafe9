package suites

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/tests/transparency/suite"
)

func TestAReportIsReadThoughItQuotesBytes(t *testing.T) {
	seen, err := read([]byte(`<testsuites><testsuite package="http2/3.5">
		<testcase classname="one"></testcase>
		<testcase classname="two"><failure>Actual: ` + "\x00\x01" + `</failure></testcase>
		<testcase classname="three"><skipped></skipped></testcase>
	</testsuite></testsuites>`))
	if err != nil {
		t.Fatal(err)
	}
	want := suite.Seen{"http2/3.5/1": suite.Passed, "http2/3.5/2": "failed: two", "http2/3.5/3": "skipped"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
