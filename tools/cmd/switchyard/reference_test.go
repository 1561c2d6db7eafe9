package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
)

// reference is the page that lists every command. It is generated from the help of the commands.
const reference = "../../switchyard/reference.md"

const referenceHead = `# Command reference

Generated from the commands (` + "`go test ./tools/cmd/switchyard -run Reference -update`" + `). The
[guide](README.md) describes versions, exit codes and scripts. The same program is the kubectl plugin
` + "`kubectl switchyard`" + `.
`

// commandsIn matches the subcommands in the help of a command, globalsIn the flags that all commands have.
var (
	commandsIn = regexp.MustCompile(`(?ms)^Available Commands:\n(.*?)\n\n`)
	globalsIn  = regexp.MustCompile(`(?ms)\n^Global Flags:\n.*?(\n\n|\z)`)
	moreIn     = regexp.MustCompile(`(?m)^Use "switchyard.*\n?`)
)

func TestTheReferenceListsEveryCommand(t *testing.T) {
	t.Setenv("HOME", "/home/user")
	t.Setenv("KUBECONFIG", "")
	var page strings.Builder
	page.WriteString(referenceHead)
	count := document(t, &page)
	if count < 30 {
		t.Fatalf("found only %d commands", count)
	}
	golden.Compare(t, reference, page.String())
}

// document writes the help of a command and all commands below it, and returns their number.
func document(t *testing.T, page *strings.Builder, path ...string) int {
	t.Helper()
	help := helpOf(t, path)
	text := moreIn.ReplaceAllString(help, "")
	if len(path) > 0 {
		text = globalsIn.ReplaceAllString(text, "\n")
	}
	fmt.Fprintf(page, "\n## %s\n\n```\n%s\n```\n", strings.Join(append([]string{"switchyard"}, path...), " "), strings.TrimSpace(text))
	count := 1
	if list := commandsIn.FindStringSubmatch(help); list != nil {
		for line := range strings.Lines(list[1]) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "help" {
				count += document(t, page, append(path[:len(path):len(path)], name)...)
			}
		}
	}
	return count
}

// helpOf returns the help of a command.
func helpOf(t *testing.T, path []string) string {
	t.Helper()
	var out bytes.Buffer
	config := command.Config{Name: "switchyard"}
	config.In, config.Out, config.Err, config.Getenv = strings.NewReader(""), &out, os.Stderr, os.Getenv
	if code := switchyard.Main(t.Context(), config, append(path[:len(path):len(path)], "--help")); code != 0 {
		t.Fatalf("%v --help: exit code %d", path, code)
	}
	return out.String()
}
