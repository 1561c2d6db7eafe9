package seal_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// line is a line of a file, with a key of one letter.
func line(id, letter string) string {
	return id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))) + "  # a comment\n"
}

func parse(t *testing.T, text string) *seal.Keys {
	t.Helper()
	k, err := seal.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeysAreReplaced(t *testing.T) {
	old := parse(t, line("old", "a"))
	id, sealed := old.Seal("here", "value")
	_, again := old.Seal("here", "value")
	if id != "old" || sealed == again || strings.Contains(sealed, "value") {
		t.Errorf("sealed with %s: %s, %s", id, sealed, again)
	}
	both := parse(t, "# keys\n\n"+line("new", "b")+line("old", "a"))
	if v, err := both.Open(id, "here", sealed); err != nil || v != "value" || both.Current() != "new" {
		t.Errorf("got %q, %v; current is %s", v, err, both.Current())
	}
	for name, open := range map[string]func() (string, error){
		"is damaged or was encrypted with another key": func() (string, error) { return both.Open(id, "there", sealed) },
		"restore the line of the key":                  func() (string, error) { return parse(t, line("old", "c")).Open(id, "here", sealed) },
		"add its line again":                           func() (string, error) { return parse(t, line("new", "b")).Open(id, "here", sealed) },
		"set it again":                                 func() (string, error) { return both.Open(id, "here", "AAAA") },
	} {
		if v, err := open(); err == nil || v != "" || !strings.Contains(err.Error(), name) {
			t.Errorf("got %q, %v; want %s", v, err, name)
		}
	}
}

func TestFilesThatAreNotValid(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "no key",
		"# only a comment\n":            "no key",
		line("a", "a") + line("a", "b"): `line 2: key "a" has another line`,
		"a\n":                           "line 1 has 1 words",
		"a b c\n":                       "line 1 has 3 words",
		"a c2VjcmV0\n":                  `line 1: key "a" is not 32 bytes in base64`,
		"a secret!\n":                   `line 1: key "a" is not 32 bytes in base64`,
	} {
		if _, err := seal.Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret!") || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := seal.Read(t.TempDir() + "/none"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}
