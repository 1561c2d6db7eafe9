package resource

import (
	"fmt"
	"testing"
)

func TestOutputsThatAreNoVariables(t *testing.T) {
	got := notVariables(map[string][]byte{"make.url": []byte("x"), "make.dump": []byte("a\x00"), "make.text": []byte("caf\xe9")})
	if s := fmt.Sprint(got); s != "map[make.dump:has a NUL byte (byte 2) make.text:is not UTF-8 (byte 4)]" {
		t.Errorf("they are %s", s)
	}
	if got := notVariables(map[string][]byte{"make.url": nil}); got != nil {
		t.Errorf("of a fit one: %v", got)
	}
}
