package decode

import (
	"net/url"
	"strings"
	"testing"
)

func TestQueriesOfEvents(t *testing.T) {
	for query, want := range map[string]string{
		"":                                          "",
		"startTime=1970-01-01T00:00:00Z":            "",
		"startTime=2261-12-31T23:59:59Z":            "",
		"startTime=1969-12-31T23:59:59Z":            "startTime is",
		"endTime=2262-01-01T00:00:00Z":              "endTime is",
		"endTime=9999-01-01T00:00:00Z":              "endTime is",
		"endTime=noon":                              "endTime is",
		"type=a" + strings.Repeat(",a", maxTypes-1): "",
		"type=a" + strings.Repeat(",a", maxTypes):   "type has 51 types; it can have 50",
	} {
		given, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Events(given); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", query, err, want)
		}
	}
}

func TestSegments(t *testing.T) {
	for path, want := range map[string]int{
		"/a/b/": 3, "/a%2Fb": 1, "/%00": 0, "/%ff": 0, "/%zz": 0,
		"/" + strings.Repeat("a", maxSegment): 1, "/" + strings.Repeat("a", maxSegment+1): 0,
	} {
		if got, err := Segments(path); len(got) != want || (err == nil) != (want > 0) {
			t.Errorf("%.40s: %d segments, %v", path, len(got), err)
		}
	}
}
