package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recorded"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

const aboutInspect = `Show recorded requests with their responses: those of a folder of traffic record --out-dir. On a
terminal it is a page to select requests with the keys, which follows a recording that is
still written. Elsewhere, or with -o json or yaml, it prints one line or record for each request.`

func inspectCommand(s *command.Session) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "inspect --dir FOLDER", Short: "Show recorded requests with their responses", Args: cobra.NoArgs, Long: aboutInspect,
		Example: "  switchyard traffic inspect --dir ./pr-12",
	}
	c.Flags().StringVarP(&dir, "dir", "d", "", "`folder` with recorded requests")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if dir == "" {
			return exit.Usage.Errorf("give --dir FOLDER with recorded requests")
		}
		if at, err := os.Stat(dir); err == nil && !at.IsDir() {
			return exit.Usage.Errorf("%s is a file: --dir takes the folder of %s traffic record --out-dir", dir, s.Name)
		}
		in := os.DirFS(dir)
		if from, ok := s.In.(*os.File); ok && s.Terminal && s.Show.Form == show.Table && term.IsTerminal(int(from.Fd())) {
			return inspectPage(c.Context(), s, in, from)
		}
		all, err := recorded.List(in)
		for _, m := range all {
			if err := printed(s, m); err != nil {
				return err
			}
		}
		return err
	}
	return c
}

// whole returns a request of List and its response, after an empty line.
func whole(in fs.FS, id string) (string, error) {
	request, err := fs.ReadFile(in, path.Join(id, published.RequestFile))
	if err != nil {
		return "", err
	}
	response, err := fs.ReadFile(in, path.Join(id, published.ResponseFile))
	if errors.Is(err, fs.ErrNotExist) {
		response, err = []byte("(no response was recorded)\n"), nil
	}
	return string(request) + "\r\n\r\n" + string(response), err
}

// inspectPage shows the page until the user ends it.
func inspectPage(ctx context.Context, s *command.Session, in fs.FS, from *os.File) error {
	fd := int(from.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	defer func() {
		_, _ = io.WriteString(s.Out, "\x1b[?25h\x1b[?1049l") // the cursor, and the screen as it was
		_ = term.Restore(fd, before)
	}()
	if _, err := io.WriteString(s.Out, "\x1b[?1049h\x1b[?25l"); err != nil {
		return err
	}
	p := &page{row: func(m published.Meta) string { return strings.TrimSuffix(line(s, m), "\n") }, open: func(id string) []string {
		text, err := whole(in, id)
		if err != nil {
			text = err.Error()
		}
		return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	}}
	keys := make(chan string)
	go typed(ctx, from, keys)
	for again := time.NewTicker(time.Second); ; {
		all, _ := recorded.List(in) // of a recording that is written, some are not whole yet
		p.width, p.height = 80, 24
		if w, h, err := term.GetSize(fd); err == nil {
			p.width, p.height = w, h
		}
		p.list(all)
		if _, err := io.WriteString(s.Out, "\x1b[H"+strings.Join(p.view(), "\x1b[K\r\n")+"\x1b[K\x1b[J"); err != nil {
			return err
		}
		select {
		case key, more := <-keys:
			if !more || p.press(key) {
				return nil
			}
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// typed sends keys until the terminal is closed or ctx ends. A terminal sends the bytes of a key at once.
func typed(ctx context.Context, from io.Reader, keys chan<- string) {
	defer close(keys)
	for buffer := make([]byte, 64); ; {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		for _, key := range split(string(buffer[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// split splits typed text into keys: a character each, or a sequence that begins with an escape.
func split(text string) (keys []string) {
	for text != "" {
		n := 1
		if strings.HasPrefix(text, "\x1b[") {
			n = 2 + strings.IndexFunc(text[2:], func(r rune) bool { return '@' <= r && r <= '~' }) + 1
		}
		if n < 3 && len(text) > 1 && text[:2] == "\x1b[" {
			n = len(text) // no sequence that ends
		}
		keys, text = append(keys, text[:n]), text[n:]
	}
	return keys
}
