package arch

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// helpOf matches a command and its help in the generated command reference.
	helpOf = regexp.MustCompile("(?ms)^## switchyard ?([^\n]*)\n\n```\n(.*?)\n```")
	// flagIn matches a flag in the help of a command, with its short form.
	flagIn = regexp.MustCompile(`(?m)^ +(?:(-[a-zA-Z]), )?(--[a-z-]+)`)
	// calls match the command lines of a document: lines of a block, and quoted ones.
	calls = regexp.MustCompile("(?m)(?:^ *|`)(?:sudo )?(?:kubectl )?switchyard ([a-z][^`\n]*)")
	// tail is what follows a command: a remark, an operator of the shell, the command for run.
	tail     = regexp.MustCompile(` (?:#|--|&&?|\|\|)(?: .*|$)`)
	flagWord = regexp.MustCompile(`^(--[a-z-]+|-[a-zA-Z]$)`)
)

// commands returns the flags of every command, by its path.
func commands(t *testing.T, texts map[string]string) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	for path := range texts {
		if filepath.Base(path) != "reference.md" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range helpOf.FindAllStringSubmatch(string(page), -1) {
			flags := maps.Clone(found[""]) // those of all commands
			if flags == nil {
				flags = map[string]bool{}
			}
			for _, f := range flagIn.FindAllStringSubmatch(c[2], -1) {
				flags[f[1]], flags[f[2]] = true, true
			}
			found[c[1]] = flags
		}
	}
	return found
}

func TestCommandsInDocumentsExist(t *testing.T) {
	texts := documents(t)
	known := commands(t, texts)
	if len(known) < 30 {
		t.Fatalf("the command reference has only %d commands", len(known))
	}
	checked := 0
	for path := range texts {
		page, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(page), -1) {
			if filepath.Base(path) == "reference.md" {
				break // generated from the commands
			}
			checked++
			words := strings.Fields(tail.ReplaceAllString(call[1], ""))
			command := words[0]
			for _, next := range words[1:] {
				if known[command+" "+next] == nil {
					break
				}
				command += " " + next
			}
			if known[command] == nil {
				t.Errorf("%s: there is no command switchyard %s", path, command)
				continue
			}
			for _, w := range words {
				if f := flagWord.FindString(w); f != "" && !known[command][f] {
					t.Errorf("%s: switchyard %s has no flag %s", path, command, f)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("checked only %d commands", checked)
	}
}
