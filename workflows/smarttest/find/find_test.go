package find_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/workflows/smarttest/find"
)

// files writes files into a folder.
func files(t *testing.T, all map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var tree = map[string]string{
	".labels":              "team = shop\n# a comment\n\narea=all\n",
	"tests/.labels":        "area=front",
	"tests/a.star":         "a",
	"tests/deep/er/b.star": "b",
	"tests/deep/.labels":   "depth=2=two\nteam=other",
	"tests/readme.md":      "no test",
	"other/c.star":         "c",
	"other/script":         "#!/smart-test run",
}

// list returns names and labels as text.
func list(t *testing.T, paths ...string) map[string]string {
	t.Helper()
	all, err := find.At(paths...)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range all {
		var labels []string
		for _, name := range []string{"team", "area", "depth"} {
			if value, is := f.Labels[name]; is {
				labels = append(labels, name+":"+value)
			}
		}
		out[f.Name] = strings.Join(labels, " ") + " " + f.Script
	}
	return out
}

func expect(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutsideOfARepositoryNamesHaveTheHost(t *testing.T) {
	dir := files(t, tree)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	at := host + "@" + dir
	expect(t, list(t, dir+"/tests"), map[string]string{
		at + "/tests/a.star": "area:front a", at + "/tests/deep/er/b.star": "team:other area:front depth:2=two b"})
	expect(t, list(t, dir, dir+"/other/script", dir+"/tests/a.star"), map[string]string{
		at + "/tests/a.star": "area:front a", at + "/tests/deep/er/b.star": "team:other area:front depth:2=two b",
		at + "/other/c.star": "team:shop area:all c", at + "/other/script": " #!/smart-test run"})
}

func TestInARepositoryNamesHaveItsRemote(t *testing.T) {
	dir := files(t, tree)
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q")
	expect(t, list(t, dir+"/tests/deep"), map[string]string{"tests/deep/er/b.star": "team:other area:front depth:2=two b"})
	git("remote", "add", "fork", "https://user:secret@git.example.com:8443/fork/shop.git")
	expect(t, list(t, dir+"/other"), map[string]string{"git.example.com:8443/fork/shop/other/c.star": "team:shop area:all c"})
	git("remote", "add", "origin", "git@git.example.com:team/shop.git")
	expect(t, list(t, dir+"/other"), map[string]string{"git.example.com/team/shop/other/c.star": "team:shop area:all c"})
	git("remote", "set-url", "origin", "https://git.example.com/team/shop")
	expect(t, list(t, dir+"/other/c.star"), map[string]string{"git.example.com/team/shop/other/c.star": "team:shop area:all c"})
}

func TestLinksOfAConfigMapAreFollowedOnce(t *testing.T) {
	dir := files(t, map[string]string{"..2026_11_30/a.star": "a", "large.star": strings.Repeat("#", 2<<20)})
	for from, to := range map[string]string{"..data": "..2026_11_30", "a.star": "..data/a.star", "dangling": "absent", "folder.star": "..data"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := find.At(dir)
	if err != nil || len(all) != 2 || filepath.Base(all[0].Path) != "a.star" || all[0].Script != "a" || len(all[1].Script) != 1<<20+1 {
		t.Errorf("%v: %d tests: %.200v", err, len(all), all)
	}
	if all, err := find.At(filepath.Join(dir, "a.star")); err != nil || len(all) != 1 || all[0].Script != "a" {
		t.Errorf("%v: %v", err, all)
	}
}

func TestWrongFilesAreNamed(t *testing.T) {
	dir := files(t, map[string]string{"tests/.labels": "area", "tests/a.star": "a", "empty/readme.md": ""})
	if _, err := find.At(dir + "/tests"); err == nil || !strings.Contains(err.Error(), `tests/.labels has the line "area": write NAME=VALUE`) {
		t.Error(err)
	}
	if _, err := find.At(dir + "/absent"); !os.IsNotExist(err) {
		t.Error(err)
	}
	expect(t, list(t, dir+"/empty"), map[string]string{})
}
