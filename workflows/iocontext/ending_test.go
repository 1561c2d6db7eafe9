package iocontext_test

import (
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/workflows/iocontext"
)

func TestATerminationMessageIsReadAgainAlsoWhenItWasCut(t *testing.T) {
	for _, tail := range []string{"", "the end\n", strings.Repeat("\x01\xff\"\\<>\n", 400), strings.Repeat("äöü\n", 400)} {
		e := iocontext.Ending{Reason: iocontext.ScriptFailed, ExitCode: 3, Message: "the script ended with exit code 3", Tail: tail}
		text := string(e.Encode())
		if len(text) > 2000 || !json.Valid([]byte(text)) {
			t.Errorf("%d bytes: %s", len(text), text)
		}
		for cut := strings.Index(text, `"message"`) + 12; cut <= len(text); cut++ {
			got, ok := iocontext.DecodeEnding(text[:cut])
			if !ok || got.Reason != e.Reason || got.ExitCode != 3 || cut == len(text) && got.Message != e.Message {
				t.Errorf("cut after %d bytes it is %t %+v: %s", cut, ok, got, text[:cut])
				break
			}
		}
	}
	for _, other := range []string{"", "boom", "{", "[]"} {
		if got, ok := iocontext.DecodeEnding(other); ok {
			t.Errorf("%q is taken for %+v", other, got)
		}
	}
}
