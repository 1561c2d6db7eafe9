package recipe

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// tally counts compiled packages against those that are to be compiled.
type tally struct {
	done  atomic.Int64
	total int
	start time.Time
}

// take counts a line of `go build -v`, which names each package that it compiles,
// and reports whether the line is one.
func (t *tally) take(line string) bool {
	if line == "" || strings.ContainsAny(line, " :#\t") {
		return strings.HasPrefix(line, "go: downloading ")
	}
	t.done.Add(1)
	return true
}

func (t *tally) String() string {
	return left(int(t.done.Load()), t.total, time.Since(t.start))
}

// enough is the number of compiled packages from which on the remaining time can be estimated.
const enough = 100

// left returns the progress of a build as text. Linking is not counted.
func left(done, total int, elapsed time.Duration) string {
	if done >= total {
		return "every package compiled, linking"
	}
	text := fmt.Sprintf("%d of about %d packages compiled", done, total)
	if done < enough {
		return text
	}
	if rest := elapsed * time.Duration(total-done) / time.Duration(done); rest > time.Minute {
		return fmt.Sprintf("%s, about %d min left", text, int(rest.Round(time.Minute).Minutes()))
	}
	return text + ", less than a minute left"
}

// stale is what `go list` writes of a package that is not in Go's build cache.
const stale = `{{if .Stale}}{{.ImportPath}}@{{with .Module}}{{.Version}}{{end}}{{end}}`

// count returns a tally of the packages that the groups lack. Modules that are not
// on this machine are downloaded for it.
func (b *Builder) count(ctx context.Context, groups []Group, note func(string, ...any)) (*tally, error) {
	var downloads atomic.Int64
	download := func(line string) bool {
		if !strings.HasPrefix(line, "go: downloading ") {
			return false
		}
		downloads.Add(1)
		return true
	}
	lacking := map[string]bool{} // a package of one version that two groups need is compiled once
	for _, g := range groups {
		cmd := b.command(ctx, g, "list", "-deps", "-f", stale)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := b.run(cmd, download, func() { note("downloading Go modules: %d so far", downloads.Load()) }); err != nil {
			return nil, fmt.Errorf("counting the packages to compile in %s: %w", cmd.Dir, err)
		}
		for name := range strings.FieldsSeq(out.String()) {
			lacking[name] = true
		}
	}
	if len(lacking) > 0 {
		note("%d packages are to be compiled", len(lacking))
	}
	return &tally{total: len(lacking), start: time.Now()}, nil
}
