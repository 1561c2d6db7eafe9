package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a link of a document to a file of the repository or to a heading, and fence a block
// of code, in which nothing is a link.
var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unsaid  = regexp.MustCompile("[^a-z0-9 _-]")
)

// documents returns the text of every document of the repository by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for path := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = fence.ReplaceAllString(string(text), "")
	}
	return texts
}

// anchors returns the anchors of a document's headings, as GitHub derives them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksOfDocumentsReachFilesAndHeadings(t *testing.T) {
	texts := documents(t)
	links := 0
	for path, text := range texts {
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(l[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, l[1])
			} else if anchor != "" && !anchors(texts[target])[anchor] {
				t.Errorf("%s links to %s: the document has no such heading", path, l[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// A reader starts at the README: it stays short, and its table links every guide.
func TestTheREADMEIsShortAndLinksEveryGuide(t *testing.T) {
	texts := documents(t)
	whole, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(whole), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, at most 150 are allowed: move details into a guide", lines)
	}
	_, table, _ := strings.Cut(texts["README.md"], "\n## Documentation\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for path := range texts {
		if strings.HasPrefix(path, "tools/adr/") || strings.Contains(path, "testdata/") || unlisted[path] || strings.HasPrefix(path, "workflows/samples/") && path != "workflows/samples/README.md" {
			continue
		}
		if !strings.Contains(table, "("+path+")") {
			t.Errorf("the table in README.md, section Documentation, has no link to %s", path)
		}
	}
}

// unlisted are documents with a link elsewhere in README.md, or in a page that its table links.
var unlisted = map[string]bool{
	"README.md": true, "ARCHITECTURE.md": true, "CONTRIBUTING.md": true,
	"charts/operator/README.md": true, // The overview of a Helm chart, which charts' own pages link.
}
