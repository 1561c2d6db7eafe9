package arch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Kind is where a text stands.
type Kind string

// The kinds of text that are counted apart.
const (
	Comments  Kind = "comments"
	Strings   Kind = "strings"
	Documents Kind = "documents"
)

// Wording is how many words texts have, and how many of them readers of Kubernetes and Go
// projects have to translate.
type Wording struct{ Words, Flagged int }

// Text names the texts of one kind in one top-level folder; those of the root have folder ".".
type Text struct {
	Folder string
	Kind   Kind
}

// String returns the folder and the kind.
func (t Text) String() string { return t.Folder + " " + string(t.Kind) }

// flagged are the words and constructions to replace, with the usual replacements.
var flagged = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{fold(`\b(somebody|nobody|everybody|anybody|whoever|whomever|whom)\b`), "the component, the client, users who, no client; or the passive"},
	{fold(`\b(?:lead|leads|led)\b`), "route, forward, redirect, send, reach, cause"},
	{fold(`\b(tell|tells|told)\b`), "report, show, log, notify, name"},
	{fold(`\b(say|says|said)\b`), "report, state, contain, document"},
	{fold(`\bwhat (is|are|was|has|have|it|they|becomes|came|comes|goes|stands|follows)\b`), "name the thing: the routes, the pending facts"},
	{fold(`\bwhose\b|\bwho (is|are|has|have|may|asks|calls|holds|reads|writes|waits|does|did|made|had|was)\b`), "clients that, users who; programs are things"},
	{fold(`\b(ours|theirs)\b`), "the operator's, the owner's"},
	{fold(`\bis gone\b|\bare gone\b|\bgoes (away|too|with)\b|\bwas gone\b`), "deleted, not found, closed, removed"},
	{fold(`\bstands? (for|in for|beside|there)\b`), "represents, replaces, is next to"},
	{fold(`\b(a look|looks? at|looked at)\b`), "sync, reconcile, check, read"},
	{fold(`\b(has|have|had) (the|a|an|each|every|it|them|requests?|connections?|ports?|workloads?) (\w+ )?(made|led|looked|asked|told|said|written|done|wait|begin|start|go)\b`), "the verb: starts the sync"},
	{fold(`\bmay be had\b|\bto be had\b`), "available"},
	{fold(`\banew\b|\bmeanwhile\b|\bheed(s|ed)?\b|\bdearest\b|\bnought\b|\bhither\b`), "again, in the meantime, respect, most expensive"},
	{fold(`\bput(s)? (right|in the place of)\b|\bin the place of\b`), "repair, replace, instead of"},
}

func fold(pattern string) *regexp.Regexp { return regexp.MustCompile("(?i)" + pattern) }

var (
	// causes matches the one common use of this verb: something causes an error.
	causes = regexp.MustCompile(`(?i)\b(lead|leads|led) to (an? )?(error|panic|deadlock)`)
	quoted = regexp.MustCompile("\"((?:[^\"\\\\]|\\\\.)*\\s(?:[^\"\\\\]|\\\\.)*)\"|`([^`]*\\s[^`]*)`")
	// skipped are generated files, licenses, tests and their data, and the list of flagged words itself.
	skipped = regexp.MustCompile(`/gen/|zz_generated|tests/arch/wording\.go$|\.pb\.go$|\.pb\.gw\.go$|testdata/|LICENSE|go\.sum$|/crds/|_test\.go$`)
)

// Flagged returns how many words and constructions of a text are flagged.
func Flagged(text string) int {
	n := -len(causes.FindAllString(text, -1))
	for _, f := range flagged {
		n += len(f.pattern.FindAllString(text, -1))
	}
	return n
}

// Instead returns the usual replacements of the flagged words of a text.
func Instead(text string) []string {
	var hints []string
	for _, f := range flagged {
		if words := f.pattern.FindAllString(text, -1); len(words) > 0 {
			hints = append(hints, fmt.Sprintf("%q: %s", words, f.instead))
		}
	}
	return hints
}

// Prose returns the readable text of a line: of code, comments and strings that contain a blank; of
// a document, all of it.
func Prose(path, line string) map[Kind]string {
	switch {
	case ends(path, ".md", ".txt", ".tpl"):
		return map[Kind]string{Documents: line}
	case ends(path, ".go", ".proto"):
		var texts []string
		for _, found := range quoted.FindAllStringSubmatch(line, -1) {
			texts = append(texts, found[1]+found[2])
		}
		_, comment, _ := strings.Cut(quoted.ReplaceAllString(line, `""`), "//")
		return map[Kind]string{Strings: strings.Join(texts, " "), Comments: comment}
	case ends(path, ".yaml", ".sh"), path == "Makefile":
		_, comment, _ := strings.Cut(line, "#")
		return map[Kind]string{Comments: comment}
	}
	return nil
}

func ends(path string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) })
}

// Words counts the words of files by folder and kind. Files are paths relative to the root, with
// their contents.
func Words(files map[string]string) map[Text]Wording {
	counted := map[Text]Wording{}
	for path, content := range files {
		if skipped.MatchString(path) {
			continue
		}
		folder, _, below := strings.Cut(path, "/")
		if !below {
			folder = "."
		}
		for line := range strings.Lines(content) {
			for kind, text := range Prose(path, line) {
				of := Text{folder, kind}
				sum := counted[of]
				sum.Words += len(strings.Fields(text))
				sum.Flagged += Flagged(text)
				counted[of] = sum
			}
		}
	}
	return counted
}

// Worded reports texts with more flagged words than limits allows, and limits that are more than
// a tenth too high.
func Worded(counted map[Text]Wording, limits map[Text]int) []string {
	var broken []string
	for _, of := range slices.SortedFunc(maps.Keys(counted), func(a, b Text) int { return strings.Compare(a.String(), b.String()) }) {
		switch n, limit := counted[of].Flagged, limits[of]; {
		case n > limit:
			broken = append(broken, fmt.Sprintf("%s have %d flagged words; at most %d: go test ./tests/arch -run Wording -flagged %s prints them", of, n, limit, of.Folder))
		case n < limit-max(5, limit/10):
			broken = append(broken, fmt.Sprintf("%s have %d flagged words, %d fewer than allowed: run go test ./tests/arch -run Wording -update", of, n, limit-n))
		}
	}
	return broken
}
