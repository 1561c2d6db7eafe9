package attach

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// ofFiles returns how much of the files that the process has mapped is in its memory, in KiB.
func ofFiles(t *testing.T) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "RssFile:")
	if _, err := fmt.Sscan(line, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnIdleProcessReturnsThePagesOfItsProgram(t *testing.T) {
	before := ofFiles(t)
	if all := resident() / 1024; all < before || all > 1<<20 {
		t.Errorf("%d KiB are resident in all, of files %d", all, before)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if after := ofFiles(t); after > before*3/4 {
		t.Errorf("%d KiB of files are resident, before %d", after, before)
	}
}
