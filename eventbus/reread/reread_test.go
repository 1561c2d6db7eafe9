package reread_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus/reread"
	"switchyard.dev/eventbus/trust/trusttest"
)

// log keeps a log.
type log struct {
	sync.Mutex
	bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func (l *log) text() string {
	l.Lock()
	defer l.Unlock()
	return l.String()
}

func parse(text []byte) (*string, error) {
	if strings.HasPrefix(string(text), "bad") {
		return nil, errors.New("it is bad")
	}
	s := string(text)
	return &s, nil
}

func TestAFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"", "bad"} {
		if content != "" {
			trusttest.File(t, dir, "file", []byte(content))
		}
		if _, err := reread.Open(path, parse); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("opened with %q: %v", content, err)
		}
	}
	trusttest.File(t, dir, "file", nil)
	f, err := reread.Open(path, parse)
	if err != nil || *f.Current() != "" {
		t.Fatalf("%v, %v", f.Current(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var logged log
	go func() { _ = f.Run(ctx, slog.New(slog.NewTextHandler(&logged, nil))) }()
	becomes := func(want string) {
		t.Helper()
		f.Until(ctx, func(now *string) bool { return *now == want })
		if got := *f.Current(); got != want {
			t.Fatalf("the content is %q, not %q", got, want)
		}
	}
	trusttest.File(t, dir, "file", []byte("one"))
	becomes("one")
	trusttest.File(t, dir, "file", []byte("bad"))
	for ctx.Err() == nil && !strings.Contains(logged.text(), "it is bad") {
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil && !strings.Contains(logged.text(), "no such file") {
		time.Sleep(10 * time.Millisecond)
	}
	becomes("one")
	trusttest.File(t, dir, "file", []byte("two"))
	becomes("two")
	if n := strings.Count(logged.text(), "it is bad"); n != 1 {
		t.Errorf("a reason was logged %d times", n)
	}
}
