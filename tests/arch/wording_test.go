package arch

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update = flag.Bool("update", false, "lower the limits of "+limitsFile)
	list   = flag.String("flagged", "", "print the flagged lines of files that begin with `prefix`")
)

// limitsFile has one line for each text: folder, kind, flagged words. Limits only fall.
const limitsFile = "testdata/wording.txt"

func TestWordingNeverGetsWorse(t *testing.T) {
	files := tracked(t)
	counted := Words(files)
	if *list != "" {
		printFlagged(t, files, *list)
	}
	limits := readLimits(t)
	if *update {
		lower(t, counted, limits)
		limits = readLimits(t)
	}
	words, found := 0, 0
	for _, of := range sorted(counted) {
		c := counted[of]
		words, found = words+c.Words, found+c.Flagged
		t.Logf("%-22s %5.1f per 1,000 of %6d words", of, rate(c.Flagged, c.Words), c.Words)
	}
	t.Logf("%-22s %5.1f per 1,000 of %6d words", "all", rate(found, words), words)
	for _, finding := range Worded(counted, limits) {
		t.Error(finding)
	}
}

func TestWordingIsCountedByKind(t *testing.T) {
	counted := Words(map[string]string{
		"xds/a.go":          "// Serve tells whoever asks.\nvar x = \"nobody is here\" // 1\nvar y = \"says\"\n",
		"README.md":         "The Service leads to a pod.\nThis leads to an error.\n",
		"xds/a_test.go":     "// nobody\n",
		"xds/testdata/a.md": "nobody\n",
	})
	want := map[Text]Wording{
		{"xds", Comments}: {Words: 5, Flagged: 2},
		{"xds", Strings}:  {Words: 3, Flagged: 1},
		{".", Documents}:  {Words: 11, Flagged: 1},
	}
	if !maps.Equal(counted, want) {
		t.Errorf("%v, not %v", counted, want)
	}
	if got := Worded(counted, map[Text]int{{"xds", Comments}: 1, {"xds", Strings}: 20, {".", Documents}: 1}); len(got) != 2 {
		t.Errorf("a limit that is exceeded and one that is too high are two findings, not %q", got)
	}
}

// printFlagged logs each flagged line of files below a prefix, with the usual replacements.
func printFlagged(t *testing.T, files map[string]string, prefix string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(path, prefix) || skipped.MatchString(path) {
			continue
		}
		number := 0
		for line := range strings.Lines(files[path]) {
			number++
			for _, text := range Prose(path, line) {
				if Flagged(text) > 0 {
					t.Logf("%s:%d: %s\n\t%s", path, number, strings.TrimSpace(line), strings.Join(Instead(text), "; "))
				}
			}
		}
	}
}

func rate(flagged, words int) float64 { return 1000 * float64(flagged) / float64(max(1, words)) }

func sorted[V any](texts map[Text]V) []Text {
	return slices.SortedFunc(maps.Keys(texts), func(a, b Text) int { return strings.Compare(a.String(), b.String()) })
}

// tracked reads the files that git tracks.
func tracked(t *testing.T) map[string]string {
	t.Helper()
	ls := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	ls.Dir = root
	out, err := ls.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := map[string]string{}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // Deleted, and not yet staged.
		}
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(content)
	}
	return files
}

func readLimits(t *testing.T) map[Text]int {
	t.Helper()
	content, err := os.ReadFile(limitsFile)
	if err != nil {
		t.Fatal(err)
	}
	limits := map[Text]int{}
	for line := range strings.Lines(string(content)) {
		var of Text
		var n int
		if _, err := fmt.Sscan(line, &of.Folder, &of.Kind, &n); err != nil {
			t.Fatalf("%s: %q: %v", limitsFile, line, err)
		}
		limits[of] = n
	}
	return limits
}

// lower writes the counts as limits where they are lower, or where there is no limit yet.
func lower(t *testing.T, counted map[Text]Wording, limits map[Text]int) {
	t.Helper()
	var b strings.Builder
	for _, of := range sorted(counted) {
		n := counted[of].Flagged
		if limit, ok := limits[of]; ok {
			n = min(n, limit)
		}
		fmt.Fprintf(&b, "%s %d\n", of, n)
	}
	if err := os.WriteFile(limitsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
