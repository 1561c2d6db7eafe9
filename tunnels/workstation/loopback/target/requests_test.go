package target

import (
	"strings"
	"testing"
)

// However a stream is cut into reads, the same is passed on.
func TestCutsOfAStreamChangeNothing(t *testing.T) {
	const stream = "\r\nGET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n" +
		"POST http://x/b HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\nGET /c HTTP/" +
		"PUT /d HTTP/1.1\nTransfer-Encoding: chunked\n\n5;x\r\na\r\nbc\r\n0\r\nTrailer: x\r\n\r\n" +
		"GET /e HTTP/1.1\r\n folded: x\r\n\r\nGET /f HTTP/1.1\r\n\r\n"
	want := strings.NewReplacer("/a%zz", "<GET /a%zz>", "http://x/b", "<POST http://x/b>", "/d", "<PUT /d>", "/e", "<GET /e>").Replace(stream)
	for _, step := range []int{1, 2, 3, 7, 50, len(stream)} {
		r := requests{replace: func(method, text string) string { return "<" + method + " " + text + ">" }}
		var got strings.Builder
		for at := 0; at < len(stream); at += step {
			got.Write(r.feed([]byte(stream[at:min(at+step, len(stream))])))
		}
		if got.String() != want {
			t.Errorf("in steps of %d:\n%q\nwant\n%q", step, got.String(), want)
		}
	}
}

func TestClientsCannotForgeAHiddenTarget(t *testing.T) {
	if got := shown("/" + strings.Repeat("A", len(mark)-2) + "/L2Fi"); !strings.HasPrefix(got, "/AAA") {
		t.Errorf("shown as %q", got)
	}
	if got := shown(hide("/a?b")); got != "/a?b" {
		t.Errorf("shown as %q", got)
	}
}
